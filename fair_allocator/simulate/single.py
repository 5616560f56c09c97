"""The same as `batch`, but with the core's own `Pool`, run by run: for small jobs, and to check."""

from collections.abc import Sequence

import numpy as np

from fair_allocator.core.pool import Pool
from fair_allocator.simulate.batch import Played, PolicyRun, Tick
from fair_allocator.simulate.chance import uniforms
from fair_allocator.simulate.policies import Instance, Policy


def play(
    instance: Instance,
    rows: Sequence[PolicyRun],
    horizon: int,
    seed: int,
    checkpoints: Sequence[int],
    tick: Tick = lambda _: None,
) -> Played:
    """Play rows with any policies."""
    points = {t: at for at, t in enumerate(checkpoints)}
    pulls = np.zeros((len(points), len(rows), len(instance.means)), dtype=np.int64)
    worst = np.zeros(len(rows), dtype=np.int64)
    for at, (policy, run) in enumerate(rows):
        pool = make_pool(instance, policy, horizon)
        means = dict(zip(pool.arms, instance.means, strict=True))
        for t, (chance,) in enumerate(uniforms(seed, [run], horizon), 1):
            request = str(t)
            arm = pool.assign(request).arm
            pool.reward(request, 1.0 if chance < means[arm] else 0.0)
            if t in points:
                pulls[points[t], at] = list(pool.pulls.values())
        worst[at] = pool.peak_violation()
        tick(horizon)
    return Played(pulls, worst)


def make_pool(instance: Instance, policy: Policy, horizon: int) -> Pool:
    """Return the pool that plays a policy."""
    parameters: dict[str, dict[str, object]] = {
        "lfg": {"eta": policy.eta},
        "t-fair-ucb": {"horizon": horizon},
    }
    return Pool(
        {f"arm {number}": quota for number, quota in enumerate(instance.quotas, 1)},
        tolerance=policy.tolerance,
        learner={"name": policy.learner, **parameters.get(policy.learner, {})},
        rule=policy.rule,
        remember=0,
    )
