"""A real Prometheus scrapes the demonstration for a minute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.test_daemon.prometheus import Prometheus, scraping
from tests.test_daemon.running import eventually, running

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(180)]

MINUTE = 60.0


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus after a minute."""
    directory = tmp_path_factory.mktemp("prometheus")
    with running("demo") as exporter:
        target = exporter.url.removeprefix("http://")
        job = f'  - {{job_name: nvmeof, static_configs: [{{targets: ["{target}"]}}]}}\n'
        with scraping(job, directory) as prometheus:
            end = time.monotonic() + MINUTE
            eventually(lambda: bool(prometheus.query("up == 1")), "up")
            time.sleep(max(end - time.monotonic(), 0))  # a minute of scrapes is what is tested
            yield prometheus


def test_the_exporter_was_up_throughout(scraped: Prometheus) -> None:
    assert scraped.value("min_over_time(up[2m])") == 1
    assert scraped.value("count_over_time(up[2m])") >= 50


def test_no_scrape_failed_and_no_sample_was_refused(scraped: Prometheus) -> None:
    log = scraped.log.read_text().lower()
    for word in ("duplicate", "out of order", "out-of-order", "scrape failed", "append failed"):
        assert word not in log
    (target,) = scraped.targets().values()
    assert (target["health"], target["lastError"]) == ("up", "")


def test_every_sample_scraped_was_stored(scraped: Prometheus) -> None:
    post, before = (
        scraped.value(f"scrape_samples_{kind}") for kind in ("post_metric_relabeling", "scraped")
    )
    assert post == before > 500


def test_queries_answer_what_happened(scraped: Prometheus) -> None:
    assert scraped.value("count(count by (nqn) (nvmeof_subsystem_paths))") == 2
    assert scraped.value("sum(nvmeof_subsystem_paths_expected)") == 4
    # One state at a time, whatever befell the paths.
    sums = scraped.query("min_over_time((sum by (nqn, path) (nvmeof_path_state))[50s:1s])")
    assert {one["value"][1] for one in sums} == {"1"}
    # The script's first fault: a target port that goes and comes.
    assert scraped.value('sum(nvmeof_path_transitions_total{to="connecting"})') >= 1
    assert scraped.value("sum(nvmeof_failovers_total)") >= 1
    assert scraped.value("sum(nvmeof_path_outage_seconds_count)") >= 1
    rate = scraped.value("sum(rate(nvmeof_namespace_reads_completed_total[30s]))")
    assert rate > 10


def test_nothing_restarted_and_polling_kept_pace(scraped: Prometheus) -> None:
    assert scraped.value("max(resets(nvmeof_exporter_poll_duration_seconds_count[1m]))") == 0
    assert scraped.value("rate(nvmeof_exporter_poll_duration_seconds_count[30s])") > 5
