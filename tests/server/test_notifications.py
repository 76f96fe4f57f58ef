"""Notifications: their way through middleware to handlers, their queue for each connection, and its limits."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import trio
import trio.testing

from tests.server.helpers import SharedServing
from trio_mcp import (
    CallNext,
    Context,
    ErrorResponse,
    Limits,
    LocalProtocolError,
    McpError,
    MissingCapability,
    Request,
    Server,
    open_client,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_memory_client, open_scripted_client

LEGACY, MODERN = "2025-11-25", "2026-07-28"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


async def test_middleware_sees_typed_notifications_before_their_handlers() -> None:
    server, seen, done = Server("s"), list[tuple[str, Any]](), trio.Event()

    @server.middleware
    async def note(request: Request, call_next: CallNext) -> Any:
        if request.is_notification:
            params: Any = request.params
            seen.append((request.method, type(params) if isinstance(params, types.Model) else params))
        return await call_next(request)

    @server.notification("notifications/acme/end")
    async def end(params: dict[str, Any]) -> None:
        seen.append(("handler", params["n"]))
        done.set()

    async with open_scripted_client(server, LEGACY) as client:
        await client.notify("notifications/roots/list_changed")
        await client.notify("notifications/acme/unknown", {"a": 1})
        await client.notify("notifications/cancelled", {"requestId": 99})
        await client.notify("notifications/progress", {"progressToken": 99, "progress": 1})
        await client.notify("notifications/roots/list_changed", {"_meta": 7})
        await client.notify("notifications/acme/end", {"n": 1})
        await done.wait()

    assert seen == [
        ("notifications/initialized", types.NotificationParams),
        ("notifications/roots/list_changed", types.NotificationParams),
        ("notifications/acme/unknown", {"a": 1}),
        ("notifications/acme/end", {"n": 1}),
        ("handler", 1),
    ]


async def test_middleware_may_drop_or_change_a_notification() -> None:
    server, got, done = Server("s"), list[int](), trio.Event()

    @server.middleware
    async def edit(request: Request, call_next: CallNext) -> Any:
        if request.method != "notifications/acme/number":
            return await call_next(request)
        match request.params:
            case {"n": 1}:
                return None  # drops the notification
            case {"n": 2}:
                return await call_next(request.with_params({"n": 20}))
            case _:
                return await call_next(request)

    @server.notification("notifications/acme/number")
    async def number(params: dict[str, Any]) -> None:
        got.append(params["n"])
        if params["n"] == 3:
            done.set()

    async with open_memory_client(server) as client:
        for n in (1, 2, 3):
            await client.notify("notifications/acme/number", {"n": n})
        await done.wait()

    assert got == [20, 3]


async def test_invalid_params_of_a_notification_reach_middleware_as_json_and_are_then_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, seen, done = Server("s"), list[Any](), trio.Event()

    @server.middleware
    async def note(request: Request, call_next: CallNext) -> Any:
        if request.method == "notifications/tasks/status":
            seen.append(request.params)
            done.set()
        return await call_next(request)

    async with open_scripted_client(server, LEGACY) as client:
        await client.notify("notifications/tasks/status", {"status": 7})
        await done.wait()
        await client.request("ping")

    assert seen == [{"status": 7}]
    assert "the params do not fit: $.status:" in caplog.text


async def test_a_failure_of_middleware_affects_only_its_notification(caplog: pytest.LogCaptureFixture) -> None:
    server, got, done = Server("s"), list[int](), trio.Event()

    @server.middleware
    async def stumble(request: Request, call_next: CallNext) -> Any:
        if request.method == "notifications/acme/number" and request.params["n"] == 1:
            raise KeyError("oops")
        return await call_next(request)

    @server.notification("notifications/acme/number")
    async def number(params: dict[str, Any]) -> None:
        got.append(params["n"])
        done.set()

    async with open_client(server) as client:
        await client.notify("notifications/acme/number", {"n": 1})
        await client.notify("notifications/acme/number", {"n": 2})
        await done.wait()

    assert got == [2]
    assert [record.getMessage() for record in caplog.records] == [
        "notification 'notifications/acme/number': its handler failed"
    ]


async def test_notifications_of_one_connection_do_not_wait_for_those_of_another(autojump_clock: object) -> None:
    server, got, blocked, done = Server("s"), list[str](), trio.Event(), trio.Event()

    @server.notification("notifications/acme/note")
    async def note(params: dict[str, Any]) -> None:
        if params["note"] == "block":
            blocked.set()
            await trio.sleep_forever()
        got.append(params["note"])
        done.set()

    async with server.serving() as serving:
        answerer = SharedServing(serving)
        async with open_client(answerer) as first, open_client(answerer) as second:
            await first.notify("notifications/acme/note", {"note": "block"})
            await blocked.wait()
            await first.notify("notifications/acme/note", {"note": "waits"})
            await second.notify("notifications/acme/note", {"note": "passes"})
            await done.wait()
            assert got == ["passes"]


async def test_notifications_beyond_the_queue_limit_are_dropped_and_counted(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, got, go_on = Server("s", limits=Limits(max_queued=3)), list[int](), trio.Event()
    done = trio.Event()

    @server.notification("notifications/acme/number")
    async def number(params: dict[str, Any]) -> None:
        await go_on.wait()
        got.append(params["n"])
        if params["n"] in {3, 100}:
            done.set()

    async with server.serving() as serving:
        answerer = SharedServing(serving)
        async with open_client(answerer) as client:
            for n in range(20):
                await client.notify("notifications/acme/number", {"n": n})
            go_on.set()
            await done.wait()
            done = trio.Event()
            await client.notify("notifications/acme/number", {"n": 100})
            await done.wait()
        assert serving.notifications.dropped == 16

    assert got == [0, 1, 2, 3, 100]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 10  # the other warnings are suppressed
    assert warnings[0].getMessage() == (
        "notification 'notifications/acme/number' was dropped: 3 of its connection wait already"
    )


@pytest.mark.parametrize("method", ["initialize", "logging/setLevel", "tools/call"])
async def test_a_notification_with_the_method_of_a_request_is_ignored(method: str) -> None:
    server, seen = Server("s"), list[str]()

    @server.middleware
    async def note(request: Request, call_next: CallNext) -> Any:
        seen.append(request.method)
        return await call_next(request)

    async with open_scripted_client(server, LEGACY) as client:
        info = {"name": "c", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info, "level": "error", "name": "x"}
        await client.notify(method, params)
        await client.request("ping")

    assert seen == ["initialize", "notifications/initialized", "ping"]


async def test_a_notification_before_the_handshake_that_names_no_revision_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the modern revision, each notification has to name its revision in `_meta`."""
    server, got = Server("s"), list[str]()

    @server.notification("notifications/acme/note")
    async def note(params: dict[str, Any], ctx: Context) -> None:
        got.append(ctx.revision)

    async with open_scripted_client(server, MODERN) as client:
        await client.notify("notifications/acme/note", {"note": "early"})
        await client.notify("notifications/acme/note", {"_meta": ScriptedPeer.envelope(MODERN)})
        await client.request("server/discover")

    assert got == [MODERN]
    assert "name the protocol revision of" in caplog.text


