"""Find the largest scores, for learners that compute the scores of all arms with numpy."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def largest(scores: Floats, count: int, costs: Floats | None = None) -> list[int]:
    """Return the indices of the `count` largest scores, the largest first.

    Ties go to the lowest of `costs` if given, then to the lowest index.

    >>> largest(np.array([1.0, 3.0, 3.0, 2.0, 3.0]), 2, np.array([0.0, 9.0, 5.0, 0.0, 5.0]))
    [2, 4]
    """
    if costs is None:
        costs = np.zeros_like(scores)
    least = np.partition(scores, -count)[-count] if count > 1 else scores.max()
    places = np.flatnonzero(scores >= least)
    if count == 1:
        return [int(places[costs[places].argmin()])]
    order = np.lexsort((places, costs[places], -scores[places]))[:count]
    return [int(place) for place in places[order]]
