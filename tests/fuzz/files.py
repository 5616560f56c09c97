"""Exports that were changed by hand, checksum included: refused by name, or imported and fair."""

import json
import warnings
from collections import Counter
from hashlib import blake2b
from io import BytesIO
from random import Random

from fair_allocator.errors import FairAllocatorError
from fair_allocator.shard import ShardSettings
from fair_allocator.transfer import place_pools, state_file
from tests.fuzz.corpus import corpus, mutated
from tests.fuzz.damage import damaged
from tests.fuzz.states import go_on, served_shard

PARTITIONS = 2


def play_files(seed: int, inputs: int) -> Counter[str]:
    """Damage an export and seal it anew; what is accepted must be served and keep its promise."""
    rng, outcomes = Random(f"files {seed}"), Counter[str]()
    lines = [line.rstrip(b"\n") for line in state_file.write([served_shard(seed)])][:-1]
    kept = corpus("files")
    settings = ShardSettings(partitions=PARTITIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of learners that know nonsense
        for number in range(inputs):
            forged = list(lines)
            at = rng.randrange(len(forged))
            if number < len(kept):
                forged[min(number % 2, len(forged) - 1)] = kept[number]
            elif rng.random() < 0.6:
                forged[at] = json.dumps(damaged(json.loads(forged[at]), rng)).encode()
            else:
                forged[at] = mutated(forged[at], kept, rng)
            data = _sealed(forged)
            if rng.random() < 0.05:
                data = data[: rng.randrange(len(data))]
            outcomes[_import(data, settings, rng)] += 1
    return outcomes


def _import(data: bytes, settings: ShardSettings, rng: Random) -> str:
    try:
        content = state_file.read(BytesIO(data), "forged")
        shards = place_pools(content, settings, "forged")
    except FairAllocatorError as error:
        refusal = str(error)
    else:
        for shard in shards:
            for hosted in shard.table.pools.values():
                go_on(hosted.pool, rng)
        return "accepted"
    assert refusal.startswith("forged"), refusal
    return "refused"


def _sealed(lines: list[bytes]) -> bytes:
    body = b"".join(line + b"\n" for line in lines)
    digest = blake2b(body, digest_size=16).hexdigest()
    return body + json.dumps({"checksum": digest}).encode() + b"\n"
