from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from nvmeof_exporter.status_page.routes import status_routes
from tests.fixtures.viewing import served_node, view_of
from tests.status_page.reading import elements

if TYPE_CHECKING:
    from pathlib import Path

    from nvmeof_exporter.exposition.response import Response
    from nvmeof_exporter.view.model import NodeView


@pytest.fixture
def view(tmp_path: Path) -> NodeView:
    return view_of(served_node("four-gateways", tmp_path)[0])


def ask(view: NodeView | None, path: str = "/", **environ: str) -> Response:
    return status_routes(lambda: view, "/nvme/metrics")[path](environ)


def test_the_page_may_load_its_own_files_and_nothing_else(view: NodeView) -> None:
    headers = dict(ask(view).headers)
    assert headers["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert headers["Cache-Control"] == "no-store"


def test_every_file_that_it_names_is_there_and_may_be_kept(view: NodeView) -> None:
    named = {
        address.partition("?")[0].removeprefix(".")
        for element in elements(ask(view).body.decode())
        if element.name in {"link", "script"}
        and (address := element.attributes.get("href") or element.attributes.get("src"))
    }
    assert named == {"/status.css", "/status.js", "/status.svg"}
    for path in named:
        answer = ask(view, path)
        assert answer.status == "200 OK"
        assert answer.body
        assert dict(answer.headers)["Cache-Control"] == "max-age=31536000, immutable"


def test_it_links_to_the_metrics_where_they_are_also_behind_a_prefix(view: NodeView) -> None:
    links = [e.attributes["href"] for e in elements(ask(view).body.decode()) if e.name == "a"]
    assert [link for link in links if link and not link.startswith("#")] == [
        "./nvme/metrics",
        "./api/v1/status",
        "./api/v1/events",
        "./-/healthy",
    ]


def test_it_is_compressed_for_who_accepts_it(view: NodeView) -> None:
    packed = ask(view, HTTP_ACCEPT_ENCODING="gzip")
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == ask(view).body


def test_before_the_first_poll_it_is_not_available_yet() -> None:
    answer = ask(None)
    assert answer.status == "503 Service Unavailable"
    assert b"not polled yet" in answer.body


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "3601", "five", "1e9"])
def test_an_objective_that_makes_no_sense_is_refused(text: str, view: NodeView) -> None:
    answer = ask(view, QUERY_STRING=f"objective={text}")
    assert answer.status == "400 Bad Request"
    assert answer.body.decode() == (
        f'objective: "{text}": expected seconds, more than 0 and at most 3600\n'
    )


def test_one_that_does_is_taken(view: NodeView) -> None:
    assert ask(view, QUERY_STRING="objective=7.5&x=1").status == "200 OK"
