"""The graded answers of a crowd, put to ours and to others."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fair_allocator.cli import main
from fair_allocator.simulate import answers
from fair_allocator.simulate.answers import Answers, Plan
from fair_allocator.simulate.crowd import CrowdOutcome

Capture = pytest.CaptureFixture[str]

# Six workers; fay answers one task of ten, and eve is never right.
ROWS = [
    (task, worker, int(worker != "eve" and (task + place) % 4 != 0))
    for task in range(10)
    for place, worker in enumerate(("ann", "bob", "cyd", "dan", "eve", "fay"))
    if (worker != "fay" or task == 3) and (task + place) % 5 != 0
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    lines = ["worker,note,task,right", *(f"{who},x,{task},{right}" for task, who, right in ROWS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def found(file: Path) -> Answers:
    return answers.read(file)


def test_the_file_says_who_can_take_what(found: Answers) -> None:
    assert set(found.workers) == {"ann", "bob", "cyd", "dan", "eve", "fay"}
    assert len(found.tasks) == 10
    assert found.given.sum() == len(ROWS)
    assert found.given[found.workers.index("fay")] == 1
    assert not found.right[:, found.workers.index("eve")].any()
    assert not (found.right & ~found.there).any()


def test_every_task_comes_before_any_comes_again(found: Answers) -> None:
    order = answers.order(found, 25, 7, 0)
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert len(order) == 25
    assert (order == answers.order(found, 25, 7, 0)).all()
    assert (order != answers.order(found, 25, 7, 1)).any()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CrowdOutcome]:
    path = tmp_path_factory.mktemp("answers") / "answers.csv"
    lines = ["task,worker,right", *(f"{task},{who},{right}" for task, who, right in ROWS)]
    path.write_text("\n".join(lines), encoding="utf-8")
    plan = Plan(Fraction(1, 12), rounds=1_500, slots=2)
    return answers.play(answers.read(path), plan, answers.entrants(1), 7, 2)


def test_ours_is_never_short_and_others_are(outcomes: dict[str, CrowdOutcome]) -> None:
    worst = {name: one.measures["worst shortfall"].worst for name, one in outcomes.items()}
    assert worst["fair-ucb"] == worst["fair-ucb bank=1"] == 0
    assert worst["ucb1"] not in (None, 0)
    assert [name for name, one in outcomes.items() if one.bound == 0] == [
        "fair-ucb",
        "fair-ucb bank=1",
    ]


def test_only_a_bank_bounds_the_gap(outcomes: dict[str, CrowdOutcome]) -> None:
    assert {name for name, one in outcomes.items() if one.wait is not None} == {"fair-ucb bank=1"}
    bank = outcomes["fair-ucb bank=1"]
    assert bank.wait is not None
    assert max(bank.measures["longest gap"].worst_of_each) <= bank.wait


def test_no_quotas_make_fewer_mistakes(outcomes: dict[str, CrowdOutcome]) -> None:
    right = {name: one.measures["accuracy"].mean[-1] for name, one in outcomes.items()}
    assert right["ucb1"] > right["fair-ucb"] > right["fair-ucb bank=1"]
    assert all(0 <= value <= 1 for value in right.values())


def test_the_work_is_counted_by_worker(found: Answers) -> None:
    plan = Plan(Fraction(1, 12), rounds=300, slots=2)
    (entrant, *_) = answers.entrants(1)
    outcome = answers.play(found, plan, [entrant], 7, 2)[entrant.name]
    curve = outcome.measures[answers.WORK]
    assert curve.x == list(range(7))
    assert curve.mean[0] == 0
    assert curve.mean[-1] == pytest.approx(1.0)
    assert curve.mean == sorted(curve.mean)


def test_inequality_of_known_work() -> None:
    assert answers.gini(np.array([1, 1, 1, 1, 6])) == pytest.approx(0.4)
    assert answers.gini(np.array([5] * 7)) == pytest.approx(0.0)
    assert answers.busiest_tenth(np.array([1] * 19 + [81])) == pytest.approx(0.82)


def test_lfg_can_be_given_the_same_target(found: Answers) -> None:
    plan = Plan(Fraction(1, 12))
    for entrant in answers.entrants(1):
        pool = answers.make_pool(found, plan, entrant, 0, 0, same_target=True)
        expected = Fraction(1, 120) if entrant.queues else Fraction(1, 12)
        assert pool.quotas["fay"] == expected


# -- the command ----------------------------------------------------------------------------------

QUICK = ["--rounds", "200", "--seeds", "2", "--slots", "2"]


def test_the_command_prints_a_table_and_draws(file: Path, tmp_path: Path, capsys: Capture) -> None:
    plot = tmp_path / "pictures" / "answers.png"
    assert main(["simulate", "answers", str(file), *QUICK, "--plot", str(plot)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:5] == ["contestant", "shortfall", "bound", "gap", "bound"]
    assert [line.split("  ")[0] for line in lines[1:7]] == [e.name for e in answers.entrants(1)]
    assert "promised 8.33 % of what it could take" in lines[7]
    assert f"{len(ROWS)} answers of 6 workers to 10 tasks" in lines[8]
    assert plot.stat().st_size > 10_000


def test_the_command_prints_json(file: Path, capsys: Capture) -> None:
    command = ["simulate", "answers", str(file), *QUICK, "--quota", "1/10", "--bank", "2"]
    assert main([*command, "--same-target", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["workers"], data["tasks"], data["answers"]) == (6, 10, len(ROWS))
    assert data["contestants"]["fair-ucb bank=2"]["worst shortfall"]["worst"] == 0
    assert data["contestants"]["ucb1"]["bound"] is None
    assert 0 < data["contestants"]["lfg eta=10"]["gini"]["mean"][0] < 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("task,worker\n1,ann\n", "has no column right"),
        ("task,worker,right\n", "has no answers"),
        ("task,worker,right\n1,ann,1\n1,bob,yes\n", "line 3: needs a task"),
        ("task,worker,right\n1,ann\n", "line 2: needs a task"),
        ("task,worker,right\n1,ann,1\n1,ann,0\n", "line 3: a second answer of 'ann' to '1'"),
    ],
)
def test_a_file_that_is_none_is_refused(
    content: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(content, encoding="utf-8")
    assert main(["simulate", "answers", str(path)]) != 0
    assert said in capsys.readouterr().err


def test_what_cannot_be_played_is_refused(file: Path, capsys: Capture) -> None:
    assert main(["simulate", "answers", str(file), "--quota", "1/5"]) != 0
    assert "sum" in capsys.readouterr().err
    assert main(["simulate", "answers", str(file.with_name("nowhere.csv"))]) != 0
    assert "cannot be read" in capsys.readouterr().err
