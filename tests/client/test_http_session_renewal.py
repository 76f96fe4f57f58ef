"""Sessions that the server has forgotten: the client opens a new one and restores subscriptions and the log level."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.client.http_origin import LEGACY, MODERN, Answer, Failure, HttpOrigin, Json, ReceivedRequest, connected
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


async def drop_session(client: Client, origin: HttpOrigin) -> None:
    """Make the server forget the session, and let the client open a new one."""
    origin.sessions.clear()
    before = len(origin.of("initialize"))
    await client.ping()
    assert len(origin.of("initialize")) == before + 1


async def unread(changes: Changes) -> list[Change]:
    """Return the changes that can be read at once."""
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
    """Return the URIs of the subscriptions in a session; sessions count from 1."""
    return [each.params["uri"] for each in origin.of(SUBSCRIBE) if each.session == f"session-{session}"]


@asynccontextmanager
async def listening(origin: HttpOrigin, **wanted: Any) -> AsyncGenerator[tuple[Client, Changes]]:
    async with connected(origin) as client, client.listen(**wanted) as changes:
        yield client, changes


# The standalone stream.


async def test_without_listeners_the_client_opens_no_standalone_stream() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        await client.ping()
        await client.subscribe_resource(CONFIG)

    assert origin.streams == []


async def never_called(*_: Any) -> Any:
    raise AssertionError


CALLBACKS: list[Any] = [
    {"on_elicit": never_called},
    {"on_sample": never_called},
    {"roots": []},
    {"on_log": never_called},
    {"on_elicit_complete": never_called},
    {"methods": {"com.example/ask": never_called}},
    {"notifications": {"com.example/say": never_called}},
]


@pytest.mark.parametrize("options", CALLBACKS, ids=lambda options: next(iter(options)))
async def test_a_client_with_callbacks_opens_a_standalone_stream_when_it_connects(options: Any) -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin, **options):
        assert len(origin.streams) == 1

    assert origin.methods()[:3] == ["server/discover", "initialize", "notifications/initialized"]


async def test_at_a_modern_server_the_client_opens_no_standalone_stream() -> None:
    origin = HttpOrigin(MODERN)

    async with connected(origin, on_log=never_called, roots=[]) as client:
        await client.discover(fresh=True)

    assert origin.streams == []


async def test_a_listener_receives_changes_from_the_beginning_of_the_block() -> None:
    origin = HttpOrigin(LEGACY)

    async with listening(origin, tools=True, resources=[CONFIG]) as (client, changes):
        assert len(origin.streams) == 1
        await origin.notify("notifications/tools/list_changed")
        await origin.notify("notifications/resources/updated", uri=CONFIG)
        assert [await changes.__anext__(), await changes.__anext__()] == [ListChanged("tools"), ResourceUpdated(CONFIG)]
        async with client.listen(prompts=True):
            assert len(origin.streams) == 1


# New sessions.


async def test_in_a_new_session_subscriptions_are_restored_and_listeners_receive_a_change() -> None:
    origin = HttpOrigin(LEGACY)

    async with listening(origin, tools=True, resources=[CONFIG, NOTES]) as (client, changes):
        await client.subscribe_resource(NOTES)
        await client.subscribe_resource("explicit:uri")
        assert await unread(changes) == []
        await drop_session(client, origin)
        assert await unread(changes) == [ListChanged("tools"), ResourceUpdated(CONFIG), ResourceUpdated(NOTES)]
        await origin.notify("notifications/prompts/list_changed")
        await origin.notify("notifications/tools/list_changed")
        assert await unread(changes) == [ListChanged("tools")]

    assert subscribed(origin, 1) == [CONFIG, NOTES, NOTES, "explicit:uri"]
    assert subscribed(origin, 2) == [CONFIG, NOTES, "explicit:uri"]


async def test_a_new_session_does_not_restore_released_subscriptions() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        async with client.listen(resources=[CONFIG]):
            pass
        await client.subscribe_resource(NOTES)
        await client.unsubscribe_resource(NOTES)
        await wait_all_tasks_blocked()
        await drop_session(client, origin)
        await wait_all_tasks_blocked()

    assert subscribed(origin, 2) == []


async def test_a_new_session_restores_the_log_level() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        await client.set_log_level("error")
        await client.set_log_level("notice")
        await drop_session(client, origin)
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
        await drop_session(client, origin)
        await client.call_tool("count")


async def test_a_new_session_uses_the_negotiated_revision() -> None:
    origin = HttpOrigin(LEGACY)

    async with connected(origin) as client:
        await drop_session(client, origin)
        await drop_session(client, origin)
        assert client.revision == LEGACY

    assert origin.methods().count("server/discover") == 1


def refusing_in(session: int, failure: Answer) -> Any:
    """Return a reply that is *failure* in one session and an empty result in the others."""

    def reply(request: ReceivedRequest) -> Answer:
        return failure if request.session == f"session-{session}" else {}

    return reply


async def test_a_refused_resubscription_ends_its_listeners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    origin = HttpOrigin(LEGACY, {SUBSCRIBE: refusing_in(2, Failure(-32002, status=200))})

    async with listening(origin, resources=[CONFIG]) as (client, changes), client.listen(tools=True) as others:
        await drop_session(client, origin)
        with pytest.raises(ErrorResponse, match=r"no \(-32002\)"):
            await changes.__anext__()
        assert await unread(others) == [ListChanged("tools")]
        assert f"the server no longer reports changes of {CONFIG!r}" in caplog.text
        await drop_session(client, origin)
        async with client.listen(resources=[CONFIG]):
            assert subscribed(origin, 3) == [CONFIG]

    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_refused_log_level_of_a_new_session_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    origin = HttpOrigin(LEGACY, {"logging/setLevel": refusing_in(2, Failure(-32601, status=200))})

    async with connected(origin) as client:
        await client.set_log_level("error")
        await drop_session(client, origin)
        await wait_all_tasks_blocked()

    assert "the log level of the server is not restored" in caplog.text


async def test_a_client_that_is_closed_during_the_renewal_sends_no_more_subscriptions() -> None:
    async def never(request: ReceivedRequest) -> Answer:
        if request.session == "session-2":
            await trio.sleep_forever()
        return {}

    origin = HttpOrigin(LEGACY, {SUBSCRIBE: never})

    async with listening(origin, resources=[CONFIG, NOTES]) as (client, changes):
        await drop_session(client, origin)
        await wait_all_tasks_blocked()
        assert subscribed(origin, 2) == [CONFIG]
        await client.aclose()
        with pytest.raises(ConnectionClosed):
            await changes.__anext__()

    assert subscribed(origin, 2) == [CONFIG]
