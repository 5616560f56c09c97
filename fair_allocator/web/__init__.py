"""One HTTP server on a thread of its own, for whatever is served; it knows nothing of pools.

server       binds, accepts and serves while a block runs
connection   one connection: uvicorn's protocol with deadlines and a bound on every part
headers      of every answer
joining      head and beginning of an answer in one system call
crowd        all connections by what they wait for: who is cut off, and who makes room
listening    the listening socket
application  routes of several parts as one application: host check, body limit, headers, errors
access       which rights a request has: by its token, or because nobody needs one
tokens       tokens with rights in a file that is read again when it changes
hosts        names and addresses by which a server may be called
problem      errors as problem+json
tls          certificate files, loaded again when they change
bounds       how much, how many and how long
"""
