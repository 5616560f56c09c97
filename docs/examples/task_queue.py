"""A task queue: workers with skills and shifts give three answers to every task.

A task is held back until three who can do it are free; the service picks who gets it.
"""

import json
from collections import Counter, deque
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from fair_allocator.audit import Audit, Report
from fair_allocator.config import Configuration
from fair_allocator.log import LogClient
from fair_allocator.service import Service
from fair_allocator.wiring import open_client, open_log, service_settings

SHIFT, KINDS = 10, ["text", "photo"]  # turns until the shift changes; kinds of tasks
SKILLS = {name: KINDS[: 1 + place % 2] for place, name in enumerate("ABCDEFGHIJKL")}
SHIFTS = [list(SKILLS)[:8], list(SKILLS)[4:]]  # early and late; four workers are in both
POOL = {"arms": dict.fromkeys(SKILLS, "1/15"), "tags": SKILLS, "requests": "any", "bank": 2}
POOL |= {"max_open": 1, "reassign": True}  # one open task each; a worker who declines is replaced


class Queue:
    """Sends tasks to the service's log, and gives the assigned tasks to workers."""

    def __init__(self, client: LogClient, tasks: int) -> None:
        self.client, self.random = client, Random(7)
        self.todo = deque((f"task-{n}", self.random.choice(KINDS)) for n in range(tasks))
        self.open: dict[str, str] = {}  # the task that a worker is at
        self.did, self.declined = Counter[str](), Counter[str]()
        self.unsettled = 0  # requests and declines that the service has not answered yet
        self.read = {"assignments": 0, "dead-letters": 0}

    def send(self, topic: str, **event: Any) -> None:
        self.client.append(topic, b"queue", json.dumps({"pool": "queue", **event}).encode())

    def look(self) -> None:
        """Read the assignments; a task that everybody declined is a dead letter."""
        for topic, position in self.read.items():
            for record in self.client.read(topic, 0, position):
                self.read[topic] = record.offset + 1
                event = json.loads(record.value or b"")
                self.unsettled -= topic == "dead-letters" or event["type"] == "assignment"
                for pick in (event, *event.get("others", ())) if "arm" in event else ():
                    self.open[pick["arm"]] = event["request_id"]

    def turn(self, number: int) -> None:
        """Change the shift, work, and send a task if three workers who can do it are free."""
        shift = SHIFTS[number // SHIFT % 2]
        if number % SHIFT == 0:
            self.send("controls", action="wake", arms=shift)
            self.send("controls", action="sleep", arms=[w for w in SKILLS if w not in shift])
        for worker in sorted(self.open):
            if self.random.random() < 0.5:
                self.finish(worker)
        task, kind = self.todo[0] if self.todo else ("", "")
        free = [w for w in shift if kind in SKILLS[w] and w not in self.open]
        if len(free) >= 3 and not self.unsettled:
            self.send("requests", request_id=task, needs=kind, slots=3)
            self.unsettled += 1
            self.todo.popleft()

    def finish(self, worker: str) -> None:
        """Let a worker answer or decline; after a decline, the service picks somebody else."""
        task, declines = self.open.pop(worker), self.random.random() < 0.1
        right = float(self.random.random() < 0.7)
        event: dict[str, Any] = {"type": "declined"} if declines else {"value": right}
        self.send("rewards", request_id=task, arm=worker, **event)
        self.unsettled += declines
        (self.declined if declines else self.did)[worker] += 1


def main(tasks: int = 60) -> tuple[Queue, Report]:
    """Work until all is done; print who did what, and the audit's verdict."""
    with TemporaryDirectory() as folder:
        section = {"path": Path(folder, "queue.db"), "partitions": 1}
        configuration = Configuration.model_validate({"log": section, "pools": {"queue": POOL}})
        log, audit = open_log(configuration), Audit()
        with open_client(configuration, create=True) as client, closing(log):
            log.open(service := Service(log, service_settings(configuration, 1)))
            queue, turns = Queue(client, tasks), count()
            while queue.todo or queue.open or queue.unsettled:
                queue.turn(next(turns))
                service.step()
                queue.look()
            for record in client.read("assignments", 0):
                audit.feed(0, record.offset, record.value or b"")
    for worker, skills in SKILLS.items():
        print(worker, f"{queue.did[worker]:3} did, {queue.declined[worker]:2} declined", *skills)
    print(*audit.report().lines(), sep="\n")
    return queue, audit.report()


if __name__ == "__main__":
    main()
