"""The examples of docs/http.md, run as they are written."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.deploy.processes import awaited, environment, running
from tests.support.pace import scaled
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_example_answers_what_the_page_says(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "fair-allocator.toml"
    (toml,) = blocks("toml")
    file.write_text(toml, encoding="utf-8")
    command = [sys.executable, "-m", "fair_allocator", "run", "--config", str(file)]
    said = tmp_path / "said.txt"
    ran = 0
    with running(command, said, environment(FAIR_ALLOCATOR_OBSERVE__PORT=str(port))):
        awaited(lambda: answered(port), "an answer", said)
        for block in blocks("console"):
            lines = block.splitlines()
            for line, shown in zip(lines, [*lines[1:], ""], strict=True):
                if line.startswith("$ curl"):
                    got = run(line, port)
                    ran += 1
                    if shown.startswith(("{", "[")):
                        assert json.loads(got) == json.loads(shown), line
                    else:
                        assert '"request_id":"r1"' in got or '"request_id":"r2"' in got, got
    assert ran >= 7


def answered(port: int) -> bool | None:
    try:
        url = f"http://127.0.0.1:{port}/v1/pools/nobody/requests"
        return httpx.post(url, timeout=scaled(10)).status_code == 404 or None
    except httpx.HTTPError:
        return None


def run(line: str, port: int) -> str:
    here = line.removeprefix("$ ").replace("localhost:9464", f"127.0.0.1:{port}")
    words = shlex.split(here.replace("--max-time 2", f"--max-time {scaled(5):g}"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=scaled(60), check=False)
    assert done.returncode in (0, 28), done.stderr  # 28: a stream that was watched for long enough
    return done.stdout
