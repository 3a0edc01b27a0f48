"""The Kubernetes example against the API's own schemas, and against what it promises."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from nvmeof_exporter import __version__
from nvmeof_exporter.config import load
from nvmeof_exporter.config.file import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = Path(__file__).parents[2] / "packaging/kubernetes"

#: The oldest and the newest API that the schemas are at hand for and that is worth naming.
VERSIONS = ("1.28", "1.37")


def documents(name: str) -> list[dict[str, Any]]:
    loaded = yaml.safe_load_all((DIRECTORY / name).read_text())
    return [document for document in loaded if document is not None]


def of_kind(kind: str, *files: str) -> dict[str, Any]:
    (found,) = (each for name in files for each in documents(name) if each["kind"] == kind)
    return found


CORE = [each for name in ("rbac.yaml", "daemonset.yaml") for each in documents(name)]
DAEMON_SET = of_kind("DaemonSet", "daemonset.yaml")
POD = DAEMON_SET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", CORE, ids=[document["kind"] for document in CORE])
def test_the_api_takes_every_document(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelt_key_would_be_found() -> None:
    wrong = copy.deepcopy(DAEMON_SET)
    wrong["spec"]["template"]["spec"]["hostNetwrk"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_the_pod_monitor_finds_the_pods() -> None:
    (monitor,) = documents("podmonitor.yaml")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert wanted <= DAEMON_SET["spec"]["template"]["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == DAEMON_SET["metadata"]["namespace"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in CONTAINER["ports"]]


def test_the_exporter_has_no_privilege_but_the_hosts_network_and_a_look_at_its_sys() -> None:
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["hostNetwork"]
    assert not POD.get("hostPID")
    assert not POD.get("hostIPC")
    host_paths = {v["name"]: v["hostPath"]["path"] for v in POD["volumes"] if "hostPath" in v}
    assert host_paths == {"sys": "/sys"}
    mounts = {mount["name"]: mount for mount in CONTAINER["volumeMounts"]}
    assert {name for name, mount in mounts.items() if not mount.get("readOnly")} == {"state"}


def test_the_exporter_cannot_speak_with_kubernetes() -> None:
    account = of_kind("ServiceAccount", "rbac.yaml")
    assert account["automountServiceAccountToken"] is POD["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == POD["serviceAccountName"]
    bound = [
        subject["name"]
        for document in CORE
        if document["kind"].endswith("Binding")
        for subject in document["subjects"]
    ]
    assert account["metadata"]["name"] not in bound


def test_everything_is_in_one_namespace() -> None:
    namespace = of_kind("Namespace", "rbac.yaml")["metadata"]["name"]
    every = [*CORE, *documents("podmonitor.yaml")]
    assert {d["metadata"]["namespace"] for d in every if d["kind"] != "Namespace"} == {namespace}


def test_the_exporter_takes_the_flags_and_the_settings(tmp_path: Path) -> None:
    (name, text), *others = of_kind("ConfigMap", "daemonset.yaml")["data"].items()
    assert not others
    settings = tmp_path / name
    settings.write_text(text)
    command, *flags = _local(CONTAINER["args"], settings)
    assert command == "serve"
    config = load(flags, {})
    read_file(str(settings))
    assert config.this_machine
    (port,) = CONTAINER["ports"]
    assert [address.port for address in config.web_listen_address] == [port["containerPort"]]
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert config.path_sysfs == mounts["sys"]
    assert config.path_state == mounts["state"]
    assert f"--config.file={mounts['config']}/{name}" in CONTAINER["args"]


def _local(arguments: list[str], settings: Path) -> Iterator[str]:
    for argument in arguments:
        yield f"--config.file={settings}" if argument.startswith("--config.file=") else argument


def test_the_image_is_of_this_version() -> None:
    assert CONTAINER["image"] == f"nvmeof-exporter:{__version__}"
    assert f"-t {CONTAINER['image']} " in (DIRECTORY / "Containerfile").read_text()
