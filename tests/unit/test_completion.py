"""Shells complete commands and options by a script that the command line prints."""

import shutil
import subprocess
import sys

import pytest

from fair_allocator.cli import main
from fair_allocator.cli.completion import SHELLS
from tests.support.pace import scaled

Capture = pytest.CaptureFixture[str]

ASKING = """
COMP_WORDS=({words}) COMP_CWORD={last}
_shtab_fair_allocator
echo "${{COMPREPLY[@]}}"
"""


def script(shell: str, capsys: Capture) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fair-allocator check", "check-config"),
        ("fair-allocator send contr", "control controls"),
        ("fair-allocator inspect --p", "--partition --pool"),
        ("fair-allocator completion f", "fish"),
    ],
)
def test_bash_completes_by_it(words: str, expected: str, capsys: Capture) -> None:
    asking = ASKING.format(words=words, last=len(words.split()) - 1)
    answer = subprocess.run(
        ["bash", "--norc"],
        input=script("bash", capsys) + asking,
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=True,
    )
    assert (answer.stdout.split(), answer.stderr) == (expected.split(), "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_that_it_can_read(shell: str, capsys: Capture) -> None:
    text = script(shell, capsys)
    for word in ("fair-allocator", "check-config", "dead-letters", "--config", "replay"):
        assert word in text
    if shutil.which(shell):
        check = [shell, "--no-execute" if shell == "fish" else "-n"]
        subprocess.run(check, input=text, text=True, timeout=scaled(60), check=True)


def test_without_the_library_it_says_what_to_install(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 78
    assert "pip install 'fair-allocator[completion]'" in capsys.readouterr().err
