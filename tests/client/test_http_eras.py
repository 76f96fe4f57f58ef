"""Finding out over HTTP what a server speaks, from messages and from statuses, and what is raised where that fails."""

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
    Failure,
    Got,
    HttpOrigin,
    Page,
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


def saying(*answers: Answer) -> Callable[[Got], Answer]:
    """Give one answer after the other; the last one again and again."""
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
async def test_an_error_that_legacy_servers_give_as_well_leads_to_a_handshake(status: int, code: int) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: saying(Failure(code, status=status))})

    async with connected(origin) as client:
        assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, *HANDSHAKE]


@pytest.mark.requirement("B.4-H1")
@pytest.mark.parametrize("status", [400, 404, 405, 406, 415, 422])
async def test_a_status_that_says_the_request_is_wrong_leads_to_a_handshake(status: int) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: saying(Page(status))})

    async with connected(origin) as client:
        assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, *HANDSHAKE]


@pytest.mark.parametrize("status", [401, 403, 302, 500, 502, 503])
async def test_a_status_that_says_nothing_about_the_request_is_raised(status: int) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: saying(Page(status, "not today"))})

    with pytest.raises(HttpStatusError) as raised:
        async with connected(origin):
            raise AssertionError

    assert raised.value.status == status
    assert origin.methods() == [DISCOVER]


@pytest.mark.requirement("B.4-H1")
async def test_the_refusal_of_a_revision_is_followed_to_one_that_both_speak() -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: saying(Failure(-32022, {"supported": [LEGACY]}))})

    async with connected(origin) as client:
        assert client.revision == LEGACY


@pytest.mark.requirement("B.4-H1")
@pytest.mark.parametrize("code", [-32020, -32021])
async def test_other_errors_of_modern_servers_are_raised_and_no_handshake_is_tried(code: int) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: saying(Failure(code))})

    with pytest.raises(ErrorResponse) as raised:
        async with connected(origin):
            raise AssertionError

    assert raised.value.code == code
    assert origin.methods() == [DISCOVER]


async def test_a_client_of_modern_revisions_alone_raises_what_the_server_says() -> None:
    for answer, error in ((Page(404), HttpStatusError), (Failure(-32601, status=404), UnsupportedRevision)):
        origin = HttpOrigin(LEGACY, {DISCOVER: saying(answer)})
        with pytest.raises(error):
            async with connected(origin, revision=MODERN):
                raise AssertionError
        assert origin.methods() == [DISCOVER]


async def test_a_refused_handshake_is_raised() -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: saying(Page(404)), INITIALIZE: saying(Page(404, "nothing here"))})

    with pytest.raises(HttpStatusError, match="nothing here"):
        async with connected(origin):
            raise AssertionError


@pytest.mark.requirement("B.4-H2")
async def test_a_missing_method_of_a_modern_server_says_nothing_about_its_era() -> None:
    origin = HttpOrigin(replies={"com.example/rooms": saying(Failure(-32601, status=404))})

    async with connected(origin) as client:
        for _ in range(2):
            with pytest.raises(ErrorResponse) as missing:
                await client.request("com.example/rooms", {}, dict)
            assert missing.value.code == -32601
        await client.discover()

    assert INITIALIZE not in origin.methods()


# Servers that take their time.


def late(seconds: float, answer: Answer) -> Any:
    async def reply(got: Got) -> Answer:
        await trio.sleep(seconds)
        return answer

    return reply


DISCOVERY = modern(supportedVersions=[MODERN], capabilities={})
SLOW = late(20, DISCOVERY)


async def test_a_silent_server_is_sent_a_handshake_too(autojump_clock: object) -> None:
    origin = HttpOrigin(LEGACY, {DISCOVER: late(10_000, DISCOVERY)})

    async with connected(origin) as client:
        assert client.revision == LEGACY

    assert origin.methods() == [DISCOVER, *HANDSHAKE]


async def test_a_late_discovery_switches_back(autojump_clock: object) -> None:
    origin = HttpOrigin(replies={DISCOVER: SLOW, INITIALIZE: late(10_000, Page(404))})

    async with connected(origin) as client:
        assert client.revision == MODERN


@pytest.mark.parametrize("refusal", [Failure(-32020), Page(404), Page(400)])
async def test_a_refusal_that_modern_servers_give_to_handshakes_decides_nothing(
    refusal: Answer, autojump_clock: object
) -> None:
    origin = HttpOrigin(replies={DISCOVER: SLOW, INITIALIZE: saying(refusal)})

    async with connected(origin) as client:
        assert client.revision == MODERN


@pytest.mark.parametrize("refusal", [Failure(-32020), Page(404)])
@pytest.mark.parametrize("answer", [Failure(-32601), Page(400)])
async def test_such_a_refusal_is_raised_when_the_probe_fails_as_well(
    refusal: Answer, answer: Answer, autojump_clock: object
) -> None:
    origin = HttpOrigin(replies={DISCOVER: late(20, answer), INITIALIZE: saying(refusal)})

    with pytest.raises(ErrorResponse if isinstance(refusal, Failure) else HttpStatusError, match=r"no|404"):
        async with connected(origin):
            raise AssertionError


@pytest.mark.parametrize("refusal", [Failure(-5), Page(401), Page(503)])
async def test_any_other_refusal_is_raised_at_once(refusal: Answer, autojump_clock: object) -> None:
    origin = HttpOrigin(replies={DISCOVER: late(10_000, DISCOVERY), INITIALIZE: saying(refusal)})

    began = trio.current_time()
    with pytest.raises(ErrorResponse if isinstance(refusal, Failure) else HttpStatusError):
        async with connected(origin):
            raise AssertionError
    assert trio.current_time() - began < 10


async def test_a_server_that_never_answers_times_out(autojump_clock: object) -> None:
    silence = late(10_000, DISCOVERY)
    origin = HttpOrigin(replies={DISCOVER: silence, INITIALIZE: silence})

    with pytest.raises(RequestTimedOut, match=r"within 30 s \(TimeLimits.connect\)"):
        async with connected(origin, time_limits=TimeLimits(connect=30)):
            raise AssertionError


# Servers that cannot be reached.


async def test_a_discovery_that_is_lost_is_asked_for_once_more() -> None:
    origin = HttpOrigin(replies={DISCOVER: saying(Cut(), DISCOVERY)})

    async with connected(origin) as client:
        assert client.revision == MODERN


async def test_a_server_whose_answers_are_lost_is_no_connection() -> None:
    origin = HttpOrigin(replies={DISCOVER: saying(Cut())})

    with pytest.raises(ConnectionBroken, match="server/discover"):
        async with connected(origin):
            raise AssertionError


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectionBroken, match=r"cannot connect to http://127\.0\.0\.1:1/mcp: "):
        async with open_http_client("http://127.0.0.1:1/mcp?key=secret"):
            raise AssertionError


async def test_an_application_that_fails_is_an_error_of_the_server() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError

    with pytest.raises(HttpStatusError) as raised:
        async with open_http_client(URL, engine=AsgiEngine(application)):
            raise AssertionError

    assert raised.value.status == 500
