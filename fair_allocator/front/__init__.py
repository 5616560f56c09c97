"""The HTTP API: it takes requests, rewards, declines and controls, and answers after the commit.

front      puts the parts together, and serves them as a part of an application
operations what each path does
asking     turns a client's JSON into a record, or into a problem that names the field
line       the way to the log and back: records out, committed outputs in
within     the same, if the service runs in this process
appending  the thread that appends records to the log, in batches
following  the thread that reads the outputs as they are committed
answers    the latest answers, and the clients that wait for one
waiting    the kinds of waiting clients
outcomes   what the output records say about a request
streams    assignments as server-sent events
answering  outcomes as JSON
models     the answers' models, for the description
openapi    the description of the whole API
metrics    the metrics of the API
"""
