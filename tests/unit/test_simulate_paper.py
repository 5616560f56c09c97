"""The paper's figures: their numbers, their bounds, and what is said of them."""

import csv
import doctest
import json
import shlex
import sys
from dataclasses import replace
from fractions import Fraction
from math import log, pi
from pathlib import Path

import numpy as np
import pytest

from fair_allocator import cli
from fair_allocator.cli import main
from fair_allocator.simulate import batch, drawing, figures, spread
from fair_allocator.simulate.batch import PolicyRun
from fair_allocator.simulate.figures import LFGS, Curve, Paper
from fair_allocator.simulate.findings import findings, settled_from
from fair_allocator.simulate.policies import COST, GUARANTEE, UCB1, Instance, fair_ucb
from fair_allocator.simulate.regret import (
    max_deficit,
    misprinted_regret_bound,
    r_regret,
    r_regret_bounds,
    regret,
    regret_bounds,
    ucb1_bounds,
)
from fair_allocator.simulate.writing import report
from tests.support.pictures import kept_pictures

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]

OUTSIDE = 702.605, 4.689
"""Regret of SMPyBandits 0.9.7's `UCB` on instance 1 after 20,000 rounds: mean of 60 runs, and its
standard error (docs/paper.md has the script)."""


@pytest.fixture(scope="module")
def paper() -> Paper:
    return figures.make(figures.FIGURES, 4, 4_000, 1, spread.play)


# -- the arithmetic -------------------------------------------------------------------------------


def test_the_instances_are_the_papers() -> None:
    assert COST.means == (0.8, 0.78, 0.77, 0.76, 0.75, 0.74, 0.73, 0.72, 0.71, 0.7)
    assert COST.gaps == pytest.approx([0, *(i / 100 for i in range(2, 11))])
    assert set(COST.quotas) == {Fraction(1, 20)}
    assert GUARANTEE.means == (0.7, 0.5, 0.4)
    assert list(map(str, GUARANTEE.quotas)) == ["1/5", "3/10", "1/4"]


def test_regret_counts_every_pull_and_r_regret_only_those_not_promised() -> None:
    pulls = np.array([[[5, 3, 2]], [[6, 3, 4]]])
    assert regret(GUARANTEE, pulls)[:, 0] == pytest.approx([3 * 0.2 + 2 * 0.3, 0.6 + 1.2])
    promised_10, promised_13 = 3 * 0.2 + 2 * 0.3, 3 * 0.2 + 3 * 0.3
    costs = r_regret(GUARANTEE, pulls, [10, 13])
    assert costs[:, 0] == pytest.approx([1.2 - promised_10, 1.8 - promised_13])
    lenient = r_regret(GUARANTEE, pulls, [10, 13], tolerance=3)
    assert lenient[:, 0] == pytest.approx([1.2, 1.8])
    assert max_deficit(GUARANTEE, pulls, [10, 13])[:, 0] == pytest.approx([0.5, 0.9])


def test_bounds_are_as_computed_by_hand() -> None:
    two = Instance((0.9, 0.4), (Fraction(1, 10), Fraction(1, 4)))
    tail, needed, earlier = 1 + pi**2 / 3, 8 * log(1000) / 0.25, 8 * log(500) / 0.25
    assert ucb1_bounds(two, [1000]) == pytest.approx([0.5 * (needed + tail)])
    # Of 1,000 rounds 250 are promised and 221 needed: nothing is to be learned beyond the quota.
    learned = 0.5 * (earlier - 125)
    bounds = r_regret_bounds(two, [500, 1000])
    assert bounds == pytest.approx([learned + 0.5 * (tail + 1), 0.5 * (tail + 1)])
    # A tolerance beyond what is promised leaves plain UCB1.
    bounds = regret_bounds(two, 1000, [0, 900])
    assert bounds == pytest.approx([0.5 * (250 + tail), 0.5 * (needed + tail)])


def test_theorem_4_as_the_main_text_has_it_is_below_what_any_fair_pool_must_pay() -> None:
    horizon = 100_000
    promised = GUARANTEE.floors([horizon])[0]
    least = float(promised @ GUARANTEE.gaps)
    assert least == pytest.approx(13_500)
    misprinted = misprinted_regret_bound(GUARANTEE, horizon)
    assert misprinted == pytest.approx(0.5 * (1 + pi**2 / 3))
    assert regret_bounds(GUARANTEE, horizon, [0])[0] > least


def test_constant_r_regret_is_out_of_reach_of_the_papers_horizon() -> None:
    start = settled_from(COST)
    assert start > 1_000_000
    needed = [8 * log(t) / 0.02**2 for t in (start, start - 1)]
    assert needed[0] <= start / 20
    assert needed[1] > (start - 1) / 20


