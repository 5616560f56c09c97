"""A test that fails on Kafka says what was asked, how long that took, and what the broker said."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.broker.choice import ROOT
from tests.support.pace import scaled

FAILING = """
import logging
from fair_allocator.log.kafka import driver
from tests.support.broker import evidence
from tests.support.kafka_logs import fresh_settings
from tests.support.ports import free_port

def test_of_kafka(tmp_path):
    output = tmp_path / "broker.log"
    output.write_text("the broker shuts down\\n")
    evidence.outputs[output] = None
    logging.getLogger("kafka").warning("a client is worried")
    settings = fresh_settings(f"127.0.0.1:{free_port()}", request_seconds=0.5)
    driver("confluent", settings).admin()

def test_of_something_else():
    raise AssertionError
"""


def test_a_failure_shows_question_time_client_and_broker(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text(FAILING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.broker.evidence", str(file)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    said = done.stdout
    assert "2 failed" in said, said + done.stderr
    assert re.search(r"confluent Admin.partition_counts\(\) took \d\.\d+ s: Unreachable: ", said)
    assert "WARNING kafka a client is worried" in said
    assert re.search(r"the last lines of \S+broker\.log -+\n", said), "however long the path"
    assert "the broker shuts down" in said
    assert said.count("asked of Kafka") == 1, "the other one asked nothing"
