"""Draw the picture of `simulate answers`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fair_allocator.simulate.answers import WORK, Answers, Plan, lorenz
from fair_allocator.simulate.crowd import CrowdOutcome
from fair_allocator.simulate.drawing import (
    crowd_colours,
    draw_gaps,
    line,
    picture,
    thousands,
    write,
)


def draw_answers(
    answers: Answers, plan: Plan, outcomes: Mapping[str, CrowdOutcome], path: Path
) -> list[Path]:
    """Draw shortfall over time, the longest gaps, and how the work was shared."""
    title = (
        f"{len(answers.workers)} real workers, {len(answers.tasks):,} tasks, {plan.rounds:,} "
        f"requests of {plan.slots} answers, quota {float(plan.quota):.2g}"
    )
    drawn, (left, middle, right) = picture(3, title)
    colours = crowd_colours(outcomes)
    people = 100 * np.arange(len(answers.workers) + 1) / len(answers.workers)
    for name, outcome in outcomes.items():
        ours = name.startswith("fair")
        style: dict[str, Any] = {"linewidth": 2.4, "zorder": 4} if ours else {"linewidth": 1.5}
        found = outcome.measures
        label = f"{name}: {found['accuracy'].mean[-1]:.1%} right, Gini {found['gini'].mean[-1]:.2f}"
        line(left, found["worst shortfall"], label, colours[name], **style)
        work = [100 * share for share in found[WORK].mean]
        right.plot(people, work, color=colours[name], **style)
    left.set(xlabel="request", ylabel="floor(entitled) - pulls", title="Worst shortfall so far")
    left.set_xscale("log")
    left.set_yscale("symlog", linthresh=1)
    left.set_ylim(-0.05, max(1.0, left.get_ylim()[1]))
    thousands(left, "y")
    draw_gaps(middle, outcomes, colours)
    given = f"the file's answers: {answers.right.sum() / answers.there.sum():.1%} right"
    right.plot(people, 100 * lorenz(answers.given), "k--", linewidth=1.3, label=given)
    right.plot((0, 100), (0, 100), color="#aaaaaa", linewidth=1, label="all do the same")
    right.set(xlabel="workers, the least busy first, %", ylabel="of the work, %")
    right.set_title("Who does the work")
    handles, labels = left.get_legend_handles_labels()
    more, names = right.get_legend_handles_labels()
    drawn.legend(
        handles + more, labels + names, loc="outside right center", frameon=False, fontsize=9
    )
    drawn.set_size_inches(17.5, 4.6)
    return [write(drawn, path)]
