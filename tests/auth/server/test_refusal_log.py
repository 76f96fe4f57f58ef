"""The log of refused requests: what an operator sees without any configuration, and its bounds."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.auth.server.guard_client import GuardClient, access_of, guard_client, refusal_of
from tests.auth.signed_tokens import NOW, Clock, ec_key
from trio_mcp._shares import sender_of
from trio_mcp.auth import VerifierUnavailable
from trio_mcp.auth._dpop import DpopKey
from trio_mcp.auth.server._resource_server import RefusalLog

ROOT = Path(__file__).parents[3]
HERE = "192.0.2.1"
ONE, TWO, THREE = (sender_of(None, f"192.0.2.{number}") for number in (1, 2, 3))


async def test_the_reason_of_a_refusal_reaches_standard_error_without_any_configuration() -> None:
    with trio.fail_after(60):
        command = [sys.executable, "-W", "error", "-m", "tests.auth.server.programs.refusing"]
        ended = await trio.run_process(command, cwd=ROOT, capture_stdout=True, capture_stderr=True)

    token = ended.stdout.decode().strip()
    lines = ended.stderr.decode().splitlines()
    line = "a token from 192.0.2.1 was refused: it is for ('https://other.example',), not for this server"
    assert lines == [line, f"{line} (10 times within a minute)"]
    assert not [part for part in token.split(".") if part in ended.stderr.decode()]


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://evil.example"}, "its issuer 'https://evil.example' is not trusted"),
        ({"iss": "evil\n2026 all is well\x1b"}, r"its issuer 'evil\n2026 all is well\x1b' is not trusted"),
        ({"aud": "https://other.example"}, "it is for ('https://other.example',), not for this server"),
        ({"exp": int(NOW) - 300}, "it expired 300 s ago"),
        ({"nbf": int(NOW) + 300}, "it is not valid yet"),
        ({"exp": None}, "it never expires"),
        ({"cnf": {"jkt": "a"}}, "it is bound to a key, but was sent as a bearer token"),
        (
            {"key": ec_key("foreign")},
            "no key of its issuer 'https://as.example' has signed it (its key id is 'foreign')",
        ),
        ({"header": {"typ": "refresh"}}, "its type is 'refresh', not that of an access token"),
    ],
)
async def test_the_reason_why_a_token_is_refused_is_a_warning(
    claims: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = guard_client()
    token = client.issuer.token(**claims)

    refusal_of(await client(token, address=HERE), 401, "invalid_token")

    assert caplog.messages == [f"a token from {HERE} was refused: {reason}"]
    assert caplog.records[0].levelno == logging.WARNING
    assert token not in caplog.text


async def test_the_reason_why_a_proof_is_refused_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    client, key = guard_client(), DpopKey.generate()
    token = client.issuer.token(cnf={"jkt": key.thumbprint})

    refusal_of(await client(token, scheme="DPoP", proof="nonsense"), 401, "invalid_dpop_proof")

    assert caplog.messages == ["a token was refused: its proof is invalid: it does not have the three parts of a JWS"]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"query": "access_token=x"}, "it is in the URL, and not in the header"),
        ({"token": "one,two"}, "there is more than one"),
        ({"token": "with space"}, "it is too long, or contains invalid characters"),
    ],
)
async def test_a_request_with_a_misplaced_token_is_logged(
    request_: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    await guard_client()(**request_, address=HERE)

    assert caplog.messages == [f"a token from {HERE} was refused: {reason}"]


async def test_a_request_without_a_token_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.auth")

    refusal_of(await guard_client()(address=HERE), 401)

    assert caplog.messages == []


async def test_scopes_that_every_request_needs_are_missed_with_a_warning_and_others_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.auth")
    client = guard_client(scopes=["read"])

    refusal_of(await client(client.issuer.token(scope="write")), 403, "insufficient_scope")
    access = access_of(await client(client.issuer.token(scope="read")))
    client.guard.permit(access, ["write"])

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "'ann' was refused: the scopes 'read' are required"),
        ("INFO", "'ann' was refused: the scopes 'read write' are required"),
    ]


async def test_many_invalid_tokens_of_one_sender_do_not_fill_the_log_and_hide_no_other_sender(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = guard_client()
    for number in range(1000):
        await client(client.issuer.token(iss=f"https://evil-{number}.example"), address=HERE)
    assert len(caplog.messages) == 50 + 3
    assert caplog.messages[-3:] == [
        "more requests were refused, for reasons that are not logged one by one",
        "more requests were refused, for reasons that are not logged one by one (10 times within a minute)",
        "more requests were refused, for reasons that are not logged one by one (100 times within a minute)",
    ]

    caplog.clear()
    await client(client.issuer.token(iss="https://old.example"), address="192.0.2.7")
    assert caplog.messages == ["a token from 192.0.2.7 was refused: its issuer 'https://old.example' is not trusted"]


@pytest.mark.parametrize("passed", [60, -1])
def test_a_line_appears_once_a_minute_and_for_powers_of_ten(passed: float, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = RefusalLog(clock)

    for _ in range(1234):
        log.note(ONE, "no")
    assert caplog.messages == ["no", *(f"no ({times} times within a minute)" for times in (10, 100, 1000))]

    caplog.clear()
    clock.now += passed
    log.note(ONE, "no")
    assert caplog.messages == ["no"]


def test_the_lines_of_a_minute_are_shared_by_the_senders(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trio_mcp.auth.server._resource_server._MOST_LINES", 3)
    log = RefusalLog(Clock())

    for sender, name in [(ONE, "one"), (TWO, "two"), (THREE, "three")]:
        for number in range(4):
            log.note(sender, f"{name} {number}")
    log.note(ONE, "one 2")

    unlogged = "more requests were refused, for reasons that are not logged one by one"
    assert caplog.messages == ["one 0", "one 1", "one 2", unlogged, "two 0", "three 0"]
    assert log._times[None, unlogged] == 7


async def test_an_authorization_server_out_of_reach_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Unavailable:
        async def verify(self, token: str, fetch: object) -> Any:
            raise VerifierUnavailable("it is out of reach")

    client: GuardClient = guard_client(verifier=Unavailable())
    for number in range(9):
        refusal_of(await client("token", address=f"192.0.2.{number}"), 503)

    assert caplog.messages == ["tokens cannot be checked: it is out of reach"]


async def test_a_bug_of_a_verifier_is_logged_with_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        async def verify(self, token: str, fetch: object) -> Any:
            raise ZeroDivisionError

    client: GuardClient = guard_client(verifier=Failing())
    for _ in range(9):
        refusal_of(await client("token"), 503)

    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "the token verifier failed: ZeroDivisionError")
    assert record.exc_info is not None
