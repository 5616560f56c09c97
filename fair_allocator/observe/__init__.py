"""Watching the service: metrics, health and a live page, all read-only and on one port.

metrics     every metric: its name, kind, labels and meaning
observer    what the loop tells, counted per commit; and the views it hands out
view        a copy of the pools as of a commit, taken by the loop itself between two steps
figures     what follows from a view: violations, shares, regret
selection   which pools and arms have series of their own, where there are too many
exposition  the text of `/metrics`
stream      the counters, histograms and gauges of the loop, as Prometheus families
health      whether the loop lives, and whether it serves
history     the recent past of a few numbers, for the charts
api         the JSON of the page
pacing      how often a client may be answered
reporter    views turned into figures, metrics, JSON and history: each once, for all clients
streams     what watching pages are sent, once a second
routes      the paths, and the rights they need
page/       the page itself

Data goes one way: the loop copies what changed since the last view when somebody has asked for
one, right after a commit; everything else happens on threads of its own. So a scrape
sees committed state only, never half a step, and the loop waits for nobody.
"""
