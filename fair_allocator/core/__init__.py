"""Exact fair selection, pure: no I/O, no clock, no threads, no logging.

arms      what is known of each arm, and the exact line of its entitlement
quotas    shares and tolerances as fractions
forcing   who must be served now: max deficit or earliest deadline
guarantee what is promised, under which rule
fairness  which rule, quotas and bound are in force, and how changes take effect
kinetic   the top of many moving lines
draws     random numbers without a state
learners  one file each over one small interface
requests  open requests, and the answered ones that are remembered
pool      the state machine of one pool
regret    regret, r-regret and the paper's bounds
compiling what mypyc must know of a class
"""

from typing import Final

from fair_allocator.core import kinetic

FORM: Final = "pure Python" if kinetic.__file__.endswith(".py") else "compiled"
"""In which form the hot rooms are here (hatch_build.py); what they do is the same."""
