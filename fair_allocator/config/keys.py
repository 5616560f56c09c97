"""Every key that can be set, derived from the model of the configuration."""

import ast
import inspect
import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from fair_allocator.config import kafka_section, pool, settings
from fair_allocator.config.settings import Configuration

PREFIX: Final = "FAIR_ALLOCATOR_"
"""The prefix of every environment variable."""

KeyPath = tuple[str, ...]
"""The keys that lead to a setting, from the outside in."""


class Setting(NamedTuple):
    """One key, with its JSON Schema from the model, and its meaning in a sentence."""

    place: KeyPath
    """The keys that lead to it; "NAME" stands for a pool's name."""
    schema: Mapping[str, Any]
    description: str

    def beside(self, place: KeyPath) -> KeyPath:
        """Return the place of this setting.

        If this setting and `place` both belong to a pool, it is the place in the pool of `place`.
        """
        if self.place[0] == place[0] == "pools":
            return ("pools", place[1], self.place[2])
        return self.place

    def read(self, text: str) -> object:
        """Return a variable's value: a text setting as it is, any other setting read as TOML.

        A list may also be items with commas between them, without brackets and quotes.
        """
        if self.schema.get("type") != "string":
            with suppress(ValueError):
                content = tomllib.loads(f"value = {text}")
                return content["value"] if len(content) == 1 else text
        if self.schema.get("type") == "array" and not text.lstrip().startswith("["):
            return [item.strip() for item in text.split(",")]
        return text

    @property
    def default(self) -> str | None:
        """The default in TOML, or None if the setting is required."""
        value = self.schema.get("default", ...)
        if value is ...:
            return None
        if isinstance(value, int) and value >= 10_000:
            return f"{value:_}"
        return json.dumps("none" if value is None else value)


@cache
def known_settings() -> tuple[Setting, ...]:
    """Return every setting, in the order of the model."""
    schema = Configuration.model_json_schema()
    described = _described()
    known = []
    for name, field in schema["properties"].items():
        each = field.get("additionalProperties", field)
        if "$ref" not in each:
            known.append(Setting((name,), field, described["Configuration", name]))
            continue
        outer = (name,) if each is field else (name, "NAME")
        section = each["$ref"].rpartition("/")[2]
        known += [
            Setting((*outer, key), value, described[section, key])
            for key, value in schema["$defs"][section]["properties"].items()
        ]
    return tuple(known)


def known_sections() -> dict[str, str]:
    """Return every section, in the order of the model, and what it is about."""
    described = _described()
    return {name: described["Configuration", name] for name in Configuration.model_fields}


def _described() -> dict[tuple[str, str], str]:
    """Return the docstring of each attribute by class and name.

    Pydantic could store them in the model, but then it would read the source at every start.
    """
    words = {}
    for module in (settings, kafka_section, pool):
        kinds = ast.parse(inspect.getsource(module)).body
        for kind in (each for each in kinds if isinstance(each, ast.ClassDef)):
            for field, after in pairwise(kind.body):
                match field, after:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str() as text)),
                    ):
                        words[kind.name, name] = inspect.cleandoc(text)
    return words


def variable(place: KeyPath) -> str:
    """Return the name of the variable for the setting at `place`."""
    return PREFIX + "__".join(place).upper()


def dotted(place: KeyPath) -> str:
    """Return a place in the dotted form of TOML.

    >>> dotted(("pools", "*", "rule"))
    'pools."*".rule'
    """
    return ".".join(p if re.fullmatch(r"[\w-]+", p, re.A) else json.dumps(p) for p in place)
