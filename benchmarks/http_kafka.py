"""Measure what a gateway adds to the time of an answer on Kafka.

One service and one gateway run on one broker. In each turn the same requests are sent twice, at the
same pace, each with a reward some time later. The first time, a client of the log appends them to
the topics and sees the answers in the assignments (*native*). The second time, they are sent to the
gateway. The difference is what HTTP adds. The requests come one by one, or in bursts. The native
client appends a burst at once. The gateway may get a burst in two parts.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.http_client import Paced, free_port, wait_for
from benchmarks.kafka import House, our_process, spread
from benchmarks.kafka_feed import POOLS, event
from benchmarks.kafka_latency import REWARD_LAG, Measured, measured
from fair_allocator.log.kafka import KafkaSettings
from tests.support.broker.choice import private_broker
from tests.support.broker.java import FOR_LONG

PER_SECOND = 100
"""Requests per second: a pace that service, gateway, broker and client can keep up on two cores."""

CONNECTIONS = 64
BURSTS = (1, 5)
"""How many requests come at once."""


@contextmanager
def gateway(house: House, settings: KafkaSettings) -> Iterator[int]:
    """Run a gateway until the block ends; yield its port."""
    port, file = free_port(), house.folder / "gateway.toml"
    text = house.configured(settings).read_text()
    file.write_text(text.replace('port = "none"', f"port = {port}"))
    command = [sys.executable, "-m", "fair_allocator", "gateway", "--config", str(file)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
        try:
            wait_for("GET", f"http://127.0.0.1:{port}/readyz")
            yield port
        finally:
            child.terminate()


async def over_http(port: int, first: int, seconds: float, burst: int) -> Measured:
    """Send requests over HTTP for some seconds, with rewards some time after them."""
    client = Paced(port, CONNECTIONS)
    await client.connect()
    began = time.perf_counter()
    for begin in range(0, int(PER_SECOND * seconds), burst):
        due = began + begin / PER_SECOND
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        for number in range(begin, begin + burst):
            client.send(due, *_call("requests", first + number))
            if number >= REWARD_LAG:
                client.send(None, *_call("rewards", first + number - REWARD_LAG))
    await client.finish()
    return Measured([1e3 * each for each in client.took])


def _call(topic: str, number: int) -> tuple[bytes, bytes]:
    said = {"request_id": f"r{number}"} | ({"value": 0.5} if topic == "rewards" else {})
    return f"/v1/pools/pool-{number % POOLS}/{topic}".encode(), json.dumps(said).encode()


def compare(client: str, seconds: float, turns: int) -> list[list[object]]:
    """Return p50 and p99 of both ways over the turns, and how much HTTP adds."""
    rows: list[list[object]] = [[f"{client}, {PER_SECOND}/s", "p50 ms", "p99 ms", "added at p50"]]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        private_broker(Path(folder, "broker"), machine=FOR_LONG) as broker,
    ):
        house = House(client, ("exactly_once",), broker.bootstrap, Path(folder))
        settings = house.log("http")
        with (
            our_process(house, settings),
            gateway(house, settings) as port,
            house.sender(settings) as sender,
        ):
            numbers = iter(range(0, 10**9, 10**6))
            for burst in BURSTS:
                native, http = list[Measured](), list[Measured]()
                for _ in range(turns):
                    begin = next(numbers)
                    native.append(
                        measured(settings, sender, event, PER_SECOND, seconds, begin, burst)
                    )
                    http.append(asyncio.run(over_http(port, next(numbers), seconds, burst)))
                rows += compared(burst, native, http)
    return rows


def compared(
    burst: int, native: Sequence[Measured], http: Sequence[Measured]
) -> list[list[object]]:
    """Return a row for each way, with the spread over the turns."""
    rows: list[list[object]] = []
    for name, found in (("native", native), ("gateway", http)):
        quantiles = (spread([each.quantile(part) for each in found]) for part in (0.5, 0.99))
        rows.append([f"{name}, {burst} at once", *quantiles, ""])
    pairs = zip(http, native, strict=True)
    rows[-1][-1] = spread([each.quantile(0.5) - other.quantile(0.5) for each, other in pairs])
    return rows