async def test_a_notification_handler_may_log_and_notify_but_not_send_requests() -> None:
    server, done, refused = Server("s"), trio.Event(), list[str]()

    @server.notification("notifications/acme/note")
    async def note(ctx: Context) -> None:
        await ctx.log("info", "received")
        await ctx.notify("notifications/acme/echo", {"n": 1})
        await ctx.report_progress(1)
        try:
            await ctx.list_roots()
        except (MissingCapability, LocalProtocolError) as error:
            refused.append(type(error).__name__)
        try:
            await ctx.request("acme/ask", None, dict)
        except (MissingCapability, LocalProtocolError) as error:
            refused.append(type(error).__name__)
        done.set()

    async with open_scripted_client(server, LEGACY) as client:
        await client.notify("notifications/acme/note")
        logged = await client.expect_notification("notifications/message")
        echoed = await client.expect_notification("notifications/acme/echo")
        await done.wait()
    async with open_scripted_client(server, MODERN) as client:
        done = trio.Event()
        await client.notify("notifications/acme/note", {"_meta": ScriptedPeer.envelope(MODERN)})
        await done.wait()
        await client.request("server/discover")  # no message arrived before its response

    assert logged["params"]["data"] == "received"
    assert echoed["params"] == {"n": 1}
    assert refused == ["MissingCapability", "LocalProtocolError", "LocalProtocolError", "MissingCapability"]


