"""A plain pool makes the choices it made before requests could name subsets and slots.

The digests were taken from release 0.1.0. Each is over every choice of a long run: arm, reason and
propensity of each round, with rewards that are late or lost.

    python -m tests.property.test_plain_choices        prints the digests of the code at hand
"""

from hashlib import blake2b

import pytest

from fair_allocator import Pool

pytestmark = pytest.mark.slow

ROUNDS = 20_000

QUOTAS = {
    "even": ["0.05", "0.08", "0.02", "0.09", "0.01", "0"],
    "many": [f"{1 + arm % 3}/211" for arm in range(60)],
    "skewed": ["0.5", "0.2", "0.15", "1/30", "0"],
    "full": ["1/2", "1/3", "1/6"],
    "full with a guest": ["1/2", "1/4", "1/4", "0"],
}

BEFORE = {
    "even, auto, ucb1, 0": "0f1b68fc5e785e00de2b1203",
    "even, auto, exp3, 0": "e53baaa60645a0bbca7e1f46",
    "even, auto, epsilon-greedy, 3": "d60f2dfc3c491ff2ae6001ee",
    "even, earliest-deadline, ucb1, 0": "0f1b68fc5e785e00de2b1203",
    "even, earliest-deadline, exp3, 0": "672938d658598f81cdb7627e",
    "even, earliest-deadline, epsilon-greedy, 3": "ee9560025ead96c57e459c07",
    "many, auto, ucb1, 0": "99f561733cde22fa06a05768",
    "many, auto, exp3, 0": "7c59a25d66c5eddfbb58b0e3",
    "many, auto, epsilon-greedy, 3": "6631dbbb7a9e4b66bd89a2bd",
    "many, earliest-deadline, ucb1, 0": "99f561733cde22fa06a05768",
    "many, earliest-deadline, exp3, 0": "a8d72d5357d6b88c2b5deaba",
    "many, earliest-deadline, epsilon-greedy, 3": "a0ec481a707f6ff36c106f81",
    "skewed, auto, ucb1, 0": "d3ef0d3441d742fb0b79d937",
    "skewed, auto, exp3, 0": "a8752c09714f59f1e9a7ed35",
    "skewed, auto, epsilon-greedy, 3": "b96455b2c84f964eac56e5f7",
    "skewed, earliest-deadline, ucb1, 0": "d3ef0d3441d742fb0b79d937",
    "skewed, earliest-deadline, exp3, 0": "0c9fbd8373d2f01d593442fb",
    "skewed, earliest-deadline, epsilon-greedy, 3": "e42723c10df2d0232a70afa0",
    "full, auto, ucb1, 0": "834c0de819abb48eae9fc34d",
    "full, auto, exp3, 0": "834c0de819abb48eae9fc34d",
    "full, auto, epsilon-greedy, 3": "ae6de8a6c80728563e0f80a9",
    "full, earliest-deadline, ucb1, 0": "834c0de819abb48eae9fc34d",
    "full, earliest-deadline, exp3, 0": "834c0de819abb48eae9fc34d",
    "full, earliest-deadline, epsilon-greedy, 3": "61090b39118487e567de6bd4",
    "full with a guest, auto, ucb1, 0": "d4bb839d7933e3da829285e7",
    "full with a guest, auto, exp3, 0": "d4bb839d7933e3da829285e7",
    "full with a guest, auto, epsilon-greedy, 3": "cac4e9aebbac3bf8390cab34",
    "full with a guest, earliest-deadline, ucb1, 0": "d4bb839d7933e3da829285e7",
    "full with a guest, earliest-deadline, exp3, 0": "d4bb839d7933e3da829285e7",
    "full with a guest, earliest-deadline, epsilon-greedy, 3": "d0da740b0cda2bf277a8e46f",
}


def digest(quotas: str, rule: str, learner: str, tolerance: int) -> str:
    """Play a long run; return what tells its choices from any others."""
    shares = {f"arm{index}": share for index, share in enumerate(QUOTAS[quotas])}
    pool = Pool(shares, tolerance, learner, rule, seed=11, name=f"{quotas}/{rule}")
    choices = blake2b(digest_size=12)
    for round in range(ROUNDS):
        made = pool.assign(str(round))
        choices.update(f"{made.arm} {made.reason} {made.propensity}\n".encode())
        answered = round - round % 7
        if round % 11 == 3:
            pool.expire(str(answered))
        else:
            pool.reward(str(answered), (answered * 7_919 % 101) / 100)
    return choices.hexdigest()


CASES = [
    (quotas, rule, learner, tolerance)
    for quotas in QUOTAS
    for rule in ("auto", "earliest-deadline")
    for learner, tolerance in (("ucb1", 0), ("exp3", 0), ("epsilon-greedy", 3))
]


@pytest.mark.parametrize(("quotas", "rule", "learner", "tolerance"), CASES)
def test_a_plain_pool_chooses_as_it_did_before(
    quotas: str, rule: str, learner: str, tolerance: int
) -> None:
    name = f"{quotas}, {rule}, {learner}, {tolerance}"
    assert digest(quotas, rule, learner, tolerance) == BEFORE[name]


if __name__ == "__main__":
    for case in CASES:
        print(f'    "{", ".join(map(str, case))}": "{digest(*case)}",')
