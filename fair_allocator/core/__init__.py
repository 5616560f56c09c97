"""Exact fair selection, pure: no I/O, no clock, no threads, no logging.

pool       how a pool is made, changed and stored
decisions  how a pool decides: requests, rewards, arms that go and come back
figures    the readable figures of a pool; table shows them in rows
fairness   which rule, quotas, bound and bank are in force
admission  which parts of a wanted change can come into force now
safety     which states are safe: from an unsafe state, no rule can keep the promise
forcing    which arm a plain request must serve: max deficit or earliest deadline
general    which arms a request must serve if it names arms or slots
deadlines  the deadlines of these arms: a heap and a timing wheel
guarantee  what is promised, under which rule
arms       what the pool knows of each arm: counts, rewards, and the exact entitlement
presence   which arms are asleep, busy or eligible; all_but names the arms left out
caps       maximum shares
requests   open requests, and the answered ones that are remembered
proposals  checks what a learner proposes
learners   the learners: one file each, all with the same small interface
among      the set of arms that a learner may choose from
kinetic    finds the highest of many straight lines at a place that moves on
draws      random numbers, each computed from the seed, the pool and the round
quotas     shares and tolerances as fractions; `numbers` and `texts` read what users pass in
regret     regret, r-regret and the paper's bounds
compiling  hints on classes for mypyc

docs/theory.md explains the words quota, entitlement, bound, bank, owed and deadline. The docstrings
also use these words:

pull       one arm gets one request
forced     a pull is forced if the fairness rule picked the arm; otherwise the learner chose the arm
slot       one place for an arm in a request: a request that wants three arms has three slots
clock      a count of slots: the pool's clock counts all slots, and an arm's own clock counts only
           the slots of requests for which the arm was eligible
away       an arm is away while it is asleep, or busy because it has as many open assignments as it
           may have; all other arms are present
"""

from typing import Final

from fair_allocator.core import kinetic

FORM: Final = "pure Python" if kinetic.__file__.endswith(".py") else "compiled"
"""Whether this installation has compiled modules (hatch_build.py). Both forms behave the same."""