async def test_notification_handlers_are_cancelled_when_the_serving_ends(autojump_clock: object) -> None:
    server, begun, ended = Server("s"), trio.Event(), list[str]()

    @server.notification("notifications/acme/hang")
    async def hang() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")

    async with open_memory_client(server) as client:
        await client.notify("notifications/acme/hang")
        await begun.wait()

    assert ended == ["cancelled"]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_notification_handler_that_never_returns_is_cancelled_and_the_next_one_runs(
    revision: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, seen, done = Server("s"), list[str](), trio.Event()

    @server.notification("notifications/acme/hang")
    async def hang() -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append("cancelled")

    @server.notification("notifications/acme/end")
    async def end() -> None:
        seen.append("handled")
        done.set()

    began = trio.current_time()
    async with server.serving() as serving, open_client(SharedServing(serving), revision=revision) as client:
        await client.notify("notifications/acme/hang")
        await client.notify("notifications/acme/end")
        await done.wait()
        assert trio.current_time() - began == pytest.approx(Limits().notification_seconds, abs=1)
        await trio.testing.wait_all_tasks_blocked()
        assert serving.statistics().running == 0

    assert seen == ["cancelled", "handled"]
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == (
        "notification 'notifications/acme/hang' was cancelled: its handler did not return within 60 s "
        "(Limits.notification_seconds)"
    )


async def test_middleware_that_never_returns_from_a_notification_is_cancelled(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, done = Server("s", limits=Limits(notification_seconds=2)), trio.Event()

    @server.middleware
    async def hang(request: Request, call_next: CallNext) -> Any:
        if request.method == "notifications/acme/hang":
            await trio.sleep_forever()
        return await call_next(request)

    @server.notification("notifications/acme/end")
    async def end() -> None:
        done.set()

    async with open_client(server) as client:
        await client.notify("notifications/acme/hang")
        await client.notify("notifications/acme/end")
        await done.wait()

    assert "'notifications/acme/hang' was cancelled: its handler did not return within 2 s" in caplog.text


async def test_a_client_cannot_fill_the_log_with_notifications_whose_handlers_never_return(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, cancelled, done = Server("s", limits=Limits(notification_seconds=2)), list[int](), trio.Event()

    @server.notification("notifications/acme/hang")
    async def hang(params: dict[str, Any]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(params["n"])
            if len(cancelled) == 30:
                done.set()

    async with open_client(server) as client:
        for n in range(30):
            await client.notify("notifications/acme/hang", {"n": n})
        await done.wait()

    assert cancelled == list(range(30))
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 10


async def test_the_time_limit_of_a_notification_may_be_lifted(autojump_clock: object) -> None:
    server, done = Server("s", limits=Limits(notification_seconds=math.inf)), trio.Event()

    @server.notification("notifications/acme/slow")
    async def slow() -> None:
        await trio.sleep(10_000)
        done.set()

    async with open_client(server) as client:
        await client.notify("notifications/acme/slow")
        await done.wait()


async def test_an_mcp_error_of_a_notification_handler_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, done = Server("s"), trio.Event()

    @server.notification("notifications/acme/refused")
    async def refuse() -> None:
        done.set()
        raise McpError(-31_000, "no")

    async with open_client(server) as client:
        await client.notify("notifications/acme/refused")
        await done.wait()
        with pytest.raises(ErrorResponse):
            await client.request("acme/any", None, dict)

    assert "notification 'notifications/acme/refused': no" in caplog.text
    assert "Traceback" not in caplog.text


async def test_notifications_of_a_closed_connection_are_dropped_after_the_drain_time(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, begun, ended = Server("s", limits=Limits(drain_seconds=5)), list[int](), list[float]()

    @server.notification("notifications/acme/slow")
    async def slow(params: dict[str, Any]) -> None:
        begun.append(params["n"])
        try:
            await trio.sleep(3)
        finally:
            ended.append(trio.current_time())

    async with server.serving() as serving:
        answerer = SharedServing(serving)
        async with open_client(answerer) as client:
            for n in range(100):
                await client.notify("notifications/acme/slow", {"n": n})
        left = trio.current_time()
        await trio.sleep(60)
        assert serving.statistics().running == 0

    assert begun == [0, 1]
    assert [round(when - left) for when in ended] == [3, 5]
    dropped = [record for record in caplog.records if "its connection is gone" in record.getMessage()]
    assert len([record for record in dropped if record.levelno == logging.WARNING]) == 10


async def test_a_notification_handler_that_sends_to_a_closed_connection_is_logged_without_a_traceback(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, begun = Server("s"), trio.Event()

    @server.notification("notifications/acme/reply")
    async def reply(ctx: Context) -> None:
        begun.set()
        await trio.sleep(1)
        await ctx.notify("notifications/acme/late")

    async with server.serving() as serving:
        answerer = SharedServing(serving)
        async with open_memory_client(answerer) as client:
            await client.notify("notifications/acme/reply")
            await begun.wait()
        await trio.sleep(10)

    assert "its connection is gone" in caplog.text
    assert "Traceback" not in caplog.text
