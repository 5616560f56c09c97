"""The configuration in words: a reference, an example, and what the pools promise."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from fair_allocator.config.keys import KeyPath, dotted, known_sections, known_settings
from fair_allocator.config.pool import PoolConfiguration
from fair_allocator.config.settings import Configuration
from fair_allocator.core.pool import Pool
from fair_allocator.core.quotas import parse_tolerance
from fair_allocator.log.partitioner import partition_for
from fair_allocator.text import to_bytes


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{json.dumps(v)}`" for v in schema.get("enum") or [schema["const"]])
    names = {"string": "text", "object": "table", "array": "list", "null": '`"none"`'}
    bounds = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<="}
    limits = [f"{sign} {schema[key]:g}" for key, sign in bounds.items() if key in schema]
    kind = str(schema["type"])
    return " ".join([names.get(kind, kind), " and ".join(limits)]).rstrip()


def reference() -> str:
    """Return a heading, a sentence and a Markdown table of the settings for every section."""
    lines: list[str] = []
    about, section = known_sections(), ""
    for setting in known_settings():
        if setting.place[0] != section:
            section = setting.place[0]
            title = section if len(setting.place) == 1 else f"[{dotted(setting.place[:-1])}]"
            lines += ["", f"## `{title}`", ""]
            if len(setting.place) > 1:
                lines += [_linked(about[section]), ""]
            lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
        key, kind, meaning = dotted(setting.place), _kind(setting.schema), setting.description
        default = "required" if setting.default is None else f"`{setting.default}`"
        lines.append(f"| `{key}` | {kind} | {default} | {_linked(meaning)} |")
    return "\n".join(lines[1:]) + "\n"


def _linked(text: str) -> str:
    """Turn the names of pages in a text into links."""
    return re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", text)


_EXAMPLE_POOLS: Final = """
[pools.tasks]
tolerance = 0            # no arm ever falls short of its entitlement by a whole pull
learner = "ucb1"         # or a table: { name = "ucb1" }
reward_timeout = 86400   # seconds; without it, the pool waits for ever

[pools.tasks.arms]       # minimum shares; the learner gives out the rest
ann = 0.2
bob = "1/4"
cyd = 0

