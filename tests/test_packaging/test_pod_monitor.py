"""The PodMonitor against the operator's types, as TypeScript knows them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

MONITOR = Path(__file__).parents[2] / "packaging/kubernetes/podmonitor.yaml"
PACKAGES = ("@kubernetes-models/prometheus-operator@6.0.0", "typescript@6.0.3")
TYPES = "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor"

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("npm")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(
        [*install, *PACKAGES], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return directory


def complaints(checker: Path, document: dict[str, Any]) -> str:
    """What the compiler says of a document that claims to be a PodMonitor."""
    program = checker / "monitor.mts"
    program.write_text(
        f'import type {{ IPodMonitor }} from "{TYPES}";\n'
        f"export const monitor: IPodMonitor = {json.dumps(document)};\n"
    )
    options = ("--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext")
    done = subprocess.run(
        [checker / "node_modules/.bin/tsc", *options, "--target", "es2022", program],
        cwd=checker,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_operator_knows_every_key_of_the_pod_monitor(checker: Path) -> None:
    document = yaml.safe_load(MONITOR.read_text())
    assert complaints(checker, document) == ""


def test_a_misspelt_key_would_be_found(checker: Path) -> None:
    document = yaml.safe_load(MONITOR.read_text())
    document["spec"]["podMetricsEndpoints"][0]["intervall"] = "15s"
    assert "'\"intervall\"' does not exist" in complaints(checker, document)
