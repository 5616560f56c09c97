"""The compiled wheel: built by the hook, it is compiled, and does all that the sources do."""

import json
import shutil
from pathlib import Path
from typing import Final

import pytest

from hatch_build import COMPILED, PURE
from tests.deploy.files import ROOT
from tests.deploy.wheels import python, wheel

pytestmark = [pytest.mark.xdist_group("compiled"), pytest.mark.slow]

SHORT: Final = (
    "tests/property/test_every_learner.py",
    "tests/property/test_identical_to_reference.py",
    "tests/unit/test_bad_input.py",
    "tests/unit/test_counterexamples.py",
    "tests/unit/test_forcing.py",
    "tests/unit/test_learner_exp3.py",
    "tests/unit/test_learners.py",
    "tests/unit/test_learners_by_share.py",
    "tests/unit/test_no_drift.py",
)
"""The tests of the core that are done in a minute; fairness itself is played through below."""

SHARD: Final = (
    "tests/crash/test_failing.py",
    "tests/crash/test_recovery.py",
    "tests/property/test_reading_assignments.py",
    "tests/unit/test_audit.py",
    "tests/unit/test_audit_any.py",
    "tests/unit/test_audit_offences.py",
    "tests/unit/test_bad_events.py",
    "tests/unit/test_noted.py",
    "tests/unit/test_passed_on.py",
    "tests/unit/test_poison.py",
    "tests/unit/test_record_limits.py",
    "tests/unit/test_replay.py",
    "tests/unit/test_shard.py",
    "tests/unit/test_shard_records.py",
    "tests/unit/test_signed_controls.py",
)

FAIRNESS: Final = (
    "tests/property/test_fairness_exhaustive.py::test_no_learner_breaks_the_bound_of_three_arms",
    "tests/property/test_fairness_random.py",
)

PLAYED: Final = """
import json, sys
from random import Random
from fair_allocator import Pool
from fair_allocator.core import FORM

state, rounds, seed = json.load(sys.stdin)
random, pool, made = Random(seed), Pool.from_state(state), []
for number in range(pool.rounds, pool.rounds + rounds):
    made.append(pool.assign(str(number)).plain())
    if random.random() < 0.002:
        pool.reconfigure(dict(zip(pool.arms, random.sample(list(pool.quotas.values()), pool.size))))
    late = str(number - random.randrange(20))
    if random.random() < 0.1:
        pool.expire(late)
    else:
        pool.reward(late, random.random())
json.dump([FORM, made, pool.state()], sys.stdout)
"""
"""Plays a pool on from its state, with late and lost rewards and changes of quotas."""


def test_every_room_that_should_be_is_compiled(installed: Path) -> None:
    modules = [room.removesuffix(".py").replace("/", ".") for room in COMPILED]
    code = f"import importlib; [print(importlib.import_module(m).__file__) for m in {modules}]"
    files = python(installed, "-c", code).split()
    assert len(files) == len(COMPILED)
    for file in files:
        assert file.startswith(str(installed))
        assert file.endswith(".so")
    said = python(installed, "-m", "fair_allocator", "--version")
    assert said.strip().endswith("(compiled)")


@pytest.mark.parametrize("tests", [SHORT, FAIRNESS, SHARD], ids=["rules", "fairness", "shard"])
def test_the_tests_of_the_sources_pass_against_it(installed: Path, tests: tuple[str, ...]) -> None:
    without = ("-p", "no:cacheprovider", "-p", "no:xdist")
    said = python(installed, "-m", "pytest", "-q", *without, *tests)
    assert " passed" in said.splitlines()[-1]
    assert "skipped" not in said.splitlines()[-1]


@pytest.mark.parametrize("rule", ["max-deficit", "earliest-deadline"])
def test_both_forms_choose_alike_and_read_each_other_s_state(installed: Path, rule: str) -> None:
    from fair_allocator import Pool

    arms = {f"arm-{i}": f"{i + 1}/{60 * 61}" for i in range(60)}
    start = Pool(arms, tolerance="3/2", rule=rule).state()
    states = {"pure": start, "compiled": start}
    paths = {"pure": ROOT, "compiled": installed}
    forms = {"pure": "pure Python", "compiled": "compiled"}
    for seed in range(3):
        played = {
            name: json.loads(
                python(paths[name], "-c", PLAYED, stdin=json.dumps([states[name], 5000, seed]))
            )
            for name in paths
        }
        assert {name: form for name, (form, _, _) in played.items()} == forms
        assert played["pure"][1:] == played["compiled"][1:]
        # Each goes on from what the other left.
        states = {"pure": played["compiled"][2], "compiled": played["pure"][2]}


def test_without_compiling_the_wheel_is_pure_and_says_so(tmp_path: Path) -> None:
    path, said = wheel(tmp_path, **{PURE: "1"})
    assert "PURE PYTHON wheel" in said
    assert [file.name.endswith("-py3-none-any.whl") for file in tmp_path.glob("*.whl")] == [True]
    assert not list(path.rglob("*.so"))
    assert python(path, "-m", "fair_allocator", "--version").strip().endswith("(pure Python)")


def test_without_a_compiler_the_wheel_is_pure_and_says_so(tmp_path: Path) -> None:
    assert shutil.which("no-such-compiler") is None
    _, said = wheel(tmp_path, CC="no-such-compiler")
    assert "there is no C compiler (no-such-compiler)" in said
