"""The configuration in words: a reference, an example, and what the pools promise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from fair_allocator.config.keys import Place, dotted, known_settings
from fair_allocator.config.settings import Configuration
from fair_allocator.core.pool import Pool


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
    """Return a Markdown table of every setting."""
    lines = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    for setting in known_settings():
        key, kind, meaning = dotted(setting.place), _kind(setting.schema), setting.description
        default = "required" if setting.default is None else f"`{setting.default}`"
        lines.append(f"| `{key}` | {kind} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


_EXAMPLE_POOLS: Final = """
[pools.tasks]
tolerance = 0            # no arm ever falls short of its entitlement by a whole pull
learner = "ucb1"         # or a table: { name = "ucb1" }
reward_timeout = 86400   # seconds; without it a reward is waited for for ever

[pools.tasks.arms]       # what each is guaranteed; the rest goes to whoever the learner prefers
ann = 0.2
bob = "1/4"
cyd = 0

[pools."*"]              # a request to any other pool makes one like this
arms = { left = "1/3", right = "1/3" }
"""


def example() -> str:
    """Return a file with every default, commented out, and two pools."""
    lines = ["# What is commented out is the default."]
    section: Place = ()
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
        How many there are.
    rule, bound
        The rule in force, and by how many pulls an arm may fall short; None if by any number.
    promised
        The sum of the quotas; what is left of 1 is the learner's alone.
    cost
        What a round costs the learner, for k arms.
    """

    name: str
    arms: int
    rule: str
    bound: int | None
    promised: float
    learner: str
    cost: str


def guarantees(configuration: Configuration) -> list[PoolGuarantee]:
    """Return what each pool promises, the template among them."""
    return [
        _promise(name, pool.make(name, configuration.seed))
        for name, pool in configuration.pools.items()
    ]


def _promise(name: str, pool: Pool) -> PoolGuarantee:
    return PoolGuarantee(
        name=name,
        arms=len(pool.arms),
        rule=pool.guarantee.rule,
        bound=pool.guarantee.bound,
        promised=fsum(map(float, pool.quotas.values())),
        learner=pool.learner.name,
        cost=pool.learner.cost,
    )
