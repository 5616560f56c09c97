"""Write assignments logs by hand for the tests of the audit, without the code of the service."""

import json
from fractions import Fraction
from typing import Any

from fair_allocator.audit import Audit, PoolRow, Report

Record = dict[str, Any]
ARMS = {"ann": "1/2", "bob": "1/4", "cyd": "0"}
FAIR = "ann bob cyd ann cyd ann bob ann"


class Book:
    """Writes the records of one pool. It computes entitlements by itself."""

    def __init__(
        self, arms: dict[str, str] = ARMS, tolerance: str = "0", bound: int | None = 0, **at: Any
    ) -> None:
        self.pool: str = at.get("pool", "tasks")
        self.partition: int = at.get("partition", 0)
        self.log: list[Record] = at.get("log", [])
        self.round: int = at.get("round", 1)
        self.epoch = 0
        self.rule = "none" if bound is None else "earliest-deadline"
        self.entitled: dict[str, Fraction] = {}
        self.pulls: dict[str, int] = {}
        self.quotas: dict[str, Fraction] = {}
        self.announce(arms, tolerance, bound, chunks=at.get("chunks", 1))

    def write(self, **fields: Any) -> None:
        last = self.log[-1]["folded"] if self.log else {"requests": 0, "controls": 0}
        requests = last["requests"] + (fields["type"] == "assignment")
        controls = last["controls"] + (fields["type"] == "epoch")
        folded = {"requests": requests, "rewards": requests // 2, "controls": controls}
        self.log.append({**fields, "partition": self.partition, "folded": folded})

    def announce(
        self,
        arms: dict[str, str] | None = None,
        tolerance: str | None = None,
        bound: int | None = None,
        *,
        complete: bool = True,
        again: bool = False,
        chunks: int = 1,
    ) -> "Book":
        """Write what is in force from the next round on: for every arm, or only changed quotas."""
        if complete and arms is not None:
            self.quotas = {}
            self.entitled = {arm: value for arm, value in self.entitled.items() if arm in arms}
            self.pulls = {arm: value for arm, value in self.pulls.items() if arm in arms}
        self.quotas |= {arm: Fraction(quota) for arm, quota in (arms or {}).items()}
        if tolerance is not None:
            self.tolerance, self.bound = tolerance, bound
        self.epoch += not again
        named = list(self.quotas if complete else arms or {})
        for chunk in range(chunks):
            self.write(
                type="epoch", pool=self.pool, epoch=self.epoch, round=self.round, rule=self.rule,
                tolerance=self.tolerance, bound=self.bound, complete=complete,
                chunk=chunk, chunks=chunks,
                arms={arm: self.standing(arm) for arm in named[chunk::chunks]},
            )  # fmt: skip
        return self

    def standing(self, arm: str) -> Record:
        entitled, pulls = self.entitled.get(arm, 0), self.pulls.get(arm, 0)
        return {"quota": str(self.quotas[arm]), "entitled": str(entitled), "pulls": pulls}

    def play(self, arms: str) -> "Book":
        """Give the next rounds to these arms."""
        for arm in arms.split():
            self.write(
                type="assignment", request_id=f"{self.pool[:9]} {self.round}", pool=self.pool,
                arm=arm, round=self.round, epoch=self.epoch, reason="learner", propensity=None,
            )  # fmt: skip
            self.round += 1
            for name, quota in self.quotas.items():
                self.entitled[name] = self.entitled.get(name, Fraction(0)) + quota
            self.pulls[arm] = self.pulls.get(arm, 0) + 1
        return self

    def repeat(self, **changes: Any) -> "Book":
        """Write the assignment at offset 5 again, as a repeat with some changed fields."""
        self.write(**{**self.log[5], "repeat": True, **changes})
        return self

    def remove(self) -> "Book":
        self.write(type="removed", pool=self.pool, rounds=self.round - 1)
        return self.pretend(round=1, epoch=0, entitled={}, pulls={})

    def pretend(self, **values: Any) -> "Book":
        """Replace values that this object has computed, so that the next records are wrong."""
        vars(self).update(values)
        return self


def audit(log: list[Record], start: int = 0, **options: Any) -> Report:
    audit = Audit(**options)
    for offset, record in enumerate(log, start):
        audit.feed(record.pop("at", record["partition"]), offset, json.dumps(record).encode())
    return audit.report()


def row(report: Report) -> PoolRow:
    """Return the row of the only pool in a report. The report must have no offences."""
    assert report.ok, report.first
    (row,) = report.pools
    return row
