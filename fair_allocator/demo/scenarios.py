"""The simulated worlds that the demo can play (see `world`)."""

from collections.abc import Callable
from fractions import Fraction
from math import log, log2
from random import Random
from typing import Final

from fair_allocator.core.draws import Draws
from fair_allocator.demo.world import Arm, Words, World

_STAFF: Final = "ada ben cleo dan eve finn gia hal ida jon kim leo mia ned ola pam ray sue tom una"
_NEW: Final = "vic wen xia yan"


def _workers(seed: int, quotas: tuple[str, ...]) -> tuple[Arm, ...]:
    """Return workers, who get these quotas in rotation.

    Accuracies are drawn from Beta(17, 7.25). Its 10, 50 and 90 % quantiles are 0.580, 0.707 and
    0.815, within 0.007 of the 0.58, 0.70 and 0.82 in published crowd data.
    """
    random = Random(f"crowdsourcing {seed}")

    def worker(name: str, quota: str, *, newcomer: bool = False) -> Arm:
        accuracy = random.betavariate(17, 7.25)
        return Arm(name, Fraction(quota), accuracy, accuracy, newcomer)

    arms = [worker(name, quotas[place % 3]) for place, name in enumerate(_STAFF.split())]
    arms += [worker(name, quotas[1], newcomer=True) for name in _NEW.split()]
    return _best_first(arms)


def plain(seed: int, requests: int) -> World:
    """Return a world of workers who answer tasks; an answer is right or wrong, and graded later."""
    return World(
        name="plain",
        pool="crowd",
        scene=(
            "20 workers answer tasks; how often each is right, nobody knows beforehand. Each is "
            "promised 2 to 3% of the tasks, at every moment. Answers are graded later, 5% never. "
            "4 newcomers join halfway."
        ),
        words=Words("worker", "task", "correct answers", "accuracy", "", 2, "joined halfway"),
        arms=_workers(seed, ("0.02", "0.025", "0.03")),
        joining=requests // 2,
        outcome=_right,
        mean_delay=300,
        lost=0.05,
        draws=Draws(seed, "crowdsourcing"),
    )


def crowd(seed: int, requests: int) -> World:
    """Return a world of workers with skills, shifts and a limit of open tasks, who may decline."""
    arms = _workers(seed, ("0.035", "0.04", "0.045"))
    names = sorted(arm.name for arm in arms)
    skills = {
        name: ("french",) * (place % 2) + ("medical",) * (place % 4 < 2)
        for place, name in enumerate(names)
    }
    return World(
        name="crowd",
        pool="crowd",
        scene=(
            "20 workers answer tasks, three to a task; how often each is right, nobody knows "
            "beforehand. A quarter of the tasks needs French or medicine, a third of the workers "
            "is off shift at any time, nobody has more than 20 open tasks, and 5% are declined "
            "and go to somebody else. Each worker is promised 3.5 to 4.5% of what he or she could "
            "take, at every moment. 4 newcomers join halfway."
        ),
        words=Words("worker", "task", "correct answers", "accuracy", "", 2, "joined halfway"),
        arms=arms,
        joining=requests // 2,
        outcome=_right,
        mean_delay=15,
        lost=0.0,
        draws=Draws(seed, "crowd"),
        rival="LFG",
        step=20,
        slots=3,
        max_open=20,
        bank=2,
        skills=skills,
        kinds={"french": 0.15, "medical": 0.1},
        shifts=3,
        shift=max(1, requests // 12),
        declining=0.05,
    )


def wireless(seed: int, requests: int) -> World:
    """Return a world of users in a cell; a block carries data at the current rate of the channel.

    Channels have Rayleigh fading, independent in every slot: the power is the mean signal-to-noise
    ratio (the skill, in dB) times an exponential random number. The rate is Shannon's, divided by
    the radio's maximum of 8 bit/s/Hz. Sometimes a user is in the shadow, and cannot be reached.
    """
    random = Random(f"wireless {seed}")

    def user(name: str, decibels: float, *, newcomer: bool = False) -> Arm:
        decibels += random.uniform(-1, 1)
        fades = [(place + 0.5) / 2_000 for place in range(2_000)]
        mean = sum(_rate(decibels, luck) for luck in fades) / len(fades)
        return Arm(name, Fraction("0.06"), decibels, mean, newcomer)

    near = {"user-1": 24, "user-2": 21, "user-3": 19, "user-4": 17, "user-5": 14, "user-6": 11}
    arms = [user(name, decibels) for name, decibels in near.items()]
    arms += [user("indoors", 6), user("cell-edge", -2), user("visitor", 12, newcomer=True)]
    return World(
        name="wireless",
        pool="cell",
        scene=(
            "8 users share a cell; each slot has 3 resource blocks for 3 of them, and a block "
            "carries as much as the fading channel lets through. Users take turns in the shadow, "
            "where nobody reaches them. Each user is promised 6% of the blocks of the slots in "
            "reach, at every moment, the one at the cell's edge too. A visitor comes halfway."
        ),
        words=Words(
            "user", "slot", "full-rate blocks", "SNR", " dB", 0, "came into the cell halfway"
        ),
        arms=_best_first(arms),
        joining=requests // 2,
        outcome=_rate,
        mean_delay=4,
        lost=0.0,
        draws=Draws(seed, "wireless"),
        rival="LFG",
        step=20,
        slots=3,
        bank=2,
        shifts=5,
        shift=50,
    )


def _right(accuracy: float, luck: float) -> float:
    return 1.0 if luck < accuracy else 0.0


def _rate(decibels: float, luck: float) -> float:
    power = 10 ** (decibels / 10) * -log(1 - luck)
    return min(1.0, log2(1 + power) / 8)


def _best_first(arms: list[Arm]) -> tuple[Arm, ...]:
    return tuple(sorted(arms, key=lambda arm: (arm.newcomer, -arm.mean)))


SCENARIOS: Final[dict[str, Callable[[int, int], World]]] = {
    "crowd": crowd,
    "wireless": wireless,
    "plain": plain,
}
