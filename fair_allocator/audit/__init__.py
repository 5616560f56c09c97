"""The independent audit: every guarantee recomputed from the assignments topic alone.

The audit reads the published records one by one. Its memory does not grow with the log. It makes no
decisions, and shares no code with the modules that decide. Only `replay` decides again, on purpose.
docs/audit.md explains the words.

>>> report = audit_ndjson([b'{"type": "assignment"}'])
>>> report.ok, report.offences
(False, 1)
"""

from fair_allocator.audit.reader import WINDOW, Audit, audit_ndjson
from fair_allocator.audit.report import Offence, PoolRow, Report

__all__ = ["Audit", "audit_ndjson", "Offence", "PoolRow", "Report", "WINDOW"]
