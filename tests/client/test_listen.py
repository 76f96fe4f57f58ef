"""`client.listen` with scripted servers: its requests, acknowledgements, changes and end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_mcp import (
    Change,
    ChangeFilter,
    Changes,
    Client,
    ConnectionBroken,
    ConnectionClosed,
    ErrorResponse,
    Limits,
    ListChanged,
    MissingCapability,
    RemoteProtocolError,
    RequestTimedOut,
    ResourceUpdated,
    Server,
    TimeLimits,
    open_client,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_scripted_server

MODERN, LEGACY = types.REVISIONS[-1], types.REVISIONS[-2]
ERAS = (LEGACY, MODERN)
ACK = "notifications/subscriptions/acknowledged"
ID = "io.modelcontextprotocol/subscriptionId"
TOOLS, PROMPTS = "notifications/tools/list_changed", "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"
CONFIG = "file:///config.json"
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
MANY: dict[str, Any] = {"tools": True, "resources": [CONFIG]}
MANY_ON_THE_WIRE = {"toolsListChanged": True, "resourceSubscriptions": [CONFIG]}


async def welcome(server: ScriptedPeer, revision: str, capabilities: Any = CAPABILITIES) -> None:
    """Agree on a revision as a server that has declared these capabilities."""
    if revision == MODERN:
        result = {"resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private"}
        await server.answer({**result, "capabilities": capabilities}, method="server/discover")
    else:
        result = {"protocolVersion": revision, "serverInfo": {"name": "s", "version": "0"}}
        await server.answer({**result, "capabilities": capabilities}, method="initialize")
        await server.expect_notification("notifications/initialized")


@asynccontextmanager
async def connected(
    revision: str, capabilities: Any = CAPABILITIES, **options: Any
) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    script = partial(welcome, revision=revision, capabilities=capabilities)
    async with open_scripted_server(script, revision=revision, **options) as (client, server):
        yield client, server


async def acknowledge_listen(server: ScriptedPeer, honored: Any = MANY_ON_THE_WIRE) -> Any:
    """Receive a request to listen, acknowledge it, and return its id."""
    request = await server.expect_request("subscriptions/listen")
    await server.notify(ACK, {"notifications": honored, "_meta": {ID: request["id"]}})
    return request["id"]


@asynccontextmanager
async def listening(
    revision: str, capabilities: Any = CAPABILITIES, options: Any = None, **wanted: Any
) -> AsyncGenerator[tuple[Changes, ScriptedPeer, Callable[..., Awaitable[None]]]]:
    """Listen to a scripted server; yield the changes, the server, and a function that sends its notifications."""
    async with connected(revision, capabilities, **(options or {})) as (client, server):
        ids: list[Any] = []

        async def answer() -> None:
            if revision == MODERN:
                ids.append(await acknowledge_listen(server))
            else:
                for _ in wanted.get("resources", ()):
                    await server.answer({}, method="resources/subscribe")

        async def notify(method: str, **params: Any) -> None:
            await server.notify(method, {**params, "_meta": {ID: ids[0]}} if ids else params)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            block = client.listen(**wanted)
            changes = await block.__aenter__()
        yield changes, server, notify
        await block.__aexit__(None, None, None)


def fail() -> None:
    raise KeyError


async def rest_of(changes: Changes) -> list[Change]:
    return [change async for change in changes]


# Requests.


@pytest.mark.requirement("B.3-C1a")
async def test_one_listen_request_selects_exactly_the_wanted_changes_of_a_modern_server() -> None:
    async with connected(MODERN) as (client, server):
        flags: dict[str, dict[str, Any]] = {
            "toolsListChanged": {"tools": True},
            "promptsListChanged": {"prompts": True},
            "resourcesListChanged": {"resource_list": True},
        }
        for flag, wanted in flags.items():
            async with trio.open_nursery() as listeners:
                listeners.start_soon(client.listen(**wanted).__aenter__)
                request = await server.expect_request("subscriptions/listen")
                listeners.cancel_scope.cancel()
            await server.expect_notification("notifications/cancelled")
            assert request["params"]["notifications"] == {flag: True}
            assert request["params"]["_meta"].items() >= ScriptedPeer.envelope(MODERN).items()
            assert "progressToken" not in request["params"]["_meta"]


@pytest.mark.parametrize("revision", ERAS)
async def test_the_client_does_not_request_changes_that_the_server_has_not_declared(revision: str) -> None:
    declared: Any = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"listChanged": True}}
    async with connected(revision, declared) as (client, server):
        everything: Any = {"tools": True, "prompts": True, "resource_list": True, "resources": [CONFIG]}
        honored: list[ChangeFilter] = []

        async def listen() -> None:
            async with client.listen(**everything) as changes:
                honored.append(changes.honored)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            if revision == MODERN:
                request = await server.expect_request("subscriptions/listen")
                requested = {"toolsListChanged": True, "resourcesListChanged": True}
                assert request["params"]["notifications"] == requested
                await server.notify(ACK, {"notifications": requested, "_meta": {ID: request["id"]}})
                await server.expect_notification("notifications/cancelled")
        assert honored == [ChangeFilter(tools=True, resource_list=True)]


@pytest.mark.parametrize("declared", [{}, {"tools": {}, "prompts": {"listChanged": False}, "resources": {}}])
async def test_listening_without_any_declared_capability_is_refused(declared: Any) -> None:
    async with connected(MODERN, declared) as (client, _):
        with pytest.raises(MissingCapability, match="has not declared that it reports any of these changes") as missing:
            async with client.listen(tools=True, resource_list=True, resources=[CONFIG]):
                pass

    assert missing.value.required == {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
    }


async def test_listening_for_resources_that_a_legacy_server_does_not_report_is_refused() -> None:
    async with connected(LEGACY, {"resources": {"listChanged": True}}) as (client, _):
        with pytest.raises(MissingCapability, match="any of these changes") as missing:
            async with client.listen(resources=[CONFIG]):
                pass

    assert missing.value.required == {"resources": {"subscribe": True}}


async def test_changes_of_lists_that_a_legacy_server_has_not_declared_are_received_after_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    declared = {"tools": {}, "prompts": {"listChanged": True}}
    async with connected(LEGACY, declared) as (client, server):
        for _ in range(2):
            async with client.listen(tools=True, prompts=True) as changes:
                assert changes.honored == ChangeFilter(prompts=True)
                await server.notify(TOOLS)
                await server.notify(PROMPTS)
                assert [await anext(changes), await anext(changes)] == [ListChanged("tools"), ListChanged("prompts")]

    assert [record.message for record in caplog.records] == [
        (
            "listen() for changes of tools: the server has not declared that it reports them ('tools.listChanged'); "
            "they are received if it does"
        ),
        "the server sends 'notifications/tools/list_changed', and has not declared 'tools.listChanged'",
    ]


@pytest.mark.parametrize("declared", [CAPABILITIES, {}])
async def test_an_application_may_handle_the_notifications_of_changed_lists(
    declared: Any, caplog: pytest.LogCaptureFixture
) -> None:
    got, arrived = list[Any](), trio.Event()

    async def on_tools(params: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        got.append(params)
        arrived.set()

    async with (
        connected(LEGACY, declared, notifications={TOOLS: on_tools}) as (client, server),
        client.listen(tools=True) as changes,
    ):
        await server.notify(TOOLS, {"com.example/x": 1})
        await arrived.wait()
        assert await anext(changes) == ListChanged("tools")

    assert got == [{"com.example/x": 1}]
    assert ("has not declared" in caplog.text) is not bool(declared)


async def test_an_application_handles_notifications_of_changed_lists_of_a_modern_server_while_it_listens() -> None:
    arrived = trio.Event()

    async def on_tools(_: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        arrived.set()

    async with listening(MODERN, options={"notifications": {TOOLS: on_tools}}, **MANY) as (changes, _, notify):
        await notify(TOOLS)
        await arrived.wait()
        assert await anext(changes) == ListChanged("tools")


async def test_invalid_arguments_are_rejected_before_any_request() -> None:
    async with open_client(Server("s")) as client:
        with pytest.raises(ValueError, match="select at least one kind of change"):
            client.listen()
        with pytest.raises(TypeError, match=r"'file:///config.json': expected a list of URIs"):
            client.listen(resources=CONFIG)


@pytest.mark.requirement("B.11-L1")
async def test_blocks_share_one_subscription_at_a_legacy_server() -> None:
    async with connected(LEGACY) as (client, server):
        order: list[str] = []

        async def listen(go_on: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            async with client.listen(resources=[CONFIG]) as changes:
                assert changes.honored == ChangeFilter(resources=[CONFIG])
                task_status.started()
                assert await anext(changes) == ResourceUpdated(CONFIG)
                order.append("received")
                await go_on.wait()

        events = [trio.Event() for _ in range(3)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(server.answer, {}))
            await nursery.start(listen, events[0])
            await nursery.start(listen, events[1])  # sends no request
            await server.notify(UPDATED, {"uri": CONFIG})
            events[0].set()
            await wait_all_tasks_blocked()
            events[1].set()
            request = await server.expect_request("resources/unsubscribe")
            assert request["params"] == {"uri": CONFIG}
            nursery.start_soon(listen, events[2])  # starts before the answer and sends its request after it
            await wait_all_tasks_blocked()
            await server.respond(request, {})
            await server.answer({}, method="resources/subscribe")
            await server.notify(UPDATED, {"uri": CONFIG})
            events[2].set()
            await server.answer({}, method="resources/unsubscribe")
        await wait_all_tasks_blocked()
        assert order == ["received"] * 3
        assert client.statistics().outgoing == 0


# Acknowledgements.


@pytest.mark.requirement("B.11-C1")
async def test_honored_is_the_filter_that_a_modern_server_acknowledges() -> None:
    async with connected(MODERN) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(acknowledge_listen, server, {"toolsListChanged": True})
        async with client.listen(**MANY) as changes:
            assert changes.honored == ChangeFilter(tools=True)


async def test_a_subscription_that_a_legacy_server_refuses_is_not_honored() -> None:
    async with connected(LEGACY) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(server.refuse, -32002)
        async with client.listen(**MANY) as changes:
            assert changes.honored == ChangeFilter(tools=True)
            await wait_all_tasks_blocked()
            nursery.start_soon(partial(server.answer, {}, method="resources/subscribe"))  # the request is sent again
            async with client.listen(**MANY) as others:
                assert others.honored == ChangeFilter(**MANY)
            await server.answer({}, method="resources/unsubscribe")


async def test_a_refusal_by_a_modern_server_is_raised_from_the_block() -> None:
    async with connected(MODERN) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(server.refuse, -31000)
        with pytest.raises(ErrorResponse):
            async with client.listen(tools=True):
                pass
        assert client.statistics().outgoing == 0


@pytest.mark.requirement("B.13-P1a", "B.13-P1b")
async def test_a_missing_acknowledgement_times_out(autojump_clock: object) -> None:
    async with connected(MODERN, time_limits=TimeLimits(idle=7)) as (client, server):
        with pytest.raises(RequestTimedOut, match=r"'subscriptions/listen': the server sent nothing for 7 s"):
            async with client.listen(tools=True):
                pass
        assert trio.current_time() == 7
        request = await server.expect_request()
        cancelled = await server.expect_notification("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]


async def test_a_listen_request_that_cannot_be_sent_times_out(autojump_clock: object) -> None:
    options: Any = {"time_limits": TimeLimits(idle=7, connect=100), "limits": Limits(outbox_bytes=1)}
    async with connected(MODERN, **options) as (client, _):
        client._connection.transport.outbox.size += 1  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage] # full
        with pytest.raises(RequestTimedOut):
            async with client.listen(tools=True):
                pass
        client._connection.transport.outbox.size -= 1  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage] # full
        assert client.statistics().outgoing == 0


@pytest.mark.parametrize(
    "params",
    [{}, {"notifications": 7}, {"notifications": {"toolsListChanged": "yes"}}],
    ids=["no notifications", "not an object", "not a boolean"],
)
async def test_an_invalid_acknowledgement_fails_the_block_and_cancels_the_request(params: Any) -> None:
    async with connected(MODERN) as (client, server):

        async def acknowledge() -> None:
            id = (await server.expect_request())["id"]
            await server.notify(ACK, {**params, "_meta": {ID: id}})
            await server.expect_notification("notifications/cancelled")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(acknowledge)
            with pytest.raises(RemoteProtocolError, match=r"acknowledgement .* does not fit: .*notifications"):
                async with client.listen(tools=True):
                    pass


@pytest.mark.parametrize("how", ["result", "cancelled"])
async def test_an_end_without_acknowledgement_is_a_protocol_error(how: str) -> None:
    async with connected(MODERN) as (client, server):

        async def end() -> None:
            id = (await server.expect_request())["id"]
            if how == "result":
                await server.send({"jsonrpc": "2.0", "id": id, "result": {"_meta": {ID: id}}})
            else:
                await server.notify("notifications/cancelled", {"requestId": id})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            with pytest.raises(RemoteProtocolError, match="without having acknowledged"):
                async with client.listen(tools=True):
                    pass


# Changes.


@pytest.mark.requirement("B.11-C2", "B.5-C6")
async def test_changes_reach_only_the_subscription_they_name() -> None:
    async with connected(MODERN) as (client, server), trio.open_nursery() as nursery:
        ids: list[int] = []

        async def acknowledge_twice() -> None:
            ids.extend([await acknowledge_listen(server), await acknowledge_listen(server)])

        nursery.start_soon(acknowledge_twice)
        async with client.listen(tools=True, prompts=True) as first, client.listen(tools=True, prompts=True) as second:
            one, two = ids
            for odd in (str(one), float(one), [one], None, 99, True):
                await server.notify(PROMPTS, {"_meta": {ID: odd}})
            await server.notify(PROMPTS, {"_meta": {}})
            await server.notify(PROMPTS)
            await server.notify(TOOLS, {"_meta": {ID: two}})
            assert await anext(second) == ListChanged("tools")
            await server.notify(TOOLS, {"_meta": {ID: one}})
            assert await anext(first) == ListChanged("tools")
            await server.notify(PROMPTS, {"_meta": {ID: two}})
            assert await anext(second) == ListChanged("prompts")


@pytest.mark.parametrize("revision", ERAS)
async def test_unrequested_and_invalid_changes_are_ignored(revision: str) -> None:
    async with listening(revision, **MANY) as (changes, _, notify):
        await notify(PROMPTS)
        await notify(UPDATED, uri="file:///config.jsonx")
        await notify(UPDATED, uri="file:///")
        await notify(UPDATED, uri=7)
        await notify(UPDATED)
        await notify("notifications/other")
        await notify(ACK, notifications={})
        await notify(TOOLS)
        assert await anext(changes) == ListChanged("tools")


@pytest.mark.parametrize("revision", ERAS)
async def test_changes_of_a_sub_resource_are_received(revision: str) -> None:
    async with listening(revision, **MANY) as (changes, _, notify):
        for part in ("/a", "?b", "#c"):
            await notify(UPDATED, uri=CONFIG + part)
            assert await anext(changes) == ResourceUpdated(CONFIG + part)


@pytest.mark.parametrize("revision", ERAS)
async def test_unread_changes_are_kept_once_in_the_order_of_arrival(revision: str) -> None:
    async with listening(revision, **MANY) as (changes, _, notify):
        for method, params in ((UPDATED, {"uri": CONFIG}), (TOOLS, {}), (UPDATED, {"uri": CONFIG})) * 50:
            await notify(method, **params)
        await wait_all_tasks_blocked()
        assert [await anext(changes), await anext(changes)] == [ResourceUpdated(CONFIG), ListChanged("tools")]
        await notify(TOOLS)
        assert await anext(changes) == ListChanged("tools")
        assert changes.skipped == 0


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("limits", "kept"),
    [(Limits(max_updates=3), 3), (Limits(max_update_bytes=2 * (len(CONFIG) + 2)), 2), (Limits(max_update_bytes=1), 1)],
)
async def test_the_oldest_of_too_many_unread_changes_are_dropped_and_counted(
    revision: str, limits: Limits, kept: int
) -> None:
    async with listening(revision, options={"limits": limits}, **MANY) as (changes, _, notify):
        for part in range(9):
            await notify(UPDATED, uri=f"{CONFIG}/{part}")
        await wait_all_tasks_blocked()
        assert changes.skipped == 9 - kept
        assert [await anext(changes) for _ in range(kept)] == [
            ResourceUpdated(f"{CONFIG}/{part}") for part in range(9 - kept, 9)
        ]


async def test_no_timeout_applies_to_a_listen_block(autojump_clock: object) -> None:
    for revision in ERAS:
        options = {"time_limits": TimeLimits(idle=5, total=10)}
        async with listening(revision, options=options, **MANY) as (changes, _, notify):
            with trio.move_on_after(100_000) as scope:
                await anext(changes)
            assert scope.cancelled_caught
            await notify(TOOLS)
            assert await anext(changes) == ListChanged("tools")


@pytest.mark.parametrize("revision", ERAS)
async def test_only_one_task_may_read_changes_at_a_time(revision: str) -> None:
    async with listening(revision, **MANY) as (changes, _, notify), trio.open_nursery() as nursery:
        nursery.start_soon(anext, changes)
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await anext(changes)
        await notify(TOOLS)


# The end of a block.


@pytest.mark.requirement("B.11-S5a", "B.11-S5b")
@pytest.mark.parametrize("how", ["result", "bare result", "cancelled", "both"])
async def test_the_iteration_ends_after_the_received_changes_when_the_server_ends_the_subscription(how: str) -> None:
    async with connected(MODERN) as (client, server), trio.open_nursery() as nursery:
        ids: list[int] = []

        async def acknowledge() -> None:
            ids.append(await acknowledge_listen(server))

        nursery.start_soon(acknowledge)
        async with client.listen(**MANY) as changes:
            meta = {ID: ids[0]}
            await server.notify(TOOLS, {"_meta": meta})
            if how in ("cancelled", "both"):
                await server.notify("notifications/cancelled", {"requestId": ids[0], "_meta": meta})
            if how in ("result", "both"):
                result = {"resultType": "complete", "_meta": meta}
                await server.send({"jsonrpc": "2.0", "id": ids[0], "result": result})
            if how == "bare result":
                await server.send({"jsonrpc": "2.0", "id": ids[0], "result": {}})
            assert await rest_of(changes) == [ListChanged("tools")]
            assert await rest_of(changes) == []
        assert client.statistics().outgoing == 0


async def test_a_cancellation_by_the_server_ends_only_subscriptions() -> None:
    async with connected(MODERN) as (client, server), trio.open_nursery() as nursery:

        async def cancel_and_answer() -> None:
            request = await server.expect_request("tools/list")
            await server.notify("notifications/cancelled", {"requestId": request["id"]})
            await server.notify("notifications/cancelled", {"requestId": 99})
            await server.respond(request, {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"})

        nursery.start_soon(cancel_and_answer)
        assert (await client.list_tools()).tools == []


async def test_an_error_that_ends_a_subscription_is_raised_from_the_iteration() -> None:
    async with connected(MODERN) as (client, server), trio.open_nursery() as nursery:

        async def acknowledge_and_fail() -> None:
            id = await acknowledge_listen(server)
            await server.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "broken"}})

        nursery.start_soon(acknowledge_and_fail)
        async with client.listen(**MANY) as changes:
            with pytest.raises(ErrorResponse, match="broken"):
                await anext(changes)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_lost_connection_is_raised_from_the_iteration_after_the_received_changes(revision: str) -> None:
    async with connected(revision) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(partial(acknowledge_listen, server) if revision == MODERN else partial(server.answer, {}))
        async with client.listen(**MANY) as changes:
            await server.notify(TOOLS, {"_meta": {ID: 2}})
            await server.stream.aclose()
            assert await anext(changes) == ListChanged("tools")
            for _ in range(2):
                with pytest.raises(ConnectionBroken):
                    await anext(changes)
        with pytest.raises(ConnectionBroken):
            async with client.listen(tools=True):
                pass


@pytest.mark.parametrize("revision", ERAS)
async def test_closing_the_client_raises_connection_closed_in_listen_blocks(revision: str) -> None:
    server = Server("s")
    server.tool(name="t")(lambda: None)
    async with open_client(server, revision=revision) as client:
        async with client.listen(tools=True) as changes, trio.open_nursery() as nursery:
            nursery.start_soon(client.aclose)
            with pytest.raises(ConnectionClosed):
                await anext(changes)
        with pytest.raises(ConnectionClosed):
            async with client.listen(tools=True):
                pass


@pytest.mark.requirement("B.11-C3", "B.12-P5a")
@pytest.mark.parametrize("how", ["left", "cancelled", "failed"])
@pytest.mark.parametrize("revision", ERAS)
async def test_leaving_the_block_in_any_way_ends_the_subscription(revision: str, how: str) -> None:
    async with connected(revision) as (client, server), trio.open_nursery() as nursery:
        ids: list[int] = []
        left: list[Changes] = []

        async def accept_subscription() -> None:
            if revision == MODERN:
                ids.append(await acknowledge_listen(server))
            else:
                await server.answer({}, method="resources/subscribe")

        nursery.start_soon(accept_subscription)
        with trio.CancelScope() as scope:
            try:
                async with client.listen(**MANY) as changes:
                    left.append(changes)
                    if how == "cancelled":
                        scope.cancel()
                        await anext(changes)
                    if how == "failed":
                        fail()
            except KeyError:
                assert how == "failed"
        if revision == MODERN:
            cancelled = await server.expect_notification("notifications/cancelled")
            assert cancelled["params"]["requestId"] == ids[0]
        else:
            await server.answer({}, method="resources/unsubscribe")
            await wait_all_tasks_blocked()
        with pytest.raises(trio.ClosedResourceError):
            await anext(left[0])
        assert client.statistics().outgoing == 0


@pytest.mark.parametrize("revision", ERAS)
async def test_a_reader_gets_an_error_when_another_task_leaves_the_block(revision: str) -> None:
    async with trio.open_nursery() as nursery:

        async def read(changes: Changes) -> None:
            with pytest.raises(trio.ClosedResourceError):
                await anext(changes)

        async with listening(revision, **MANY) as (changes, _, __):
            nursery.start_soon(read, changes)
            await wait_all_tasks_blocked()


@pytest.mark.parametrize("answered", [False, True])
async def test_a_cancelled_legacy_subscription_is_ended_at_the_server(answered: bool) -> None:
    async with connected(LEGACY) as (client, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.listen(**MANY).__aenter__)
            request = await server.expect_request("resources/subscribe")
            nursery.cancel_scope.cancel()
        await server.expect_notification("notifications/cancelled")
        if answered:
            await server.respond(request, {})
        await server.answer({}, method="resources/unsubscribe")
        await wait_all_tasks_blocked()
        assert client.statistics().outgoing == 0


async def test_a_refused_unsubscription_is_ignored() -> None:
    async with connected(LEGACY) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(partial(server.answer, {}, method="resources/subscribe"))
        async with client.listen(**MANY):
            pass
        await server.refuse(-32603, method="resources/unsubscribe")
        await wait_all_tasks_blocked()
        nursery.start_soon(partial(server.answer, {}, method="resources/subscribe"))
        async with client.listen(**MANY) as changes:
            assert changes.honored == ChangeFilter(**MANY)


# Explicit subscriptions.


async def test_blocks_do_not_end_an_explicit_subscription(autojump_clock: object) -> None:
    async with connected(LEGACY) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(partial(server.answer, {}, method="resources/subscribe"))
        await client.subscribe_resource(CONFIG)
        nursery.start_soon(partial(server.answer, {}, method="resources/subscribe"))
        async with client.listen(resources=[CONFIG]):
            pass
        await server.expect_silence()
        nursery.start_soon(partial(server.answer, {}, method="resources/unsubscribe"))
        await client.unsubscribe_resource(CONFIG)


async def test_an_explicit_unsubscription_does_not_affect_blocks(autojump_clock: object) -> None:
    async with connected(LEGACY) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(partial(server.answer, {}, method="resources/subscribe"))
        async with client.listen(resources=[CONFIG]) as changes:
            nursery.start_soon(partial(server.answer, {}, method="resources/subscribe"))
            await client.subscribe_resource(CONFIG)
            await client.unsubscribe_resource(CONFIG)
            await server.expect_silence()
            await server.notify(UPDATED, {"uri": CONFIG})
            assert await anext(changes) == ResourceUpdated(CONFIG)
        await server.answer({}, method="resources/unsubscribe")
