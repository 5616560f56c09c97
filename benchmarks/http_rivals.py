"""A simple application that a team might write instead of using the service. It chooses by UCB1.

    python -m benchmarks.http_rivals memory|sqlite PORT FILE

`memory` keeps its counts in memory, and loses them when the process ends. `sqlite` writes every
choice to a table before it answers, and a repeated request gets its first answer. It takes an
afternoon to write. Neither guarantees a share to any arm.
"""

import json
import math
import sqlite3
import sys
import threading
from uuid import uuid4

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

ARMS = ("ann", "bob", "cyd")


class Ucb1:
    def __init__(self) -> None:
        self.pulls = dict.fromkeys(ARMS, 0)
        self.sums = dict.fromkeys(ARMS, 0.0)

    def choose(self) -> str:
        total = sum(self.pulls.values()) + 1

        def bound(arm: str) -> float:
            pulls = self.pulls[arm]
            if not pulls:
                return math.inf
            return self.sums[arm] / pulls + math.sqrt(2 * math.log(total) / pulls)

        arm = max(ARMS, key=bound)
        self.pulls[arm] += 1
        return arm


def memory() -> Starlette:
    learner, answers = Ucb1(), dict[str, str]()

    async def ask(request: Request) -> JSONResponse:
        body = await request.body()
        request_id = (json.loads(body) if body else {}).get("request_id") or uuid4().hex
        arm = answers.get(request_id)
        if arm is None:
            arm = answers[request_id] = learner.choose()
        return JSONResponse({"request_id": request_id, "arm": arm})

    return Starlette(routes=[Route("/v1/pools/{pool}/requests", ask, methods=["POST"])])


def durable(path: str) -> Starlette:
    learner, lock = Ucb1(), threading.Lock()
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS choices (id TEXT PRIMARY KEY, arm TEXT)")

    def choose(request_id: str) -> str:
        with lock:
            found = database.execute("SELECT arm FROM choices WHERE id = ?", (request_id,))
            row = found.fetchone()
            if row is not None:
                return str(row[0])
            arm = learner.choose()
            database.execute("INSERT INTO choices VALUES (?, ?)", (request_id, arm))
            return arm

    async def ask(request: Request) -> JSONResponse:
        body = await request.body()
        request_id = (json.loads(body) if body else {}).get("request_id") or uuid4().hex
        arm = await run_in_threadpool(choose, request_id)
        return JSONResponse({"request_id": request_id, "arm": arm})

    return Starlette(routes=[Route("/v1/pools/{pool}/requests", ask, methods=["POST"])])


if __name__ == "__main__":
    kind, port, file = sys.argv[1:]
    app = memory() if kind == "memory" else durable(file)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", access_log=False)
