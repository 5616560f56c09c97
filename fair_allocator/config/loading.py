"""Load a TOML file and environment variables, and check everything before the service starts.

A variable is called FAIR_ALLOCATOR_SECTION__KEY. It overrides the file. An empty variable counts as
not set. Pools can only be configured in the file.
"""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fair_allocator.config.keys import PREFIX, KeyPath, dotted, known_settings, variable
from fair_allocator.config.settings import Configuration
from fair_allocator.errors import ConfigurationError
from fair_allocator.text import demanded

FILE_VARIABLE: Final = PREFIX + "CONFIG"
"""The variable that names the file."""

_NOT_SETTINGS: Final = {
    PREFIX + name
    for name in ("CONFIG", "KILLS", "OPTIMISE", "PURE", "REQUIRE_ALL", "TEST_PACE", "TOKEN", "URL")
}
"""Variables of the commands, of the installation and of the tests."""

_KUBERNETES: Final = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)=.*|\w+_PORT=\w+://.*"
)
"""Variables that Kubernetes sets in every pod if there is a Service called fair-allocator."""

_SECRET: Final = ("PASSWORD", "SECRET", "TOKEN")
_MOST_PROBLEMS: Final = 20
_LONGEST_VALUE: Final = 60


def load(path: Path | None, environ: Mapping[str, str]) -> Configuration:
    """Read the file at `path`, or the one that FAIR_ALLOCATOR_CONFIG names, and the variables.

    Raises
    ------
    ConfigurationError
        If there are problems; its message has one line for each.
    """
    if path is None and environ.get(FILE_VARIABLE):
        path = Path(environ[FILE_VARIABLE])
    content = {} if path is None else _read(path)
    origins, problems = _override(content, environ)
    try:
        configuration = Configuration.model_validate(content)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            place = tuple(str(part) for part in problem["loc"] if part != "[key]")
            # For a problem in an item of a list, name the variable that holds the list.
            where = origins.get(place[:2]) or f"{path}: {dotted(place)}"
            problems.append(f"{where}: {_explain(problem, place)}")
    if problems:
        rest = len(problems) - _MOST_PROBLEMS
        more = [f"and {rest} more"] if rest > 0 else []
        raise ConfigurationError("\n".join([*problems[:_MOST_PROBLEMS], *more]))
    return configuration


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
    except (ValueError, RecursionError) as error:
        problem = f"is not TOML: {error}"
    raise ConfigurationError(f"{path}: {problem}")


def _override(
    content: dict[str, Any], environ: Mapping[str, str]
) -> tuple[dict[KeyPath, str], list[str]]:
    """Put the variables into the file's content; return which variable set what, and problems."""
    ours = {n: v for n, v in environ.items() if n.startswith(PREFIX) and n not in _NOT_SETTINGS}
    if not ours:  # avoids `known_settings`, which is slow
        return {}, []
    variables = {variable(s.place): s for s in known_settings() if s.place[0] != "pools"}
    origins, problems = {}, []
    for name, text in ours.items():
        if name in variables:
            place = variables[name].place
            table = content if len(place) == 1 else content.setdefault(place[0], {})
            if text and isinstance(table, dict):  # else the check below reports it
                table[place[-1]] = variables[name].read(text)
                origins[place] = name
        elif name.startswith(variable(("pools", ""))):
            problems.append(f"{name}: pools are configured in the file, not by variables")
        elif not _KUBERNETES.fullmatch(f"{name}={text}"):
            short = {each.removeprefix(PREFIX): each for each in variables}
            problems.append(f"{name}: unknown variable{_closest(name.removeprefix(PREFIX), short)}")
    return origins, problems


def _explain(problem: ErrorDetails, place: KeyPath) -> str:
    """Return what is wrong; include the value unless it might be a secret."""
    match problem["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            if place[0] == "pools" and isinstance(problem["input"], dict):
                name = ".".join(place[1:])
                return f"unknown key; if the pool's name is {name}, write {dotted(('pools', name))}"
            known = {k: k for s in known_settings() for k in _names(s.beside(place))}
            return f"unknown key{_closest(dotted(place), known)}"
    if place[0] != "pools" and place[-1].upper().endswith(_SECRET):
        return "is not valid (its value is not shown)"
    match problem["type"]:
        case "value_error":
            return str(problem["ctx"]["error"])
        case "dict_type" | "model_type":
            message = "must be a table"
        case _:
            message = demanded(problem["msg"])
    return f"{message}, got {_shown(problem['input'])}"


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str | int | float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def _names(place: KeyPath) -> tuple[str, str]:
    """Return the names of a setting and of its section."""
    return dotted(place), place[0]


def _closest(word: str, known: Mapping[str, str]) -> str:
    """Return a suggestion of the most similar known name, or "" if no name is similar."""
    found = get_close_matches(word, known, n=1)
    return f"; the closest is {known[found[0]]}" if found else ""
