"""Who gets in by a password, what a guess costs, and what is remembered of it."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from nvmeof_exporter.exposition import passwords as passwords_module
from nvmeof_exporter.exposition import web_security
from nvmeof_exporter.exposition.passwords import Passwords, Verdict
from tests.test_daemon.running import eventually
from tests.test_web_security.serving import basic, hashed, served

if TYPE_CHECKING:
    from pathlib import Path

SECRET, OTHER = hashed("secret").encode(), hashed("other", 5).encode()
USERS = {"alice": SECRET, "bob": OTHER}


class Counting:
    """bcrypt, which counts and can be held."""

    def __init__(self, passwords: Passwords) -> None:
        self._checkpw = passwords._checkpw
        passwords._checkpw = self
        self.hashes: list[bytes] = []
        self.entered = threading.Semaphore(0)
        self.free = threading.Event()
        self.free.set()

    def __call__(self, password: bytes, hashed_password: bytes) -> bool:
        self.hashes.append(hashed_password)
        self.entered.release()
        assert self.free.wait(10)
        return self._checkpw(password, hashed_password)


def judge(passwords: Passwords, name: str, password: str) -> Verdict:
    return passwords.judge(basic(name, password)["Authorization"])


@pytest.mark.parametrize(
    ("name", "password", "verdict"),
    [
        ("alice", "secret", Verdict.GRANTED),
        ("bob", "other", Verdict.GRANTED),
        ("alice", "other", Verdict.DENIED),
        ("alice", "", Verdict.DENIED),
        ("alice", "secret ", Verdict.DENIED),
        ("Alice", "secret", Verdict.DENIED),
        ("carol", "secret", Verdict.DENIED),
        ("carol", "other", Verdict.DENIED),
        ("", "secret", Verdict.DENIED),
        ("alice", "secret\0", Verdict.DENIED),
        ("alice", "x" * 5000, Verdict.DENIED),
    ],
)
def test_only_a_user_with_his_own_password_gets_in(
    name: str, password: str, verdict: Verdict
) -> None:
    passwords = Passwords(USERS)
    assert [judge(passwords, name, password) for _ in range(2)] == [verdict, verdict]


def test_a_password_longer_than_bcrypt_reads_is_cut_off_as_everywhere() -> None:
    passwords = Passwords({"alice": hashed("x" * 72).encode()})
    assert judge(passwords, "alice", "x" * 100) is Verdict.GRANTED


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic ", "Bearer YWxpY2U6c2VjcmV0", "Basic !!!", "Basic YWxpY2U=", "Basic é"],
)
def test_what_is_no_basic_authentication_gets_nobody_in_and_costs_no_hash(header: str) -> None:
    passwords = Passwords(USERS)
    counting = Counting(passwords)
    assert passwords.judge(header) is Verdict.DENIED
    assert counting.hashes == []


@given(st.text(st.characters(max_codepoint=255)))
def test_no_header_whatever_does_harm(header: str) -> None:
    assert Passwords(USERS).judge(header) is Verdict.DENIED


def test_the_scheme_may_be_written_in_any_case() -> None:
    encoded = base64.b64encode(b"alice:secret").decode()
    assert Passwords(USERS).judge(f"bAsIc {encoded}") is Verdict.GRANTED


def test_a_name_nobody_has_costs_as_much_as_the_dearest_one() -> None:
    passwords = Passwords(USERS)
    counting = Counting(passwords)
    assert judge(passwords, "carol", "guess") is Verdict.DENIED
    assert judge(passwords, "bob", "guess") is Verdict.DENIED
    assert counting.hashes == [OTHER, OTHER]


def test_results_are_kept_and_cost_no_second_hash() -> None:
    passwords = Passwords(USERS)
    counting = Counting(passwords)
    for _ in range(3):
        assert judge(passwords, "alice", "secret") is Verdict.GRANTED
        assert judge(passwords, "alice", "guess") is Verdict.DENIED
        assert judge(passwords, "carol", "guess") is Verdict.DENIED
    assert len(counting.hashes) == 3


def test_what_is_kept_is_bounded_and_guesses_drive_out_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passwords_module, "_MOST_DENIED", 4)
    passwords = Passwords(USERS)
    counting = Counting(passwords)
    judge(passwords, "alice", "secret")
    for guess in range(20):
        judge(passwords, "alice", f"{guess}")
    assert len(passwords._denied._members) == 4
    assert len(counting.hashes) == 21
    assert judge(passwords, "alice", "secret") is Verdict.GRANTED
    assert len(counting.hashes) == 21


def test_nothing_that_is_kept_holds_a_password() -> None:
    passwords = Passwords(USERS)
    judge(passwords, "alice", "secret")
    judge(passwords, "alice", "guess")
    kept = [*passwords._granted._members, *passwords._denied._members]
    assert {len(digest) for digest in kept} == {64}
    assert not [digest for digest in kept if b"secret" in digest or b"guess" in digest]
    again = Passwords(USERS)
    judge(again, "alice", "secret")
    assert set(again._granted._members).isdisjoint(passwords._granted._members)


def test_a_crowd_of_guesses_waits_for_nothing_and_keeps_out_nobody_who_is_known() -> None:
    passwords = Passwords(USERS)
    counting = Counting(passwords)
    assert judge(passwords, "alice", "secret") is Verdict.GRANTED
    counting.free.clear()
    guesses = [
        threading.Thread(target=judge, args=(passwords, "alice", f"{guess}")) for guess in range(4)
    ]
    for guess in guesses:
        guess.start()
    eventually(lambda: passwords._places._value == 0, "four are waiting")
    assert judge(passwords, "alice", "one too many") is Verdict.BUSY
    assert judge(passwords, "alice", "secret") is Verdict.GRANTED
    counting.free.set()
    for guess in guesses:
        guess.join()
    assert len(counting.hashes) == 5
    assert judge(passwords, "alice", "one too many") is Verdict.DENIED


WEB = f"basic_auth_users: {{alice: '{SECRET.decode()}'}}\n"


def test_pages_are_for_those_who_know_a_password(tmp_path: Path) -> None:
    with served(tmp_path, WEB) as running:
        stranger = running.get()
        assert stranger.status == 401
        assert (
            stranger.getheader("WWW-Authenticate")
            == 'Basic realm="nvmeof-exporter", charset="UTF-8"'
        )
        assert running.get(headers=basic("alice", "wrong")).status == 401
        assert running.get(headers=basic("alice", "secret")).status == 200


def test_known_and_unknown_names_are_answered_alike(tmp_path: Path) -> None:
    with served(tmp_path, WEB) as running:
        answers = [
            {k: v for k, v in answer.getheaders() if k != "Date"}
            for answer in (
                running.get(headers=basic("alice", "wrong")),
                running.get(headers=basic("carol", "wrong")),
                running.get(),
            )
        ]
    assert answers[0] == answers[1] == answers[2]


def test_a_changed_password_is_in_force_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_security, "_LOOK_SECONDS", 0.02)
    with capture_logs() as lines, served(tmp_path, WEB) as running:
        assert running.get(headers=basic("alice", "secret")).status == 200
        (tmp_path / "web.yaml").write_text(f"basic_auth_users: {{alice: '{OTHER.decode()}'}}\n")
        eventually(lambda: running.get(headers=basic("alice", "other")).status == 200, "new")
        assert running.get(headers=basic("alice", "secret")).status == 401
    assert [line["event"] for line in lines if "configuration" in line["event"]] == [
        "web configuration reloaded"
    ]
    assert SECRET.decode() not in str(lines)


def test_headers_are_added_and_replace_those_of_the_page(tmp_path: Path) -> None:
    headers = "{X-Frame-Options: deny, X-Content-Type-Options: nosniff}"
    text = f"{WEB}http_server_config: {{headers: {headers}}}\n"
    with served(tmp_path, text) as running:
        for answer in (running.get(), running.get(headers=basic("alice", "secret"))):
            assert answer.getheader("X-Frame-Options") == "deny"
            assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"]


def test_more_requests_than_the_rate_limit_allows_are_told_to_come_back(tmp_path: Path) -> None:
    with served(tmp_path, "rate_limit: {interval: 1h, burst: 2}\n") as running:
        answers = [running.get() for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[-1].getheader("Retry-After") == "1"


def test_the_rate_limit_lets_one_more_in_after_its_interval(tmp_path: Path) -> None:
    with served(tmp_path, "rate_limit: {interval: 50ms, burst: 1}\n") as running:
        assert running.get().status == 200
        eventually(lambda: running.get().status == 200, "one more")
