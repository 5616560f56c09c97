"""How the verifier says that an invariant does not hold."""


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds: object, *what: object) -> None:
    if not holds:
        raise Broken(" ".join(map(str, what)))
