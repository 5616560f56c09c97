"""Print a bill of materials: the packages that the service needs, as CycloneDX JSON.

    python -m scripts.sbom > sbom.json

It lists the package and all its direct and indirect dependencies as installed in this environment,
with their versions and licences, and says which package needs which. The same environment gives the
same text.
"""

import json
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.requirements import EXTRAS

ROOT: Final = "fair-allocator"
SPDX: Final = re.compile(r"[\w.+-]+")
"""The identifier of a single licence in the SPDX list."""

Installed = dict[str, tuple[Distribution, list[str]]]
"""Packages by name, each with the names of the packages that it needs."""


def installed(name: str = ROOT, extras: Iterable[str] = EXTRAS) -> Installed:
    """Return a package and all its direct and indirect dependencies, as installed here."""
    found: Installed = {}
    open_ones = [(name, tuple(extras))]
    while open_ones:
        package, wanted = open_ones.pop()
        if package in found:
            continue
        metadata = distribution(package)
        needed = list(_needed(metadata, wanted))
        found[package] = metadata, sorted(each for each, _ in needed)
        open_ones += needed
    return dict(sorted(found.items()))


def _needed(metadata: Distribution, extras: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for text in metadata.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(requirement.name), tuple(requirement.extras)


def component(name: str, metadata: Distribution, kind: str = "library") -> dict[str, Any]:
    """Return one package as CycloneDX describes it."""
    address = f"pkg:pypi/{name}@{metadata.version}"
    described = {"type": kind, "bom-ref": address, "name": name, "version": metadata.version}
    return described | _licences(metadata) | {"purl": address}


def _licences(metadata: Distribution) -> dict[str, Any]:
    """Return what a package says about its licence: an expression, or in older packages names."""
    said = metadata.metadata
    expression = (said.get_all("License-Expression") or [None])[0]
    if expression is not None:
        single = SPDX.fullmatch(expression) is not None
        licence = {"license": {"id": expression}} if single else {"expression": expression}
        return {"licenses": [licence]}
    lines = [line.split(" :: ") for line in said.get_all("Classifier") or ()]
    names = [parts[-1] for parts in lines if parts[0] == "License"]
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def bill() -> dict[str, Any]:
    """Return the bill of materials for this environment."""
    packages = installed()
    parts = {name: component(name, metadata) for name, (metadata, _) in packages.items()}
    parts.pop(ROOT)
    service = component(ROOT, packages[ROOT][0], "application")
    reference = {name: part["bom-ref"] for name, part in {**parts, ROOT: service}.items()}
    listed = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": service},
        "components": list(parts.values()),
        "dependencies": [
            {"ref": reference[name], "dependsOn": [reference[each] for each in needed]}
            for name, (_, needed) in packages.items()
        ],
    }
    number = uuid5(NAMESPACE_URL, json.dumps(listed))
    return {"serialNumber": f"urn:uuid:{number}", **listed}


if __name__ == "__main__":
    print(json.dumps(bill(), indent=2))
