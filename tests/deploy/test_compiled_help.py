"""`help` and signatures say the same in the compiled form as in the sources."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.files import ROOT
from tests.deploy.wheels import python

pytestmark = pytest.mark.xdist_group("compiled")

LOOK: Final = """
import inspect, json, pydoc
import fair_allocator
from fair_allocator.core.learners.ucb1 import UCB1

def signature(thing):
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    # C methods take `self` by position only; nothing else differs.
    return [(p.name, p.kind.name, repr(p.default)) for p in parameters if p.name != "self"]

def look(name, thing):
    seen[name] = {"help": inspect.getdoc(thing), "signature": signature(thing)}

seen = {}
classes = [getattr(fair_allocator, name) for name in fair_allocator.__all__] + [UCB1]
for each in classes:
    look(each.__name__, each)
    for name in dir(each):
        if not name.startswith("_"):
            look(f"{each.__name__}.{name}", getattr(each, name))
for name in ("fair_allocator.core.pool", "fair_allocator.core.learners.base"):
    seen[name] = {"help": inspect.getdoc(__import__(name, fromlist="_")), "signature": None}
seen["page"] = {"help": pydoc.plain(pydoc.render_doc(fair_allocator.Pool)), "signature": None}
print(json.dumps(seen))
"""


@cache
def look(path: Path) -> dict[str, dict[str, Any]]:
    seen: dict[str, dict[str, Any]] = json.loads(python(path, "-c", LOOK))
    return seen


def test_every_docstring_is_there(installed: Path) -> None:
    pure, compiled = look(ROOT), look(installed)
    members = {name for name in pure if name != "page"}
    assert len(members) > 80
    assert members <= set(compiled)
    assert {n: compiled[n]["help"] for n in members} == {n: pure[n]["help"] for n in members}
    classes = ("Pool", "RewardOutcome")
    for name in (*classes, "Pool.assign", "Pool.guarantee", "Pool.from_state", "Learner.choose"):
        assert len(compiled[name]["help"]) > 20, name


def test_every_signature_is_there(installed: Path) -> None:
    pure, compiled = look(ROOT), look(installed)
    known = {name: seen["signature"] for name, seen in pure.items()}
    assert {name: compiled[name]["signature"] for name in known} == known
    assert known["Pool.assign"][0][0] == "request_id"


def test_the_page_of_help_reads_well(installed: Path) -> None:
    page = look(installed)["page"]["help"]
    assert "Pool(arms, tolerance=0, learner='ucb1', rule='auto', seed=0, *, name=''" in page
    assert "Names with quotas" in page
    assert "assign(self, /, request_id" in page
    assert "filler" not in page
