"""A session that the server has forgotten: another takes its place, and what the client wanted is asked for again."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.client.http_origin import LEGACY, MODERN, Answer, Failure, Got, HttpOrigin, Json, connected
from trio_mcp import (
    Change,
    Changes,
    Client,
    ConnectionClosed,
    ErrorResponse,
    ListChanged,
    RemoteProtocolError,
    ResourceUpdated,
)

CONFIG, NOTES = "file:///config.json", "file:///notes"
SUBSCRIBE = "resources/subscribe"


async def lose_session(client: Client, origin: HttpOrigin) -> None:
    """Have the server forget the session, and the client find out."""
    origin.sessions.clear()
    before = len(origin.of("initialize"))
    await client.ping()
    assert len(origin.of("initialize")) == before + 1


async def waiting_in(changes: Changes) -> list[Change]:
    """Return what can be read now."""
    read: list[Change] = []

    async def read_on() -> None:
        while True:
            read.append(await changes.__anext__())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_on)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return read


def subscribed(origin: HttpOrigin, session: int) -> list[Any]:
    """Which resources were subscribed to in which session, counted from 1."""
    return [each.params["uri"] for each in origin.of(SUBSCRIBE) if each.session == f"session-{session}"]


@asynccontextmanager
async def listening(origin: HttpOrigin, **wanted: Any) -> AsyncGenerator[tuple[Client, Changes]]:
    async with connected(origin) as client, client.listen(**wanted) as changes:
        yield client, changes


# The standing stream.


async def test_there_is_no_standing_stream_without_listeners() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        await client.ping()
        await client.subscribe_resource(CONFIG)

    assert origin.streams == []


async def hear(*_: Any) -> Any:
    raise AssertionError


HEARING: list[Any] = [
    {"on_elicit": hear},
    {"on_sample": hear},
    {"roots": []},
    {"on_log": hear},
    {"on_elicit_complete": hear},
    {"methods": {"com.example/ask": hear}},
    {"notifications": {"com.example/say": hear}},
]


@pytest.mark.parametrize("options", HEARING, ids=lambda options: next(iter(options)))
async def test_callbacks_hear_what_the_server_says_from_the_beginning(options: Any) -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin, **options):
        assert len(origin.streams) == 1

    assert origin.methods()[:3] == ["server/discover", "initialize", "notifications/initialized"]


async def test_a_modern_server_has_no_standing_stream() -> None:
    origin = HttpOrigin(MODERN)

    async with connected(origin, on_log=hear, roots=[]) as client:
        await client.discover(fresh=True)

    assert origin.streams == []


async def test_a_listener_receives_changes_from_the_beginning_of_the_block() -> None:
    origin = HttpOrigin(LEGACY)

    async with listening(origin, tools=True, resources=[CONFIG]) as (client, changes):
        assert len(origin.streams) == 1
        await origin.notify_nowait("notifications/tools/list_changed")
        await origin.notify_nowait("notifications/resources/updated", uri=CONFIG)
        assert [await changes.__anext__(), await changes.__anext__()] == [ListChanged("tools"), ResourceUpdated(CONFIG)]
        async with client.listen(prompts=True):
            assert len(origin.streams) == 1


# Another session.


async def test_resources_are_subscribed_to_anew_and_listeners_look_again() -> None:
    origin = HttpOrigin(LEGACY)

    async with listening(origin, tools=True, resources=[CONFIG, NOTES]) as (client, changes):
        await client.subscribe_resource(NOTES)
        await client.subscribe_resource("by:hand")
        assert await waiting_in(changes) == []
        await lose_session(client, origin)
        assert await waiting_in(changes) == [ListChanged("tools"), ResourceUpdated(CONFIG), ResourceUpdated(NOTES)]
        await origin.notify_nowait("notifications/prompts/list_changed")
        await origin.notify_nowait("notifications/tools/list_changed")
        assert await waiting_in(changes) == [ListChanged("tools")]

    assert subscribed(origin, 1) == [CONFIG, NOTES, NOTES, "by:hand"]
    assert subscribed(origin, 2) == [CONFIG, NOTES, "by:hand"]


async def test_a_new_session_does_not_restore_released_subscriptions() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        async with client.listen(resources=[CONFIG]):
            pass
        await client.subscribe_resource(NOTES)
        await client.unsubscribe_resource(NOTES)
        await wait_all_tasks_blocked()
        await lose_session(client, origin)
        await wait_all_tasks_blocked()

    assert subscribed(origin, 2) == []


async def test_the_log_level_is_set_again() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        await client.set_log_level("error")
        await client.set_log_level("notice")
        await lose_session(client, origin)
        await wait_all_tasks_blocked()

    levels = [(each.session, each.params["level"]) for each in origin.of("logging/setLevel")]
    assert levels == [("session-1", "error"), ("session-1", "notice"), ("session-2", "notice")]


async def test_a_new_session_forgets_the_output_schemas() -> None:
    number: Json = {"type": "object", "required": ["n"]}
    tool = {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": number}
    listed: Json = {"tools": [tool]}
    answered: Json = {"content": [], "structuredContent": {}}
    origin = HttpOrigin(LEGACY, {"tools/list": lambda _: listed, "tools/call": lambda _: answered})

    async with connected(origin) as client:
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="does not fit its output schema"):
            await client.call_tool("count")
        await lose_session(client, origin)
        await client.call_tool("count")


async def test_a_new_session_uses_the_agreed_terms() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        await lose_session(client, origin)
        await lose_session(client, origin)
        assert client.revision == LEGACY

    assert origin.methods().count("server/discover") == 1


def refusing_in(session: int, failure: Answer) -> Any:
    """Answers what is refused in one session only."""

    def reply(got: Got) -> Answer:
        return failure if got.session == f"session-{session}" else {}

    return reply


async def test_a_resubscription_that_is_refused_ends_its_listeners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    origin = HttpOrigin(LEGACY, {SUBSCRIBE: refusing_in(2, Failure(-32002, status=200))})

    async with listening(origin, resources=[CONFIG]) as (client, changes), client.listen(tools=True) as others:
        await lose_session(client, origin)
        with pytest.raises(ErrorResponse, match=r"no \(-32002\)"):
            await changes.__anext__()
        assert await waiting_in(others) == [ListChanged("tools")]
        assert f"the server no longer reports changes of {CONFIG!r}" in caplog.text
        await lose_session(client, origin)
        async with client.listen(resources=[CONFIG]):
            assert subscribed(origin, 3) == [CONFIG]

    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_server_that_refuses_the_log_level_now_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    origin = HttpOrigin(LEGACY, {"logging/setLevel": refusing_in(2, Failure(-32601, status=200))})

    async with connected(origin) as client:
        await client.set_log_level("error")
        await lose_session(client, origin)
        await wait_all_tasks_blocked()

    assert "the log level of the server is not restored" in caplog.text


async def test_a_client_that_is_closed_meanwhile_subscribes_to_nothing_more() -> None:
    async def never(got: Got) -> Answer:
        if got.session == "session-2":
            await trio.sleep_forever()
        return {}

    origin = HttpOrigin(LEGACY, {SUBSCRIBE: never})

    async with listening(origin, resources=[CONFIG, NOTES]) as (client, changes):
        await lose_session(client, origin)
        await wait_all_tasks_blocked()
        assert subscribed(origin, 2) == [CONFIG]
        await client.aclose()
        with pytest.raises(ConnectionClosed):
            await changes.__anext__()

    assert subscribed(origin, 2) == [CONFIG]