def test_plain_ucb1_has_the_regret_of_a_library_outside() -> None:
    rows = [PolicyRun(UCB1, run) for run in range(60)]
    ours = regret(COST, batch.play(COST, rows, 20_000, 2019, [20_000]).pulls)[0]
    theirs, se = OUTSIDE
    tolerated = 3 * np.hypot(se, ours.std(ddof=1) / np.sqrt(60))
    assert abs(ours.mean() - theirs) <= tolerated
    assert tolerated < 0.03 * theirs


# -- the figures ----------------------------------------------------------------------------------


def test_the_figures_have_the_papers_axes() -> None:
    jobs = figures.jobs(figures.FIGURES, figures.RUNS, figures.HORIZON, 1)
    assert jobs["cost"].runs >= 20
    assert jobs["cost"].horizon == 1_000_000
    assert jobs["guarantee"].runs == 1_000
    assert jobs["guarantee"].checkpoints == tuple(range(1, 201))
    assert figures.tolerances(1_000_000) == list(range(0, 60_001, 5_000))
    assert set(jobs) - set(figures.jobs("2", 2, 1000, 1)) == {"guarantee", "later"}


def test_curves_are_named_and_measured(paper: Paper) -> None:
    lfgs = {policy.name for policy in LFGS}
    assert lfgs == {"lfg eta=1", "lfg eta=10", "lfg eta=100", "lfg eta=1000"}
    assert {"fair-ucb", "ucb1", "fair-ucb violation", "fair-ucb bound"} <= set(paper.figures["2"])
    assert {"fair-ucb", "ucb1", "t-fair-ucb", *lfgs} <= set(paper.figures["3"])
    assert {"fair-ucb", "ucb1", *lfgs} <= set(paper.figures["4"])
    for figure in paper.figures.values():
        for curve in figure.values():
            assert len(curve.x) == len(curve.mean) == len(curve.se)


def test_a_curve_is_the_mean_of_its_runs(paper: Paper) -> None:
    rows = [PolicyRun(fair_ucb(), run) for run in range(4)]
    played = batch.play(COST, rows, 4_000, 1, [4_000])
    costs = regret(COST, played.pulls)[0]
    curve = paper.figures["2"]["fair-ucb"]
    assert curve.mean[0] == pytest.approx(costs.mean())
    assert curve.se[0] == pytest.approx(costs.std(ddof=1) / 2)


def test_fair_runs_stay_within_their_tolerance_and_the_baselines_do_not(paper: Paper) -> None:
    fair = paper.figures["2"]["fair-ucb"]
    assert all(w <= slack for w, slack in zip(fair.worst_of_each, fair.x, strict=True))
    assert paper.figures["3"]["fair-ucb"].worst == 0
    assert paper.figures["4"]["fair-ucb"].worst == 0
    for name in ("ucb1", "lfg eta=100", "lfg eta=1000"):
        worst = paper.figures["4"][name].worst
        assert isinstance(worst, int)
        assert worst > 10


def test_means_stay_below_the_papers_bounds(paper: Paper) -> None:
    claims = [found for found in findings(paper) if "below" in found.claim]
    assert len(claims) == 4
    assert all(found.agrees for found in claims)


def test_lfg_is_seen_not_to_return_to_zero(paper: Paper) -> None:
    (found,) = [found for found in findings(paper) if "back to zero" in found.claim]
    assert found.agrees is False
    assert "**does not agree**" in report(paper)


def test_a_broken_guarantee_would_be_reported(paper: Paper) -> None:
    fair = paper.figures["2"]["fair-ucb"]
    broken = replace(fair, worst=[*fair.worst_of_each[:-1], fair.x[-1] + 1])
    other = replace(paper, figures={"2": {**paper.figures["2"], "fair-ucb": broken}})
    assert findings(other)[0].agrees is False
    assert findings(paper)[0].agrees is True


def cost(regrets: list[float], deficits: list[float]) -> Paper:
    """Return Figure 2 with these numbers, each with a standard error of 4."""
    x, few = [0, 10], [4.0, 4.0]
    curves = {
        "fair-ucb": Curve(x, regrets, few, 2, [0, 9]),
        "fair-ucb violation": Curve(x, deficits, few, 2, [0, 9]),
        "ucb1": Curve(x, [100.0, 100.0], few, 2, [50, 50]),
        "ucb1 violation": Curve(x, [50.0, 50.0], few, 2, [50, 50]),
        "fair-ucb bound": Curve(x, [9e9, 9e9], [0.0, 0.0], 0),
        "ucb1 bound": Curve(x, [9e9, 9e9], [0.0, 0.0], 0),
        "fair-ucb violation bound": Curve(x, [1.0, 11.0], [0.0, 0.0], 0),
    }
    return Paper({"2": curves}, 2, 3_000, 1)


