"""A service that was killed is to be back at once: what `run` loads before its first decision."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOT_YET = (
    "fair_allocator.audit",
    "fair_allocator.demo",
    "fair_allocator.observe.reporter",
    "fair_allocator.observe.routes",
    "fair_allocator.simulate",
    "fair_allocator.web.server",
    "httptools",
    "matplotlib",
    "numpy",
    "prometheus_client",
    "rich",
    "starlette",
    "uvicorn",
)
"""What takes long to load, and is needed later or by others."""

MADE = """
import json, sys
from fair_allocator.cli import make_parser
from fair_allocator.cli.options import configuration_of
from fair_allocator.observe.observer import Observer
from fair_allocator.service import Service
from fair_allocator.wiring import open_log, service_settings

arguments = make_parser(["run"]).parse_args(["run", "--config", sys.argv[1]])
configuration = configuration_of(arguments)
settings = service_settings(configuration, configuration.log.partitions)
Service(open_log(configuration), settings, probe=Observer())
print(json.dumps(sorted(sys.modules)))
"""
"""All that `run` makes before it opens the log."""


@pytest.mark.parametrize(("kind", "other"), [("kafka", "confluent_kafka"), ("confluent", "kafka")])
def test_run_loads_nothing_that_its_first_decision_does_not_need(
    tmp_path: Path, kind: str, other: str
) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text(
        f'[log]\nkind = "{kind}"\n[kafka]\nbootstrap_servers = "127.0.0.1:1"\n'
        '[pools."*"]\narms = { a = "1/4", b = 0 }\n'
    )
    made = subprocess.run(
        [sys.executable, "-c", MADE, str(file)], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(made.stdout))
    assert "fair_allocator.service" in loaded
    assert sorted(loaded & {*NOT_YET, other}) == []
