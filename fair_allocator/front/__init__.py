"""The HTTP API: takes requests, rewards, declines and controls, and answers what was committed.

front      puts the parts together, and serves them as a part of an application
operations what each path does
asking     from a client's JSON to a record, or to a problem that names the field
appending  the thread that makes records durable, all that gathered in one go
following  the thread that reads the outputs as they are committed
answers    the answers that were heard lately, and who waits for one
waiting    those who wait
outcomes   what the records of the outputs say of a request
streams    assignments as server-sent events
answering  outcomes as JSON
models     the answers' models, for the description
openapi    the description of all of it
metrics    what it counts
"""
