// Links to a request.

export const address = ({ pool, partition, request_id: request }) =>
  `#${new URLSearchParams({ pool, partition, request })}`;