[pools."*"]              # a request to any other pool makes one like this
arms = { left = "1/3", right = "1/3" }
"""


def example() -> str:
    """Return a file with every default, commented out, and two pools."""
    lines = ["# Lines that are commented out show the defaults."]
    section: KeyPath = ()
    for setting in known_settings():
        if setting.place[0] == "pools":
            continue
        if setting.place[:-1] != section:
            section = setting.place[:-1]
            lines += ["", f"[{dotted(section)}]"]
        lines.append(f"# {setting.description}")
        lines.append(f"# {setting.place[-1]} = {setting.default}")
    return "\n".join(lines) + "\n" + _EXAMPLE_POOLS


@dataclass(frozen=True, slots=True)
class PoolGuarantee:
    """What a configured pool promises, and what its learner costs.

    Attributes
    ----------
    arms
        How many arms there are.
    rule, bound
        The rule in force, and by how many pulls an arm may fall short; None: by any number.
    promised
        The sum of the quotas. The learner alone decides about the rest, up to 1.
    cost
        The running time of one round of the learner, for k arms, such as "O(log k)".
    requests
        "any" if requests may name arms and slots, otherwise "plain".
    bank, window
        `bank` is how many pulls of an arm count in advance, None for any number. In any period in
        which an arm is entitled to x pulls, it gets more than ``x - 1 - window`` pulls. A `window`
        of None means that no number is promised for a period.
    longest_gap
        How many slots in a row an arm of the smallest quota can go without a pull; None: any
        number.
    when_busy, wait_timeout, reassign
        What happens to requests that no arm can take now, and to declined requests.
    parts
        The parts of a split pool, with their partitions; none if the pool is not split. `bound` and
        `window` are those of each part. `longest_gap` is that of the whole pool.
    joint_bound
        By how many pulls an arm may fall short in all parts together. It is `bound` if the pool is
        not split.
    sentences
        The guarantee in words.
    warnings
        Settings that make no sense together.
    """

    name: str
    arms: int
    rule: str
    bound: int | None
    promised: float
    learner: str
    cost: str
    requests: str
    bank: int | None
    window: int | None
    longest_gap: int | None
    when_busy: str
    wait_timeout: float | None
    reassign: bool
    parts: dict[str, int | None]
    joint_bound: int | None
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]


def guarantees(configuration: Configuration) -> list[PoolGuarantee]:
    """Return what each pool promises, including the template."""
    return [
        _promise(name, settings, settings.make(name, configuration.seed), configuration)
        for name, settings in configuration.pools.items()
    ]


def _promise(
    name: str, settings: PoolConfiguration, pool: Pool, configuration: Configuration
) -> PoolGuarantee:
    guarantee, count, quotas = pool.guarantee, settings.parts, pool.quotas.values()
    smallest = min((quota for quota in quotas if quota), default=None)
    gap = None if smallest is None else guarantee.longest_wait(smallest)
    joint = [guarantee.joint_bound(quota, count) for quota in quotas]
    parts = _places(name, configuration) if count > 1 else {}
    return PoolGuarantee(
        name=name,
        arms=len(pool.arms),
        rule=guarantee.rule,
        bound=guarantee.bound,
        promised=fsum(map(float, pool.quotas.values())),
        learner=pool.learner.name,
        cost=pool.learner.cost,
        requests=guarantee.requests,
        bank=guarantee.bank,
        window=guarantee.window,
        longest_gap=None if gap is None else count * gap,
        when_busy=settings.when_busy,
        wait_timeout=settings.wait_timeout,
        reassign=settings.reassign,
        parts=parts,
        joint_bound=max((bound for bound in joint if bound is not None), default=guarantee.bound),
        sentences=guarantee.sentences()
        + ((guarantee.joint_sentence(quotas, count),) if count > 1 else ()),
        warnings=(*_warnings(settings), *_uneven(parts, configuration.log.partitions)),
    )


def _places(name: str, configuration: Configuration) -> dict[str, int | None]:
    """Return the partition of each part of a pool."""
    log = configuration.log
    return {
        part: partition_for(to_bytes(part), log.partitions, log.partitioner)
        for part in configuration.splits.names(name)
    }


def _uneven(parts: Mapping[str, int | None], partitions: int) -> Iterator[str]:
    """Yield a warning if some partition has two parts more than another one."""
    counts = Counter(parts.values())
    most = max(counts.values(), default=0)
    if most > -(-len(parts) // partitions):
        yield (
            f"{most} of its {len(parts)} parts share a partition: parts that divide "
            f"log.partitions, which is {partitions}, are spread evenly"
        )


def _warnings(settings: PoolConfiguration) -> Iterator[str]:
    """Yield a warning for each setting of a pool that is valid but makes no sense."""
    if (tolerance := parse_tolerance(settings.tolerance)).denominator > 1:
        yield (
            f"tolerance {float(tolerance):g} promises no less than {int(tolerance)} does: an arm "
            "falls short by whole pulls"
        )
    if settings.default_reward is not None and settings.reward_timeout is None:
        yield "default_reward has no effect: without reward_timeout no reward is given up"
    if settings.wait_timeout is not None and settings.when_busy == "refuse":
        yield 'wait_timeout has no effect: with when_busy = "refuse" no request waits'
    if settings.burst is not None and settings.rate is None:
        yield "burst has no effect: without rate every request is taken"
    if settings.requests == "plain":
        if settings.tags:
            yield 'tags have no effect: only with requests = "any" can a request ask for them'
        if settings.reassign:
            yield 'reassign has no effect: only with requests = "any" is a request decided again'
    elif settings.reassign and settings.default_reward is not None:
        yield "default_reward is not counted: with reassign the request goes to another arm"
    if settings.bank is not None and settings.rule == "none":
        yield 'bank promises nothing: with rule = "none" no arm is served because it is owed'
