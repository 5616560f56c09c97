"""The demo says where it can be watched, and knows the truth."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.deploy.processes import awaited, environment
from tests.observe.scraped import Samples, parsed, value
from tests.support.pace import scaled


def test_the_demo_is_watched_while_it_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fair_allocator", "demo", "--no-plot", "--rate", "400"]
    with subprocess.Popen(
        [*command, "--requests", "60000", "--scenario", "wireless"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    ) as demo:
        assert demo.stdout is not None
        try:
            told = next(found for line in demo.stdout if (found := re.search(r"http://\S+", line)))

            def learned() -> Samples | None:
                with urlopen(f"{told[0]}metrics", timeout=scaled(30)) as answer:
                    samples = parsed(answer.read().decode())
                known = any(name == "regret_true" for name, _ in samples)
                return samples if known and value(samples, "regret_true", pool="cell") else None

            samples = awaited(learned, "something was lost")
            assert value(samples, "r_regret_true", pool="cell") <= value(
                samples, "regret_true", pool="cell"
            )
            assert value(samples, "arms_in_violation", pool="cell") == 0
            means = [number for (name, _), number in samples.items() if name == "mean_reward_true"]
            assert len(means) == 8  # the visitor is not there yet
        finally:
            demo.terminate()
        assert demo.wait(60) == 0
