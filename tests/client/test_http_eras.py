"""Negotiation over HTTP: the era by error codes and statuses, and the exceptions of failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.client.http_origin import (
    LEGACY,
    MODERN,
    URL,
    Answer,
    Cut,
    Events,
    Failure,
    HttpOrigin,
    Page,
    ReceivedRequest,
    connected,
    modern,
)
from trio_mcp import (
    ConnectionBroken,
    ErrorResponse,
    HttpStatusError,
    RequestTimedOut,
    TimeLimits,
    UnsupportedRevision,
    open_http_client,
)
from trio_mcp.testing import AsgiEngine

DISCOVER, INITIALIZE = "server/discover", "initialize"
HANDSHAKE = [INITIALIZE, "notifications/initialized"]


def answering(*answers: Answer) -> Callable[[ReceivedRequest], Answer]:
    """Return a reply that gives the answers in order and repeats the last one."""
    left = [*answers]
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


async def test_a_modern_server_needs_one_request() -> None:
    origin = HttpOrigin()

    async with connected(origin) as client:
        assert client.revision == MODERN

    assert origin.methods() == [DISCOVER]


@pytest.mark.requirement("B.4-H1")
@pytest.mark.parametrize("status", [200, 400, 404])
@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000, -32001, -32700])
async def test_an_error_that_legacy_servers_send_leads_to_a_handshake(status: int, code: int) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering(Failure(code, status=status))})

    async with connected(origin) as client:
        assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, *HANDSHAKE]


@pytest.mark.requirement("B.4-H1")
@pytest.mark.parametrize("status", [200, 202, 204, 400, 404, 405, 406, 415, 422, 429, 500, 501])
@pytest.mark.parametrize("text", ["", "<html>Not found</html>"])
async def test_an_answer_that_is_not_a_message_leads_to_a_handshake(status: int, text: str) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering(Page(status, "" if status == 204 else text))})

    async with connected(origin) as client:
        assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, *HANDSHAKE]


async def test_a_stream_without_an_answer_leads_to_a_handshake() -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering(Events([]))})

    async with connected(origin) as client:
        assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, DISCOVER, *HANDSHAKE]  # a probe is sent twice if its answer is lost


@pytest.mark.parametrize("status", [401, 403, 302, 502, 503, 504])
async def test_a_status_that_is_not_about_the_request_is_raised(status: int) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering(Page(status, "not today"))})

    with pytest.raises(HttpStatusError) as raised:
        async with connected(origin):
            raise AssertionError

    assert raised.value.status == status
    assert origin.methods() == [DISCOVER]


@pytest.mark.requirement("B.4-H1")
async def test_after_a_refused_revision_the_client_uses_one_that_both_support() -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering(Failure(-32022, {"supported": [LEGACY]}))})

    async with connected(origin) as client:
        assert client.revision == LEGACY


@pytest.mark.requirement("B.4-H1")
@pytest.mark.parametrize("code", [-32020, -32021])
async def test_other_errors_of_modern_servers_are_raised_without_a_handshake(code: int) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering(Failure(code))})

    with pytest.raises(ErrorResponse) as raised:
        async with connected(origin):
            raise AssertionError

    assert raised.value.code == code
    assert origin.methods() == [DISCOVER]
    advice = "If a header field is missing, a proxy may have removed it: let it pass, or pin a revision"
    assert any(note.startswith(advice) for note in getattr(raised.value, "__notes__", [])) is (code == -32020)


async def test_a_client_pinned_to_the_modern_era_raises_the_refusal_of_the_server() -> None:
    for answer, error in ((Page(404), HttpStatusError), (Failure(-32601, status=404), UnsupportedRevision)):
        origin = HttpOrigin(LEGACY, {DISCOVER: answering(answer)})
        with pytest.raises(error):
            async with connected(origin, revision=MODERN):
                raise AssertionError
        assert origin.methods() == [DISCOVER]


async def test_a_refused_handshake_is_raised() -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering(Page(404)), INITIALIZE: answering(Page(404, "nothing here"))})

    with pytest.raises(HttpStatusError, match="nothing here"):
        async with connected(origin):
            raise AssertionError


@pytest.mark.requirement("B.4-H2")
async def test_an_unknown_method_does_not_change_the_era_of_a_connected_server() -> None:
    origin = HttpOrigin(replies={"com.example/rooms": answering(Failure(-32601, status=404))})

    async with connected(origin) as client:
        for _ in range(2):
            with pytest.raises(ErrorResponse) as missing:
                await client.request("com.example/rooms", {}, dict)
            assert missing.value.code == -32601
        await client.discover()

    assert INITIALIZE not in origin.methods()


# Slow servers.


def answering_after(seconds: float, answer: Answer) -> Any:
    async def reply(request: ReceivedRequest) -> Answer:
        await trio.sleep(seconds)
        return answer

    return reply


DISCOVERY = modern(supportedVersions=[MODERN], capabilities={})
SLOW = answering_after(20, DISCOVERY)


async def test_a_server_that_does_not_answer_the_probe_is_sent_a_handshake(autojump_clock: object) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: answering_after(10_000, DISCOVERY)})

    async with connected(origin) as client:
        assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, *HANDSHAKE]


async def test_a_late_discovery_switches_back_to_the_modern_era(autojump_clock: object) -> None:
    origin = HttpOrigin(replies={DISCOVER: SLOW, INITIALIZE: answering_after(10_000, Page(404))})

    async with connected(origin) as client:
        assert client.revision == MODERN


@pytest.mark.parametrize("refusal", [Failure(-32020), Page(404), Page(400)])
async def test_a_refused_handshake_does_not_end_the_wait_for_a_slow_modern_server(
    refusal: Answer, autojump_clock: object
) -> None:
    origin = HttpOrigin(replies={DISCOVER: SLOW, INITIALIZE: answering(refusal)})

    async with connected(origin) as client:
        assert client.revision == MODERN


@pytest.mark.parametrize("refusal", [Failure(-32020), Page(404)])
@pytest.mark.parametrize("answer", [Failure(-32601), Page(400)])
async def test_a_refused_handshake_is_raised_when_the_probe_fails_too(
    refusal: Answer, answer: Answer, autojump_clock: object
) -> None:
    origin = HttpOrigin(replies={DISCOVER: answering_after(20, answer), INITIALIZE: answering(refusal)})

    with pytest.raises(ErrorResponse if isinstance(refusal, Failure) else HttpStatusError, match=r"no|404"):
        async with connected(origin):
            raise AssertionError


@pytest.mark.parametrize("refusal", [Failure(-5), Page(401), Page(503)])
async def test_any_other_refusal_of_the_handshake_is_raised_at_once(refusal: Answer, autojump_clock: object) -> None:
    origin = HttpOrigin(replies={DISCOVER: answering_after(10_000, DISCOVERY), INITIALIZE: answering(refusal)})

    began = trio.current_time()
    with pytest.raises(ErrorResponse if isinstance(refusal, Failure) else HttpStatusError):
        async with connected(origin):
            raise AssertionError
    assert trio.current_time() - began < 10


async def test_a_server_that_never_answers_times_out(autojump_clock: object) -> None:
    silence = answering_after(10_000, DISCOVERY)
    origin = HttpOrigin(replies={DISCOVER: silence, INITIALIZE: silence})

    with pytest.raises(RequestTimedOut, match=r"within 30 s \(TimeLimits.connect\)"):
        async with connected(origin, time_limits=TimeLimits(connect=30)):
            raise AssertionError


# Unreachable servers.


async def test_a_lost_discovery_is_requested_once_more() -> None:
    origin = HttpOrigin(replies={DISCOVER: answering(Cut(), DISCOVERY)})

    async with connected(origin) as client:
        assert client.revision == MODERN


async def test_a_server_whose_answers_are_lost_raises_connection_broken() -> None:
    origin = HttpOrigin(replies={DISCOVER: answering(Cut())})

    with pytest.raises(ConnectionBroken, match="server/discover"):
        async with connected(origin):
            raise AssertionError


async def test_an_unreachable_server_is_named_in_the_error() -> None:
    with pytest.raises(ConnectionBroken, match=r"cannot connect to http://127\.0\.0\.1:1/mcp: "):
        async with open_http_client("http://127.0.0.1:1/mcp?key=secret"):
            raise AssertionError


async def test_an_application_that_raises_leads_to_status_500() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError

    with pytest.raises(HttpStatusError) as raised:
        async with open_http_client(URL, engine=AsgiEngine(application)):
            raise AssertionError

    assert raised.value.status == 500
