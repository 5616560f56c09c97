"""Write what the image installs, each with the hashes of its files, into `deploy/`.

    python -m scripts.requirements

The versions are those of `constraints.txt`. pip then refuses a file with another hash. uv asks the
package index that is configured on this machine, and the index is not written down.
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
"""The extras that the image has."""

HEAD: Final = "# Made by `make requirements` from pyproject.toml and constraints.txt.\n"


def project() -> dict[str, Any]:
    """Return the project's file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def wanted() -> dict[Path, list[str]]:
    """Return what each file is made from: what the service needs, and what builds it."""
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
    done = subprocess.run(  # noqa: S603  (no argument comes from elsewhere)
        command, input="\n".join(requirements), cwd=ROOT, capture_output=True, text=True, check=True
    )
    return HEAD + done.stdout


def main() -> None:
    """Write both files."""
    for path, requirements in wanted().items():
        path.write_text(hashed(requirements), "utf-8")


if __name__ == "__main__":
    main()
