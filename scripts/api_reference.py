"""Write docs/api.md from the docstrings: ``python -m scripts.api_reference > docs/api.md``.

It reads the sources and imports nothing of the package, so the page is the same on every machine. A
class is shown with its signature, its docstring, its methods and its properties, including
inherited ones.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = Path(__file__).parents[1] / "fair_allocator"

PARTS: Final = (
    ("Pools", ("Pool",), ()),
    ("What a pool answers", ("Assignment", "RewardOutcome", "Guarantee", "Change", "Epoch"), ()),
    ("Learners of your own", ("Learner",), ("Arms", "Draws", "Among")),
    ("Parts of a split pool", ("part_of",), ()),
    ("Errors", (), ()),
)
"""The parts of the page: each has a title, public names, and classes that users get but do not
make.

A public class that no part names is added to the first part. An error that no part names is added
to the last part.
"""

HANDED_OUT: Final = {"Among", "Arms", "Assignment", "Draws", "Learner"}
"""Classes that a user gets or inherits from. Their constructors are not shown."""

HIDDEN: Final = {
    "Arms": {
        *("arranged", "bend", "check_bend", "from_state", "join", "known", "newborn", "own_lines"),
        *("own_missed", "share", "share_lines", "state"),
    }
}
"""Methods that only the pool calls. They are not shown."""

WIDTH: Final = 92
"""A longer signature gets one line for each parameter."""

INTRODUCTION: Final = """\
# API reference

Everything public is imported from `fair_allocator`:

```python
from fair_allocator import Pool
```

This page is generated from the docstrings by `make docs`. In Python, `help(Pool)` shows the same.
"""

_SECTION: Final = re.compile(r"^(\w+)\n-{3,}\n", re.M)
_LISTED: Final = ("Parameters", "Raises", "Returns")

Function = ast.FunctionDef


class Sources(NamedTuple):
    """What the sources define, by name."""

    public: list[str]
    classes: dict[str, ast.ClassDef]
    aliases: dict[str, tuple[str, str]]
    """Names of types, with the definition and the docstring of each."""
    constants: dict[str, str]
    functions: dict[str, Function]
    """The public functions, all of which are outside of the core."""


def read(package: Path) -> Sources:
    """Read the sources."""
    tree = _parse(package / "__init__.py")
    public: list[str] = ast.literal_eval(dict(_assignments(tree))["__all__"])
    parts = _parse(package / "log" / "parts.py")
    functions = {f.name: f for f in parts.body if isinstance(f, Function) and f.name in public}
    sources = Sources(public, {}, {}, {}, functions)
    for path in sorted((package / "core").rglob("*.py")):
        tree = _parse(path)
        sources.classes.update({c.name: c for c in tree.body if isinstance(c, ast.ClassDef)})
        docs = _attribute_docs(tree.body)
        for name, value in _assignments(tree):
            if isinstance(value, ast.Constant):
                sources.constants[name] = ast.unparse(value)
            elif name[0].isupper() and not name.isupper():
                sources.aliases[name] = ast.unparse(value), docs.get(name, "")
    known = {*sources.classes, *functions}
    if lacking := [name for name in public if name not in known]:
        raise SystemExit(f"public, but not found in the sources: {', '.join(lacking)}")
    return sources


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value


def _attribute_docs(body: list[ast.stmt]) -> dict[str, str]:
    """Return the docstrings that follow assignments."""
    docs = {}
    for node, below in pairwise(body):
        if not isinstance(below, ast.Expr) or not isinstance(below.value, ast.Constant):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(targets[0], ast.Name):
            docs[targets[0].id] = " ".join(str(below.value.value).split())
    return docs


# -- signatures ----------------------------------------------------------------------------------


def signature(name: str, function: Function, sources: Sources) -> str:
    """Return the signature of a function as a user reads it, on one line if it is short."""
    parts = list(_parameters(function.args, sources))
    if parts and parts[0] in ("self", "cls"):
        del parts[0]
    result = "" if name[0].isupper() and "." not in name else _annotation(function.returns)
    arrow = f" -> {result}" if result else ""
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){arrow}"])


def _parameters(arguments: ast.arguments, sources: Sources) -> Iterator[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(plain) - len(arguments.defaults))
    for each, default in zip(plain, [*missing, *arguments.defaults], strict=True):
        yield _parameter(each, default, sources)
    if arguments.vararg:
        yield f"*{arguments.vararg.arg}"
    elif arguments.kwonlyargs:
        yield "*"
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(each, default, sources)
    if arguments.kwarg:
        yield f"**{arguments.kwarg.arg}"


def _parameter(parameter: ast.arg, default: ast.expr | None, sources: Sources) -> str:
    kind = _annotation(parameter.annotation)
    text = f"{parameter.arg}: {kind}" if kind else parameter.arg
    if default is None:
        return text
    value = sources.constants.get(ast.unparse(default), ast.unparse(default))
    return f"{text} = {value}" if kind else f"{text}={value}"


def _annotation(node: ast.expr | None) -> str:
    """Return a type annotation as in the source, without `| Any`, which only the compiler needs."""
    if node is None:
        return ""
    text = ast.unparse(node).replace(" | Any", "").replace("'", "")
    return re.sub(r"^(?:ClassVar|Final)\[(.*)\]$", r"\1", text)


# -- docstrings ----------------------------------------------------------------------------------


def markdown(
    text: str, types: Mapping[str, str] | None = None, docs: Mapping[str, str] | None = None
) -> str:
    """Write a docstring as Markdown: sections as lists, attributes as a table, examples as code.

    `types` and `docs` have the types and the docstrings of the attributes that the class itself
    declares.
    """
    first, *rest = _SECTION.split(text)
    parts = [_paragraphs(first)]
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    if types:
        sections.setdefault("Attributes", "")
    for title, body in sections.items():
        if title == "Attributes":
            parts.append(_attributes(body, types or {}, docs or {}))
        else:
            written = _listed(body) if title in _LISTED else _paragraphs(body)
            parts.append(f"**{title}**\n\n{written}")
    return "\n\n".join(parts)


def _paragraphs(text: str) -> str:
    return "\n\n".join(
        f"```pycon\n{part}\n```" if part.startswith(">>>") else part
        for part in re.split(r"\n\n+", text.strip())
    )


def _items(body: str) -> Iterator[tuple[list[str], str]]:
    """Yield the items of a section, each with its names and the indented text below them."""
    for item in re.findall(r"^\S.*(?:\n(?:[ \t].*)?)*", body, re.M):
        names, _, text = item.partition("\n")
        yield [name.strip() for name in names.split(",")], " ".join(text.split())


def _listed(body: str) -> str:
    return "\n".join(f"- {_code(names)}: {text}" for names, text in _items(body))


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _attributes(body: str, types: Mapping[str, str], docs: Mapping[str, str]) -> str:
    """Write the attributes that a section explains, then the other declared attributes."""
    items = list(_items(body))
    named = {name for names, _ in items for name in names}
    items += [([name], docs.get(name, "")) for name in types if name not in named]
    rows = []
    for names, text in items:
        kinds = dict.fromkeys(types[name] for name in names if name in types)
        rows.append((_code(names), _code(kinds), text))
    return table(("attribute", "type", ""), rows)


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown. Bars in cells are escaped, because a bar would end the cell."""
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


