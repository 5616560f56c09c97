"""Experiments: the paper's figures, instances of your own, and the price of a quota.

policies   an instance (means, quotas) and the policies that are compared on it
chance     the random numbers of a run, which depend only on (seed, run, round)
batch      the vectorised engine: many runs at once in numpy
single     the same as batch, but with the core's own `Pool`, run by run
spread     divides the runs of a job among processes
regret     regret and r-regret of many runs, and the paper's bounds for each point of a curve
figures    Figures 2, 3 and 4 of the paper as numbers
findings   which claims of the paper agree with those numbers
scenario   an instance of your own, read from TOML
world      rewards, delays and losses of a scenario
trial      plays the policies of a scenario with the core's own `Pool`
advice     what quotas and a tolerance cost
crowd      workers who are there for some requests only, and contestants that serve them
crowd_measures  shortfall, gap, regret and share of a crowd
answers    a real crowd: a file of graded answers
drawing, drawing_answers  PNG and SVG
writing    JSON, CSV and Markdown
"""
