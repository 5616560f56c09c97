"""Watch the service: metrics, health and a live page, on one port.

metrics     every metric: its name, kind, labels and meaning
observer    counts what the loop reports, and publishes views of it
tallies     the loop's own counts
view        copies of the pools, each as of a commit
looking     copies the pools that changed, on the loop itself between two steps
figures     numbers worked out from a view: violations, shares, regret
digest      a view with its figures
selection   chooses the pools and arms with series of their own, if there are too many
exposition  the text of `/metrics` about pools
families    the counters, histograms and gauges of the loop, as Prometheus families
health      whether the loop is alive, and whether it serves
history     the recent past of a few numbers, for the charts
api         the JSON of the page
pacing      how often a client may get an answer
controls    whether the page may change pools, and what other quotas would cost
renewing    renews an expensive report before clients ask for it
reporter    turns views into figures, metrics, JSON and history, each once for all clients
streams     sends events to the watching pages, once a second
routes      the paths, and the rights they need
assets      the files of page/, the page itself

Data goes one way, from the service's loop to clients. A *view* is a copy of the pools. When a
client has asked for a view, the loop copies right after a commit what has changed since the last
view. All other work happens on other threads. So a scrape of the metrics sees only committed state,
and never the middle of a step. The loop never waits for a client.
"""