# -- classes -------------------------------------------------------------------------------------


def bases(node: ast.ClassDef, sources: Sources) -> list[ast.ClassDef]:
    """Return a class and the classes it inherits from, nearest first."""
    found = [node]
    for base in node.bases:
        known = sources.classes.get(ast.unparse(base))
        if known:
            found += bases(known, sources)
    return found


def members(node: ast.ClassDef, sources: Sources) -> dict[str, Function]:
    """Return the public methods and properties of a class: its own first, then inherited ones."""
    found: dict[str, Function] = {}
    for each in bases(node, sources):
        for member in each.body:
            if isinstance(member, Function) and not member.name.startswith("_"):
                found.setdefault(member.name, member)
    return found


def _decorated(function: Function, name: str) -> bool:
    return any(ast.unparse(each) == name for each in function.decorator_list)


def _is(node: ast.ClassDef, base: str, sources: Sources) -> bool:
    return any(base in map(ast.unparse, each.bases) for each in bases(node, sources))


def describe_class(node: ast.ClassDef, sources: Sources) -> Iterator[str]:
    """Write a class: its signature, docstring, attributes and methods."""
    yield f"### {node.name}"
    made = next((m for m in node.body if isinstance(m, Function) and m.name == "__init__"), None)
    if made and node.name not in HANDED_OUT:
        yield f"```python\n{signature(node.name, made, sources)}\n```"
    text = ast.get_docstring(node) or ""
    if _is(node, "Enum", sources):
        yield markdown(text)
        yield _enumerated(node)
        return
    found = members(node, sources)
    properties = {name: each for name, each in found.items() if _decorated(each, "property")}
    types = {} if properties else _types_of(node, made)
    yield markdown(text, types, _attribute_docs(node.body))
    for name, method in found.items():
        if name not in properties and name not in HIDDEN.get(node.name, ()):
            yield f"#### {node.name}.{name}"
            subject = node.name if _decorated(method, "classmethod") else node.name.lower()
            yield f"```python\n{signature(f'{subject}.{name}', method, sources)}\n```"
            yield markdown(ast.get_docstring(method) or "")
    if properties:
        yield f"#### Properties of {node.name}"
        yield table(("property", "type", ""), _property_rows(node, properties, sources))


