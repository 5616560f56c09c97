"""Exact fair selection, pure: no I/O, no clock, no threads, no logging.

pool       how a pool is made, changed and stored
decisions  how it decides: requests, rewards, arms that go and come back
figures    what can be read of it; table shows it in rows
fairness   which rule, quotas, bound and bank are in force
admission  what of a change is safe now
safety     which states are safe: the invariant that every promise rests on
forcing    whom a plain request must serve: max deficit or earliest deadline
general    whom a request must serve that names arms or slots
guarantee  what is promised, under which rule
arms       what is known of each arm, and the exact line of its entitlement
presence   who is here: asleep, busy, eligible; all_but names those left out
caps       most shares
requests   open requests, and the answered ones that are remembered
proposals  what a learner proposes, checked
learners   one file each over one small interface
among      which arms a learner may choose among
kinetic    the top of many moving lines
draws      random numbers without a state
quotas     shares and tolerances as fractions; numbers and texts read what users hand in
regret     regret, r-regret and the paper's bounds
compiling  what mypyc must know of a class
"""

from typing import Final

from fair_allocator.core import kinetic

FORM: Final = "pure Python" if kinetic.__file__.endswith(".py") else "compiled"
"""The form of the hot rooms in this installation (hatch_build.py); both behave the same."""
