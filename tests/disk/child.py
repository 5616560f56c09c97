"""A nursery of processes whose disk fails once.

    LD_PRELOAD=faults.so python -m tests.disk.child

It reads an order a line, as JSON, forks a process that carries it out, and answers with the status
of that process and with the number of calls that it made on the files. Forking spares each the
imports.
"""

import ctypes
import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fair_allocator.cli import main, run
from fair_allocator.errors import LogError
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.service import Service
from tests.crash.child import PARTITIONS

_shim = ctypes.CDLL(None)


def _finishing(log: SqliteLog, *arguments: Any, heartbeat: Any, **options: Any) -> Service:
    """Return a service that stops when it has read all there is."""

    def beat() -> None:
        heartbeat()
        with suppress(LogError):
            if len(service.shards) == PARTITIONS and not any(log.behind().values()):
                service.stop()

    service = Service(log, *arguments, heartbeat=beat, **options)
    return service


def _serve(path: str) -> int:
    with patch.object(run, "Service", _finishing):
        return main(["run", "--config", f"{Path(path).parent}/settings.toml"])


def _send(path: str) -> int:
    """Append records one by one; write down which of them were acknowledged."""
    acknowledged = []
    for number in range(8):
        with suppress(LogError), SqliteClient(path, PARTITIONS) as client:
            client.append("requests", b"file-1", b"%d" % number)
            acknowledged.append(number)
            Path(path).with_name("acknowledged").write_text(json.dumps(acknowledged), "utf-8")
    return 0


_STORIES = {"serve": _serve, "send": _send}


def _carry_out(order: dict[str, Any], answers: int) -> None:
    os.dup2(os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    path = order["path"]
    _shim.fault_arm(path.encode(), ctypes.c_long(order["at"]), order["error"], order["manner"])
    code = _STORIES[order["story"]](path)
    _shim.fault_calls.restype = ctypes.c_long
    os.write(answers, b"%d" % _shim.fault_calls())
    os._exit(code)


def nursery() -> None:
    for line in sys.stdin:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _carry_out(json.loads(line), writer)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(writer)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        calls = os.read(reader, 20) or b"0"
        os.close(reader)
        print(json.dumps([status, int(calls)]), flush=True)


if __name__ == "__main__":
    nursery()