def describe_function(node: Function, sources: Sources) -> Iterator[str]:
    """Write a function: its signature and its docstring."""
    yield f"### {node.name}"
    yield f"```python\n{signature(node.name, node, sources)}\n```"
    yield markdown(ast.get_docstring(node) or "")


def _types_of(node: ast.ClassDef, made: Function | None) -> dict[str, str]:
    """Return the types of the public attributes that a class or its constructor declares."""
    types = {}
    inside = [*node.body, *(ast.walk(made) if made else ())]
    given = {each.arg: _annotation(each.annotation) for each in made.args.args} if made else {}
    for each in inside:
        if isinstance(each, ast.AnnAssign):
            name = ast.unparse(each.target).removeprefix("self.")
            kind = _annotation(each.annotation)
            types[name] = given.get(name, "") if kind == "Final" else kind
    return {name: kind for name, kind in types.items() if kind and name[0] != "_"}


def _enumerated(node: ast.ClassDef) -> str:
    docs = _attribute_docs(node.body)
    rows = [
        (f"`{node.name}.{name}`", f"`{ast.unparse(each.value)}`", docs.get(name, ""))
        for each in node.body
        if isinstance(each, ast.Assign)
        for name in map(ast.unparse, each.targets)
    ]
    return table(("member", "value", ""), rows)


def _property_rows(
    node: ast.ClassDef, properties: Mapping[str, Function], sources: Sources
) -> Iterator[tuple[str, str, str]]:
    """Return the rows for the attributes that have a docstring, then for the properties."""
    for each in bases(node, sources):
        types = _types_of(each, None)
        for name, text in _attribute_docs(each.body).items():
            yield f"`{name}`", f"`{types[name]}`", text
    for name, method in properties.items():
        text = " ".join((ast.get_docstring(method) or "").split())
        yield f"`{name}`", f"`{_annotation(method.returns)}`", text


# -- the page ------------------------------------------------------------------------------------


def page(package: Path = PACKAGE) -> str:
    """Return the whole page."""
    sources = read(package)
    errors = [n for n in sources.public if _is_error(n, sources)]
    named = {name for _, names, _ in PARTS for name in names}
    rest = [n for n in sources.public if n not in named and n not in errors]
    contents, parts = [], []
    for title, names, extras in PARTS:
        shown = [*names, *(rest if title == PARTS[0][0] else []), *extras]
        shown = [name for name in shown if name in {*sources.classes, *sources.functions}]
        links = ", ".join(f"[{name}](#{name.lower()})" for name in shown)
        anchor = title.lower().replace(" ", "-")
        contents.append(f"- [{title}](#{anchor})" + (f": {links}" if links else ""))
        parts.append(f"## {title}")
        for name in shown:
            if name in sources.functions:
                parts += describe_function(sources.functions[name], sources)
            else:
                parts += describe_class(sources.classes[name], sources)
    parts.append(_error_table(errors, sources))
    text = "\n\n".join(part for part in parts if part)
    types = _types(text, sources)
    contents.append("- [Types in signatures](#types-in-signatures)")
    return "\n".join((INTRODUCTION, *contents, "", text, "", types, ""))


def _is_error(name: str, sources: Sources) -> bool:
    node = sources.classes.get(name)
    return node is not None and _is(node, "Exception", sources)


def _error_table(errors: Iterable[str], sources: Sources) -> str:
    rows = []
    for name in errors:
        node = sources.classes[name]
        text = " ".join((ast.get_docstring(node) or "").split())
        rows.append((f"`{name}`", _code(map(ast.unparse, node.bases)), text))
    return table(("error", "is a", ""), rows)


def _types(text: str, sources: Sources) -> str:
    """Return the definitions of the types that the page names, and of the types used in these."""
    wanted: set[str] = set()
    words = re.findall(r"\w+", text)
    while words:
        word = words.pop()
        if word in sources.aliases and word not in wanted and word not in sources.classes:
            wanted.add(word)
            words += re.findall(r"\w+", sources.aliases[word][0])
    rows = [
        (f"`{name}`", f"`{d}`", doc)
        for name, (d, doc) in sorted(sources.aliases.items())
        if name in wanted
    ]
    return "## Types in signatures\n\n" + table(("name", "stands for", ""), rows)


if __name__ == "__main__":
    sys.stdout.write(page())
