"""One HTTP server on its own thread, for any set of routes; it knows nothing of pools.

server       accepts connections and serves them while a block runs
connection   one connection: uvicorn's protocol with deadlines and a bound on every part
headers      the headers of every answer
crowd        all connections by phase: which are too slow, and which to close to make room
listening    the listening socket
application  routes of several parts as one application: host check, body limit, headers, errors
access       which rights a request has: by its token, or because the server needs no token
tokens       tokens with rights in a file that is read again when it changes
hosts        names and addresses that clients may use for a server
problem      errors as problem+json
tls          certificate files, loaded again when they change
bounds       limits on sizes, numbers and times
"""
