"""Write the lists of packages that the image installs, with the hashes of their files.

    python -m scripts.requirements

The lists are in `deploy/`. The versions come from `constraints.txt`. With the hashes, pip refuses a
file that was changed. uv asks the package index that is configured on this machine. The lists do
not name this index.
"""

import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "deploy"
RUN: Final = FOLDER / "requirements.txt"
BUILD: Final = FOLDER / "build-requirements.txt"
EXTRAS: Final = ("confluent", "seal")
"""The extras of the package that the image installs."""

HEAD: Final = "# Made by `make requirements` from pyproject.toml and constraints.txt.\n"


def project() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def wanted() -> dict[Path, list[str]]:
    """Return the requirements for each list: what the service needs, and what its build needs."""
    said = project()
    optional = said["project"]["optional-dependencies"]
    extras = [each for extra in EXTRAS for each in optional[extra]]
    return {
        RUN: [*said["project"]["dependencies"], *extras],
        BUILD: said["build-system"]["requires"],
    }


def hashed(requirements: list[str]) -> str:
    """Return all packages that some requirements need, with their versions and hashes."""
    command = ["uv", "pip", "compile", "-", "--constraint", "constraints.txt", "--universal"]
    command += ["--python-version", project()["project"]["requires-python"].removeprefix(">=")]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
    done = subprocess.run(  # noqa: S603  (all arguments come from this repository)
        command, input="\n".join(requirements), cwd=ROOT, capture_output=True, text=True, check=True
    )
    return HEAD + done.stdout


def main() -> None:
    """Write both files."""
    for path, requirements in wanted().items():
        path.write_text(hashed(requirements), "utf-8")


if __name__ == "__main__":
    main()
