"""Pin the base image of `deploy/Dockerfile` by its digest.

    python -m scripts.base_image [DIGEST]

DIGEST is the digest of the image for all processor types, such as sha256:6ab2..., with 71
characters. If it is left out, Docker asks the registry for the current digest of the tag.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

DOCKERFILE: Final = Path(__file__).parents[1] / "deploy" / "Dockerfile"

_BASE: Final = re.compile(r"^ARG BASE=([^@\s]+)(@\S+)?$", re.M)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def name_in(dockerfile: str) -> str:
    """Return the name and the tag of the base image, without a digest."""
    (found,) = _BASE.finditer(dockerfile)
    return found[1]


def pinned(dockerfile: str, digest: str) -> str:
    """Return a Dockerfile whose base image has this digest.

    Raises
    ------
    ValueError
        If `digest` is not a valid digest.
    """
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"no digest of an image: {digest!r}")
    return _BASE.sub(f"ARG BASE={name_in(dockerfile)}@{digest}", dockerfile)


def current(name: str) -> str:
    """Return the current digest of an image's tag, which Docker asks the registry for."""
    command = ["docker", "buildx", "imagetools", "inspect", name]
    command += ["--format", "{{.Manifest.Digest}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


def main(arguments: list[str]) -> None:
    """Pin the base image."""
    text = DOCKERFILE.read_text("utf-8")
    digest = arguments[0] if arguments else current(name_in(text))
    DOCKERFILE.write_text(pinned(text, digest), "utf-8")
    print(f"{name_in(text)} is pinned to {digest}")


if __name__ == "__main__":
    main(sys.argv[1:])
