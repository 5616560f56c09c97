"""A nursery of services that are to be killed.

    python -m tests.crash.child FILE

For every line it reads it forks one process that serves the log, and answers with its pid; when
that process has ended, it answers with the status. Forking spares each the imports. Told "serve",
a process serves until it is killed; told "finish", until it has read all there is.
"""

import os
import sys
from typing import Any

from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.service import FilePool, Service, ServiceSettings
from fair_allocator.shard import ShardSettings

PARTITIONS = 2
TEMPLATE: dict[str, Any] = {
    "arms": {"a": "1/2", "b": "1/4", "c": 0},
    "reward_timeout": 0.08,
    "default_reward": 0.5,
}
POOLS: dict[str, dict[str, Any]] = {
    "file-1": {"arms": {"x": "1/3", "y": "1/3", "z": "1/3"}, "learner": "thompson"},
    "file-2": {"arms": {"a": "0.9", "b": 0}, "learner": "exp3", "tolerance": 1},
}
SETTINGS = ServiceSettings(
    shard=ShardSettings(
        seed=11,
        partitions=PARTITIONS,
        pending_per_pool=20,
        remembered_per_pool=30,
        retire_after=50,
        standing_every=20,
        template=TEMPLATE,
        template_fingerprint="1",
    ),
    pools={name: FilePool(settings, "1") for name, settings in POOLS.items()},
    batch_records=7,
    ahead_records=2,
    poll_seconds=0.005,
    tick_seconds=0.02,
    snapshot_entries=5,
    snapshot_chunk_bytes=2_000,
)


class Finishing:
    """Stops a service that has read all there is."""

    def __init__(self, log: SqliteLog) -> None:
        self.service = Service(log, SETTINGS, heartbeat=self._beat)
        self._log = log

    def _beat(self) -> None:
        if len(self.service.shards) == PARTITIONS and not any(self._log.behind().values()):
            self.service.stop()


def serve(path: str, order: str) -> None:
    log = SqliteLog(path, PARTITIONS)
    service = Finishing(log).service if order == "finish" else Service(log, SETTINGS)
    service.run()


def main(path: str) -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                serve(path, line.strip())
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        # Not reaped before its end was told, so that its pid is nobody else's meanwhile.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        print(ended.si_status if ended is not None else "", flush=True)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
