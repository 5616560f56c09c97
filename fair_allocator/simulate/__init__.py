"""Experiments: the paper's figures, instances of one's own, and the price of a quota.

policies   an instance (means, quotas) and the policies that are compared on it
chance     the rewards of a run, a function of (seed, run, round) alone
batch      the vectorised engine: many runs at once in numpy
single     the same by the core's own `Pool`, run by run
spread     the runs of a job over processes
regret     regret and r-regret of many runs, and the paper's bounds along a curve
figures    Figures 2, 3 and 4 of the paper as numbers
findings   what agrees with the paper and what does not, from those numbers
scenario   an instance of one's own, read from TOML
world      its rewards, delays and losses
trial      what its policies do in it, by the core
advice     what quotas and a tolerance cost
crowd      workers who come and go from request to request, and contestants for serving them
crowd_measures  shortfall, gap, regret and share in it, from who was there and who was picked
drawing    PNG and SVG
writing    JSON, CSV and Markdown
"""
