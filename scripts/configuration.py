"""Write docs/configuration.md: all settings, environment variables, and learners' parameters."""

import re
import sys
from inspect import Parameter, cleandoc, signature

from fair_allocator.config import reference
from fair_allocator.core.learners import Learner, is_built_in, known_learners

HEAD = """\
# Configuration

This page lists every setting with its type, its default and its meaning. A script writes the page
from the code, and a test checks that it is current. [service.md](service.md#words) explains the
words, such as *shard*, *journal* and *dead letter*.

- **The file.** Settings are in one TOML file. Name the file with `--config FILE` or in the variable
  `FAIR_ALLOCATOR_CONFIG`. The part of a name before the dot is the section: `log.path` is the key
  `path` in the section `[log]`.
- **Variables.** An environment variable overrides the file: see [below](#variables).
- **Check the file first.** `fair-allocator check-config --config FILE` says what each pool
  guarantees, and warns of settings that make no sense together. If the service could not start with
  this file, the command ends with exit code 78.
- **`"none"`** means that a setting has no value, because TOML has no word for that.
- **Time.** The timeouts and the rate of a pool are measured in the
  [time of the records](service.md#time).

"""

VARIABLES = """\
## Variables

Each setting outside of `pools` has an environment variable, too. If the variable is set, it
overrides the file. Its name is `FAIR_ALLOCATOR_`, the section, two underscores and the key, in
capitals: `log.path` is `FAIR_ALLOCATOR_LOG__PATH`, and `seed` is `FAIR_ALLOCATOR_SEED`. Write
numbers and booleans as in TOML, texts as they are, and lists with commas between the items. An
empty variable counts as not set. There are no variables for pools: set pools in the file.

These variables are not settings:

| variable | meaning |
|---|---|
| `FAIR_ALLOCATOR_CONFIG` | The configuration file, if `--config` is not given. |
| `FAIR_ALLOCATOR_URL` | The server that `ask`, `reward`, `decline`, `tail` and `watch` talk to. |
| `FAIR_ALLOCATOR_TOKEN` | The token that these commands send to the server. |
| `FAIR_ALLOCATOR_PURE` | If it is 1 during `pip install`, nothing is compiled. |
"""

LEARNERS = """\
## Learners

`pools.NAME.learner` is a name, or a table with the name and parameters:
`learner = { name = "epsilon-greedy", epsilon = 0.05 }`. [theory.md](theory.md#learners) says how
each learner chooses. The last three are for simulations.

| learner | parameter | default | meaning |
|---|---|---|---|
"""


def learner_rows() -> str:
    """Return a row for each parameter of the built-in learners; one row if a learner has none."""
    rows = []
    for name, kind in known_learners().items():
        if is_built_in(name):
            words = described(kind)
            rows += [
                f"| `{name}` | `{each.name}` | {default(each)} | {words[each.name]} |"
                for each in signature(kind).parameters.values()
            ] or [f"| `{name}` | none | | |"]
    return "\n".join(rows) + "\n"


def default(parameter: Parameter) -> str:
    """Return the default of a parameter as the page shows it."""
    return "required" if parameter.default is Parameter.empty else f"`{parameter.default}`"


def described(kind: type[Learner]) -> dict[str, str]:
    """Return the meaning of each parameter of a learner, from the learner's docstring."""
    _, _, section = cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")
    found = re.findall(r"^(\w+)\n((?: {4}.*\n?)+)", section, re.M)
    return {name: " ".join(text.split()) for name, text in found}


def page() -> str:
    """Return the whole document."""
    body = "\n".join((reference(), VARIABLES, LEARNERS + learner_rows()))
    headings = re.findall("^## (.+)$", body, re.M)
    contents = [f"- [{each}](#{re.sub('[^a-z-]', '', each.lower())})" for each in headings]
    return HEAD + "\n".join(contents) + "\n\n" + body


if __name__ == "__main__":
    sys.stdout.write(page())
