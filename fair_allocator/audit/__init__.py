"""The independent audit: every guarantee recomputed from the assignments topic alone.

It reads the public records one by one, in memory that does not grow with the log. It decides
nothing, and shares no code with the rooms that do.

>>> report = audit_ndjson([b'{"type": "assignment"}'])
>>> report.ok, report.offences
(False, 1)
"""

from fair_allocator.audit.reader import WINDOW, Audit, audit_ndjson
from fair_allocator.audit.report import Offence, PoolRow, Report

__all__ = ["Audit", "audit_ndjson", "Offence", "PoolRow", "Report", "WINDOW"]
