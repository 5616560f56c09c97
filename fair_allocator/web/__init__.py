"""One HTTP server on its own thread, for any routes. It does not depend on what they serve.

server       accepts connections and serves them while a block runs
connection   one connection: uvicorn's protocol with deadlines and a bound on every part
headers      the headers of every answer
crowd        all connections by phase: it ends those that are too slow, and makes room for new ones
listening    the listening socket
application  routes of several parts as one application: host check, body limit, headers, errors
access       whether a request is allowed: by its Host header, its token and its page
tokens       tokens with rights in a file that is read again when it changes
hosts        reads Host headers, and recognises this machine's own names
problem      errors in the format problem+json
tls          certificate files, loaded again when they change
bounds       limits on sizes, numbers and times
"""
