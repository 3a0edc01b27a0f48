from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.config import ConfigError, load
from nvmeof_exporter.config.explain import Setting, explain

if TYPE_CHECKING:
    from pathlib import Path


def explained(
    *argv: str, defaults: dict[str, str] | None = None, **environ: str
) -> dict[str, Setting]:
    return {one.name: one for one in explain(load(argv, environ, defaults))}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "settings.yaml"
    path.write_text("log:\n  level: debug\nstall.threshold: 2s\n")
    return str(path)


def test_every_option_comes_with_its_value_and_where_it_was_given(file: str) -> None:
    found = explained(
        "--log.level=warning",
        f"--config.file={file}",
        "--web.listen-address=:1",
        "--web.listen-address=[::1]:2",
        NVMEOF_EXPORTER_COLLECTOR_RDMA_DEVICE_INCLUDE="mlx5_.*",
        STATE_DIRECTORY="/var/lib/a:/var/lib/b",
    )
    told = {name: (one.value, one.origin) for name, one in found.items()}
    assert told["log.level"] == ("warning", "--log.level")
    assert told["stall.threshold"] == (2.0, f"{file}:3: stall.threshold")
    assert told["web.listen-address"] == ([":1", "[::1]:2"], "--web.listen-address")
    assert told["collector.rdma.device-include"] == (
        "mlx5_.*",
        "NVMEOF_EXPORTER_COLLECTOR_RDMA_DEVICE_INCLUDE",
    )
    assert told["path.state"] == ("/var/lib/a", "STATE_DIRECTORY")
    assert told["collector.udev"] == (None, "default")
    assert told["poll.interval"] == (0.1, "default")


def test_a_file_that_is_broken_by_now_is_named(file: str, tmp_path: Path) -> None:
    config = load([f"--config.file={file}"], {})
    (tmp_path / "settings.yaml").write_text("log: [\n")
    with pytest.raises(ConfigError, match=r"settings\.yaml:2: is no valid YAML"):
        explain(config)
