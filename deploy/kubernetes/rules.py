"""Builds prometheusrule.yaml from Prometheus' own rule files, for the operator.

`python -m deploy.kubernetes.rules` writes it; a test sees that it is current.
"""

from pathlib import Path
from typing import Final

import yaml

PATH: Final = Path(__file__).with_name("prometheusrule.yaml")
_RULES: Final = Path(__file__).parents[1] / "prometheus"
_NOTE: Final = "# Built from deploy/prometheus by python -m deploy.kubernetes.rules.\n"


def build() -> str:
    """Return the resource as YAML."""
    files = [
        yaml.safe_load((_RULES / name).read_text()) for name in ("recording.yml", "alerts.yml")
    ]
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "fair-allocator"},
        "spec": {"groups": [group for file in files for group in file["groups"]]},
    }
    return _NOTE + yaml.safe_dump(resource, sort_keys=False, width=1000)


if __name__ == "__main__":
    PATH.write_text(build(), encoding="utf-8")
