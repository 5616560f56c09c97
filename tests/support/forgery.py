"""Forge an assignments topic, as an attacker can who may write to the log but has no key."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from tests.support.chained import chain_of

Values = list[bytes]
Forgery = Callable[[Values, Random], None]


def kind_of(value: bytes) -> str:
    return str(json.loads(value)["type"])


def edited(value: bytes, **changes: Any) -> bytes:
    """Return the value of a record with changed fields, in the form that the service writes."""
    return json.dumps(
        {**json.loads(value), **changes}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def assignments(values: Values) -> list[int]:
    return [at for at, value in enumerate(values) if kind_of(value) == "assignment"]


# -- forgeries ------------------------------------------------------------------------------------


def change_byte(values: Values, rng: Random) -> None:
    at = rng.randrange(len(values))
    value = bytearray(values[at])
    value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
    values[at] = bytes(value)


def change_id(values: Values, rng: Random) -> None:
    at = rng.choice(assignments(values))
    values[at] = edited(values[at], request_id=f"forged-{rng.randrange(10**6)}")


def swap_arms(values: Values, rng: Random) -> None:
    """Swap the arms of two requests."""
    one, two = rng.sample(assignments(values), 2)
    arms = json.loads(values[one])["arm"], json.loads(values[two])["arm"]
    values[one], values[two] = edited(values[one], arm=arms[1]), edited(values[two], arm=arms[0])


def swap(values: Values, rng: Random) -> None:
    one, two = rng.sample(range(len(values)), 2)
    values[one], values[two] = values[two], values[one]


def drop(values: Values, rng: Random) -> None:
    at = rng.randrange(len(values))
    del values[at : at + rng.choice((1, 1, 2, 8, 16, 32))]


def insert(values: Values, rng: Random) -> None:
    value = values[rng.choice(assignments(values))]
    values.insert(rng.randrange(len(values) + 1), edited(value, request_id="inserted"))


def duplicate(values: Values, rng: Random) -> None:
    at = rng.randrange(len(values))
    values.insert(rng.randrange(at, len(values) + 1), values[at])


def cut_tail(values: Values, rng: Random) -> None:
    del values[rng.randrange(len(values)) :]


def cut_beginning(values: Values, rng: Random) -> None:
    del values[: rng.randrange(1, len(values))]


def replace_one_by_another(values: Values, rng: Random) -> None:
    """Remove a record and insert another one, so that the number of records stays the same."""
    drop_at = rng.randrange(len(values))
    del values[drop_at]
    insert(values, rng)


PLAIN: dict[str, Forgery] = {
    forgery.__name__: forgery
    for forgery in (
        change_byte,
        change_id,
        swap_arms,
        swap,
        drop,
        insert,
        duplicate,
        cut_tail,
        cut_beginning,
        replace_one_by_another,
    )
}


def rechained(values: Values, every: int, partition: int = 0) -> Values:
    """Return the records with all checkpoints computed again, for which no key is needed."""
    result: Values = []
    for value in values:
        if value.startswith(b'{"type":"checkpoint"'):
            continue
        if len(result) % every == 0:
            said = {"type": "checkpoint", "records": len(result), "chain": chain_of(result)}
            result.append(
                json.dumps({**said, "partition": partition}, separators=(",", ":")).encode()
            )
        result.append(value)
    return result


# -- on the file of an embedded log ---------------------------------------------------------------


class LogFile:
    """Edits the assignments of one partition in the file of an embedded log."""

    def __init__(self, path: Path, partition: int, topic: str = "assignments") -> None:
        self._path = path
        self._place = topic, partition

    def values(self) -> Values:
        with closing(sqlite3.connect(self._path)) as file:
            return [value for _, _, _, value in self._rows(file)]

    def _base(self, file: sqlite3.Connection) -> int:
        found = file.execute(
            'SELECT base FROM streams WHERE topic = ? AND "partition" = ?', self._place
        ).fetchone()
        return int(found[0])

    def _rows(self, file: sqlite3.Connection) -> list[tuple[int, int, bytes, bytes]]:
        base = self._base(file)
        rows = file.execute(
            "SELECT * FROM records WHERE id BETWEEN ? AND ? ORDER BY id", (base, base + (1 << 40))
        )
        (end,) = file.execute("SELECT next FROM streams WHERE base = ?", (base,)).fetchone()
        return [row for row in rows if row[0] < base + end]

    def trim(self, start: int) -> None:
        """Hide the records before `start`, as retention does."""
        with closing(sqlite3.connect(self._path)) as file, file:
            file.execute("UPDATE streams SET start = ? WHERE base = ?", (start, self._base(file)))

    def write(self, values: Values) -> None:
        """Replace all records by others, from the same offset on."""
        with closing(sqlite3.connect(self._path)) as file, file:
            rows, base = self._rows(file), self._base(file)
            file.execute("DELETE FROM records WHERE id BETWEEN ? AND ?", (rows[0][0], rows[-1][0]))
            for number, value in enumerate(values):
                old = rows[min(number, len(rows) - 1)]
                pool = json.loads(value).get("pool")
                key = None if pool is None else pool.encode()
                file.execute(
                    "INSERT INTO records VALUES (?, ?, ?, ?)",
                    (rows[0][0] + number, old[1], key, value),
                )
            end = rows[0][0] - base + len(values)
            file.execute("UPDATE streams SET next = ? WHERE base = ?", (end, base))
