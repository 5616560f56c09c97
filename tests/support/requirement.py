"""The error of the verifier, for an invariant that does not hold."""


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds: object, *what: object) -> None:
    if not holds:
        raise Broken(" ".join(map(str, what)))
