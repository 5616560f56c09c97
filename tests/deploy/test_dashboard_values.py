"""What panels say of given samples, worked out by promtool."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.deploy.files import PROMETHEUS, panel_queries
from tests.support.needs import needs

QUERIES: Final = list(panel_queries())


def expressions(title: str) -> list[str]:
    return [expression for panel, expression in QUERIES if panel == title]


def series(name: str, **labels: str) -> str:
    every = {"job": "fair-allocator", "instance": "a:9464", **labels}
    return f"fair_allocator_{name}{{{', '.join(f'{k}={v!r}' for k, v in every.items())}}}"


def check(
    folder: Path, samples: Mapping[str, str], title: str, expected: list[Mapping[str, float]]
) -> None:
    """Hold a panel's queries after five minutes against the values expected, by labels."""
    rules = [str(PROMETHEUS / name) for name in ("recording.yml", "alerts.yml")]
    wanted = [
        {
            "expr": expression,
            "eval_time": "5m",
            "exp_samples": [{"labels": k, "value": v} for k, v in values.items()],
        }
        for expression, values in zip(expressions(title), expected, strict=True)
    ]
    inputs = [{"series": name, "values": values} for name, values in samples.items()]
    test = {"interval": "15s", "input_series": inputs, "promql_expr_test": wanted}
    file = folder / "panel_test.yml"
    content = {"rule_files": rules, "evaluation_interval": "15s", "tests": [test]}
    file.write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [needs("promtool"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("worst", [1, 3])
def test_the_bound_beside_the_worst_excess_is_that_pool_s_own(tmp_path: Path, worst: int) -> None:
    """Neither the largest violation nor the least bound is of the pool that matters."""
    samples = {
        series("fairness_violation_max", pool="roomy"): "7x20",
        series("fairness_tolerance", pool="roomy"): "9x20",
        series("fairness_violation_max", pool="ahead"): "-5x20",
        series("fairness_tolerance", pool="ahead"): "0x20",
        series("fairness_violation_max", pool="near"): f"{worst}x20",
        series("fairness_tolerance", pool="near"): "2x20",
    }
    check(tmp_path, samples, "Nearest to its bound", [{"{}": worst - 2}, {"{}": 2}])


def test_a_pool_s_mean_reward_is_over_all_its_arms(tmp_path: Path) -> None:
    samples = {
        series("pool_reward_sum_total", pool="p"): "0+3x20",
        series("pool_rewards_total", pool="p"): "0+10x20",
        # The one arm that has series of its own.
        series("reward_sum_total", pool="p", arm="a"): "0+1x20",
        series("rewards_total", pool="p", arm="a"): "0+1x20",
    }
    check(tmp_path, samples, "Mean reward", [{'{pool="p"}': 0.3}])


def test_assignments_are_those_of_all_pools(tmp_path: Path) -> None:
    samples = {
        series("decisions_total", reason="learner"): "0+300x20",
        series("decisions_total", reason="fairness"): "0+150x20",
        # The one pool that has series of its own.
        series("pool_assignments_total", pool="p", reason="learner"): "0+15x20",
    }
    check(tmp_path, samples, "Assignments", [{"{}": 30}])