@pytest.mark.parametrize(
    ("regrets", "deficits", "falls", "grows"),
    [
        ([900.0, 100.0], [0.0, 900.0], True, True),
        ([214.0, 225.0], [-18.0, -10.0], None, None),
        ([225.0, 214.0], [-10.0, -18.0], None, None),
        ([100.0, 900.0], [900.0, 0.0], False, False),
    ],
)
def test_a_curve_agrees_only_if_it_surely_moves_as_the_paper_says(
    regrets: list[float], deficits: list[float], falls: bool | None, grows: bool | None
) -> None:
    found = {each.claim: each.agrees for each in findings(cost(regrets, deficits))}
    assert found["regret falls as the tolerance grows"] is falls
    assert found["the largest deficit grows with the tolerance up to there"] is grows


@pytest.mark.parametrize("deficits", [[-18.0, -10.0], [3.0, 10.0]])
def test_both_lines_of_the_deficits_are_in_view(
    deficits: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = kept_pictures(monkeypatch)
    drawing.draw_paper(cost([900.0, 100.0], deficits), tmp_path)
    low, high = drawn[0].axes[1].get_ylim()
    assert low < min(deficits) < max(deficits) < high


def test_costs_above_a_bound_would_be_reported(paper: Paper) -> None:
    figure = paper.figures["3"]
    dear = replace(figure["fair-ucb"], mean=[1e9] * len(figure["fair-ucb"].x))
    other = replace(paper, figures={"3": {**figure, "fair-ucb": dear}})
    (found,) = [found for found in findings(other) if "Theorem 2" in found.claim]
    assert found.agrees is False


# -- the page -------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"


def test_the_pages_counterexamples_are_as_it_says() -> None:
    failed, tried = doctest.testfile(str(DOCS / "paper.md"), module_relative=False)
    assert (failed, tried) == (0, 11)


def test_the_pages_pictures_are_there_and_small() -> None:
    for number in figures.FIGURES:
        path = DOCS / "images" / f"paper-figure{number}.png"
        assert f"images/{path.name}" in (DOCS / "paper.md").read_text()
        assert path.stat().st_size < 150_000


# -- the command ----------------------------------------------------------------------------------


def simulate(out: Path, *words: str) -> None:
    common = ["--runs", "2", "--horizon", "400", "--seed", "5", "--out", str(out)]
    assert main(["simulate", "paper", *common, *words]) == 0


def test_the_command_writes_numbers_tables_pictures_and_a_report(
    tmp_path: Path, capsys: Capture
) -> None:
    simulate(tmp_path)
    assert "decisions in" in capsys.readouterr().out
    data = json.loads((tmp_path / "paper.json").read_text())
    assert list(data) == ["2", "3", "4"]
    assert data["4"]["lfg eta=100"]["runs"] == 100
    for number, figure in data.items():
        table = (tmp_path / f"paper-figure{number}.csv").read_text()
        rows = list(csv.DictReader(table.splitlines()))
        assert len(rows) == sum(len(curve["x"]) for curve in figure.values())
        assert (tmp_path / f"paper-figure{number}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (tmp_path / f"paper-figure{number}.svg").read_text()
    assert "## Figure 4" in (tmp_path / "report.md").read_text()


def test_one_figure_can_be_made_and_a_seed_gives_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "draw_paper", lambda paper, out: [])
    simulate(tmp_path / "one", "--figure", "2")
    simulate(tmp_path / "two", "--figure", "2", "--processes", "2", "--engine", "vectorised")
    simulate(tmp_path / "three", "--figure", "2", "--seed", "6")
    one, two, three = ((tmp_path / n / "paper.json").read_bytes() for n in ("one", "two", "three"))
    assert list(json.loads(one)) == ["2"]
    assert one == two
    assert one != three


def test_equal_numbers_give_equal_pictures(paper: Paper, tmp_path: Path) -> None:
    only = replace(paper, figures={"2": paper.figures["2"]})
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        drawing.draw_paper(only, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_without_matplotlib_the_numbers_are_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    simulate(tmp_path, "--figure", "2", "--horizon", "200")
    assert "no pictures: matplotlib is missing" in capsys.readouterr().out
    assert (tmp_path / "paper.json").exists()
    assert not list(tmp_path.glob("*.png"))


def test_a_directory_that_cannot_be_made_is_said_before_anything_is_played(
    tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["simulate", "paper", "--out", str(tmp_path / "taken")]) == 78
    assert "taken: cannot be written to: File exists" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["paper"], ["instance"], ["advise"]], ids=str)
def test_every_help_ends_with_an_example_that_can_be_called(
    command: list[str], capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *command, "--help"])
    assert end.value.code == 0
    heading, last = capsys.readouterr().out.rstrip().splitlines()[-2:]
    assert heading == "example:"
    program, *words = shlex.split(last)
    assert (program, words[: 1 + len(command)]) == ("fair-allocator", ["simulate", *command])
    assert cli.make_parser(words).parse_args(words).run


@pytest.mark.parametrize("words", [["--runs", "1"], ["--seed", "-1"], ["--horizon", "many"]])
def test_senseless_numbers_are_refused(words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        main(["simulate", "paper", *words])
    assert end.value.code == 2
    assert words[0] in capsys.readouterr().err
