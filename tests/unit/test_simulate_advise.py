"""What quotas and a tolerance cost, before anything goes live."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.errors import ConfigurationError
from fair_allocator.simulate import drawing, spread
from fair_allocator.simulate.advice import Advice, advise, check, price, read_pairs
from tests.support.pictures import kept_pictures

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]

MEANS = {"ann": 0.8, "bob": 0.7, "cyd": 0.5}
QUOTAS = dict.fromkeys(MEANS, Fraction(1, 5))
HORIZON = 2_000


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(MEANS, QUOTAS, HORIZON, 10, 1, spread.play)


def test_the_prices_add_up_to_what_the_quotas_cost(advice: Advice) -> None:
    fair, plain = (advice.by_tolerance[name].mean[0] for name in ("fair-ucb", "ucb1"))
    assert sum(price.price for price in advice.prices) == pytest.approx(fair - plain)
    assert [price.arm for price in advice.prices] == list(MEANS)
    best, middle, worst = advice.prices
    assert best.price == 0
    assert 0 < middle.price < worst.price
    # Forced pulls of an arm that learning shuns cost its gap each.
    assert worst.pulls == 400
    assert worst.price == pytest.approx(0.3 * (400 - worst.unforced))


def test_the_price_alone_is_the_one_of_the_whole_advice(advice: Advice) -> None:
    assert price(MEANS, QUOTAS, HORIZON, 10, 1, spread.play) == advice.prices
    third = {**QUOTAS, "cyd": Fraction(1, 3)}
    dearer = price(MEANS, third, HORIZON, 10, 1, spread.play)[2]
    assert dearer.price > advice.prices[2].price
    none = price(MEANS, dict.fromkeys(MEANS, Fraction(0)), HORIZON, 10, 1, spread.play)
    assert [each.price for each in none] == [0.0, 0.0, 0.0]


def test_regret_falls_with_the_tolerance_down_to_that_of_plain_ucb1(advice: Advice) -> None:
    fair, plain = advice.by_tolerance["fair-ucb"], advice.by_tolerance["ucb1"]
    assert fair.x == [40 * step for step in range(11)]
    noise = 4 * max(fair.se)
    assert all(b <= a + noise for a, b in zip(fair.mean, fair.mean[1:], strict=False))
    assert fair.mean[0] > 2 * plain.mean[0]
    assert fair.mean[-1] == plain.mean[-1]
    cheap = advice.cheap_tolerance
    assert cheap is not None
    assert fair.mean[fair.x.index(cheap)] <= 1.05 * plain.mean[0]


def test_regret_rises_with_the_sum_of_the_quotas(advice: Advice) -> None:
    fair, bound = advice.by_sum["fair-ucb"], advice.by_sum["fair-ucb bound"]
    assert fair.x == list(range(0, 101, 10))
    assert fair.mean[0] == advice.by_tolerance["ucb1"].mean[0]
    assert fair.mean[6] == pytest.approx(advice.by_tolerance["fair-ucb"].mean[0], rel=0.02)
    # A third of all rounds each, rounded down to 1/10,000.
    assert fair.mean[-1] == pytest.approx(HORIZON / 3 * 0.4, rel=0.01)
    noise = 4 * max(fair.se)
    assert all(b >= a - noise for a, b in zip(fair.mean, fair.mean[1:], strict=False))
    assert all(cost <= most for cost, most in zip(fair.mean, bound.mean, strict=True))


def test_a_legend_names_only_what_is_in_view(
    advice: Advice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = kept_pictures(monkeypatch)
    curves = advice.by_tolerance
    near = replace(curves["fair-ucb"], mean=[cost + 1 for cost in curves["fair-ucb"].mean])
    drawing.draw_advice(replace(advice, by_sum=curves | {"fair-ucb bound": near}), tmp_path)
    _, far, close = drawn[0].axes
    assert min(curves["fair-ucb bound"].mean) > far.get_ylim()[1]
    for axes, expected in ((far, False), (close, True)):
        names = [text.get_text() for text in axes.get_legend().get_texts()]
        assert ("bound (Theorem 4)" in names) == expected
        assert {"UCB1, no quotas", "Fair-UCB"} <= set(names)


def test_the_command_advises_from_means(tmp_path: Path, capsys: Capture) -> None:
    words = ["--means", "ann=0.8,bob=0.5", "--quotas", "bob=0.3", "--horizon", "500", "--runs", "4"]
    assert main(["simulate", "advise", *words, "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "bob" in shown
    assert "plain UCB1 has a regret of" in shown
    data = json.loads((tmp_path / "advice.json").read_text())
    assert [price["quota"] for price in data["prices"]] == ["0", "3/10"]
    assert set(data) >= {"regret by tolerance", "regret by sum of quotas, %"}
    for name in ("advice.csv", "advice-prices.csv", "advice.png", "advice.svg"):
        assert (tmp_path / name).stat().st_size > 100


def test_the_command_advises_from_a_log_of_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "draw_advice", lambda *_: [])
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\nann,1\nbob,0.5\nann,0.5\nbob,0.3\n")
    words = ["--rewards", str(log), "--quotas", "1/5", "--horizon", "100", "--runs", "2"]
    assert main(["simulate", "advise", *words, "--out", str(tmp_path)]) == 0
    prices = json.loads((tmp_path / "advice.json").read_text())["prices"]
    assert {price["arm"]: price["mean"] for price in prices} == {"ann": 0.75, "bob": 0.4}


@pytest.mark.parametrize(
    ("means", "quotas", "complaint"),
    [
        ("0.8,x", "0.1", "--means: expected a number"),
        ("0.8,1.5", "0.1", "mean of arm 'arm 2' must be in [0, 1], got 1.5"),
        ("0.8,0.5", "0.1,0.1,0.1", "--quotas: 3 numbers for 2 arms"),
        ("0.8,0.5", "bob=0.1", "--quotas: there is no arm 'bob'"),
        ("0.8,0.5", "0.7", "quotas sum to 1.4"),
        ("0.8,0.5", "0", "no arm has a quota"),
        ("0.8,0.5", "-0.1", "quota must be in [0, 1]"),
    ],
)
def test_senseless_lists_are_refused(
    means: str, quotas: str, complaint: str, capsys: Capture
) -> None:
    words = ["simulate", "advise", "--means", means, f"--quotas={quotas}", "--out", "nowhere"]
    assert main(words) == 78
    assert complaint in capsys.readouterr().err
    assert not Path("nowhere").exists()


def test_a_log_without_rewards_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "log.csv").write_text("arm,reward\n")
    words = ["--rewards", str(tmp_path / "log.csv"), "--quotas", "0.1"]
    assert main(["simulate", "advise", *words]) == 2
    assert "log.csv: has no rewards" in capsys.readouterr().err


def test_quotas_may_be_given_by_name() -> None:
    assert read_pairs("b=1/4", ["a", "b"], "--quotas") == {"a": 0, "b": Fraction(1, 4)}
    check({"a": 0.5}, {"a": Fraction(1)})
    with pytest.raises(ConfigurationError):
        check({"a": 0.5}, {"a": Fraction(0)})
