"""Custom methods, notifications and capabilities between our server and our client."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import attrs
import msgspec
import pytest
import trio

from tests.interaction.openers import Opener
from trio_mcp import (
    Client,
    Context,
    ErrorResponse,
    Extension,
    ExtensionResult,
    LocalProtocolError,
    McpError,
    MissingCapability,
    RemoteProtocolError,
    Request,
    Server,
    TimeLimits,
    open_client,
    types,
)
from trio_mcp.lowlevel import ClientExtensionPoints
from trio_mcp.testing import open_memory_client
from trio_mcp.wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ROOMS = "com.example/rooms"


@pytest.fixture(params=types.REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@attrs.frozen
class Search:
    words: list[str]
    limit: int = 10


@dataclass
class Found:
    count: int
    titles: list[str]


@attrs.frozen
class Count:
    number: int


def make_server() -> Server:
    server = Server("s", version="1", extensions={ROOMS: {"most": 3}}, experimental={"acme": {"beta": True}})

    @server.method("acme/search")
    async def search(params: Search, ctx: Context) -> Found:
        await ctx.report_progress(1)
        return Found(params.limit, [word.title() for word in params.words])

    @server.method("acme/reverse")
    def reverse(params: dict[str, Any]) -> dict[str, Any]:
        return {"text": str(params["text"])[::-1]}

    @server.method("acme/nothing")
    async def nothing() -> None: ...

    @server.method("acme/bug")
    async def bug() -> int:
        return 7

    @server.method("rooms/list", extension=ROOMS)
    async def rooms(ctx: Context) -> dict[str, Any]:
        return {"settings": dict(ctx.extension(ROOMS) or {})}

    @server.tool
    async def in_a_room(ctx: Context) -> str:
        settings = ctx.require_extension(ROOMS)
        return f"in a room for {settings.get('people', 1)}"

    assert search.__name__ == "search"  # decorators return the function
    return server


async def test_a_custom_method_returns_typed_results_in_every_revision(opener: Opener, revision: str) -> None:
    async with opener(make_server(), revision=revision) as client:
        found = await client.request("acme/search", Search(["a", "b"], 2), Found)
        assert found == Found(2, ["A", "B"])
        assert (await client.request("acme/reverse", {"text": "abc"}, dict))["text"] == "cba"
        assert isinstance(await client.request("acme/nothing", None, types.EmptyResult), types.EmptyResult)


async def test_invalid_params_are_refused_and_an_invalid_result_is_an_internal_error(
    opener: Opener, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opener(make_server(), revision=revision) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await client.request("acme/search", {"words": "a"}, Found)
        assert refusal.value.code == INVALID_PARAMS
        assert refusal.value.message == "the params of 'acme/search' do not fit: $.words: Expected `array`, got `str`"
        with pytest.raises(ErrorResponse) as failure:
            await client.request("acme/bug", None, dict)
        assert failure.value.code == INTERNAL_ERROR
        with pytest.raises(ErrorResponse) as unknown:
            await client.request("acme/unknown", None, dict)
        assert unknown.value.code == METHOD_NOT_FOUND
    assert "expected an object, not int" in caplog.text


async def test_an_invalid_result_is_reported_as_the_fault_of_the_server(opener: Opener) -> None:
    async with opener(make_server()) as client:
        with pytest.raises(RemoteProtocolError, match=r"the result of 'acme/reverse' does not fit: .*`count`"):
            await client.request("acme/reverse", {"text": "abc"}, Found)


async def test_a_method_that_another_revision_defines_is_not_sent(opener: Opener, revision: str) -> None:
    async with opener(make_server(), revision=revision) as client:
        absent = "ping" if revision == MODERN else "server/discover"
        with pytest.raises(LocalProtocolError, match=f"revision {revision} has no request '{absent}'"):
            await client.request(absent, None, types.EmptyResult)
        with pytest.raises(
            LocalProtocolError, match="is a notification of the specification; the client sends it when it is due"
        ):
            await client.notify("notifications/initialized")


@pytest.mark.requirement("D.1-P1")
async def test_both_sides_see_the_declared_extensions_of_the_other(opener: Opener, revision: str) -> None:
    seen: dict[str, Any] = {}
    server = make_server()

    @server.tool
    async def look(ctx: Context) -> None:
        seen.update(
            extensions=ctx.client_capabilities.extensions,
            experimental=ctx.client_capabilities.experimental,
            rooms=ctx.extension(ROOMS),
            other=ctx.extension("com.example/other"),
        )

    options: dict[str, Any] = {
        "extensions": {ROOMS: {"people": 2}, "com.example/other": {}},
        "experimental": {"zeta": {}},
    }
    async with opener(server, revision=revision, **options) as client:
        await client.call_tool("look")
        assert client.server_capabilities.extensions == {ROOMS: {"most": 3}}
        assert client.server_capabilities.experimental == {"acme": {"beta": True}}
        assert client.extension(ROOMS) == {"most": 3}
        assert client.extension("com.example/other") is None  # the server has not declared it

    assert seen == {
        "extensions": {ROOMS: {"people": 2}, "com.example/other": {}},
        "experimental": {"zeta": {}},
        "rooms": {"people": 2},
        "other": None,
    }


@pytest.mark.requirement("D.1-P1")
async def test_extensions_are_off_by_default(opener: Opener, revision: str) -> None:
    messages: list[bytes] = []

    def keep(_: str, message: bytes) -> None:
        messages.append(message)

    async with opener(Server("s"), revision=revision, tap=keep) as client:
        assert client.extension(ROOMS) is None
        assert client.server_capabilities.extensions is None
        with pytest.raises(ErrorResponse):
            await client.request("acme/any", None, dict)

    assert not [message for message in messages if b"extensions" in message or b"experimental" in message]


@pytest.mark.requirement("B.1-S3", "D.1-P2")
async def test_a_request_that_needs_an_extension_is_refused_with_its_name(opener: Opener, revision: str) -> None:
    required: dict[str, Any] = {"extensions": {ROOMS: {}}}
    async with opener(make_server(), revision=revision) as client:
        with pytest.raises(ErrorResponse) as refusal:
            await client.request("rooms/list", None, dict)
        if revision == MODERN:
            assert refusal.value.code == MISSING_CAPABILITY
            assert refusal.value.data == {"requiredCapabilities": required}
            with pytest.raises(ErrorResponse) as of_tool:
                await client.call_tool("in_a_room")
            assert of_tool.value.code == MISSING_CAPABILITY
            assert of_tool.value.data == {"requiredCapabilities": required}
        else:
            assert refusal.value.code == METHOD_NOT_FOUND
            assert ROOMS in refusal.value.message
            result = await client.call_tool("in_a_room")
            assert result.is_error
            assert ROOMS in str(result.content)


async def test_a_request_that_needs_an_extension_is_answered_if_the_client_declares_it(
    opener: Opener, revision: str
) -> None:
    async with opener(make_server(), revision=revision, extensions=[Extension(ROOMS, {"people": 2})]) as client:
        assert (await client.request("rooms/list", None, dict))["settings"] == {"people": 2}
        assert "in a room for 2" in str((await client.call_tool("in_a_room")).content)


async def test_notifications_arrive_typed_and_in_order(opener: Opener, revision: str, autojump_clock: object) -> None:
    server, got, all_there = Server("s"), list[int](), trio.Event()

    @dataclass
    class Tick:
        number: int

    @server.notification("notifications/acme/tick")
    async def tick(params: Tick, ctx: Context) -> None:
        await trio.sleep(1 / (1 + params.number))  # earlier notifications take longer
        assert ctx.revision == revision
        got.append(params.number)
        if params.number == 4:
            all_there.set()

    async with opener(server, revision=revision) as client:
        for number in range(5):
            await client.notify("notifications/acme/tick", Tick(number))
        await all_there.wait()

    assert got == [0, 1, 2, 3, 4]


async def test_an_invalid_or_failing_notification_does_not_affect_the_others(
    opener: Opener, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server, got, done = Server("s"), list[str](), trio.Event()

    @server.notification("notifications/acme/say")
    def say(params: dict[str, Any]) -> None:
        if params["text"] == "fail":
            raise ValueError("a bug")
        got.append(params["text"])
        trio.from_thread.run_sync(done.set)

    @server.notification("notifications/acme/search")
    async def search(params: Search) -> None:
        raise NotImplementedError

    async with opener(server, revision=revision) as client:
        await client.notify("notifications/acme/say", {"text": "fail"})
        await client.notify("notifications/acme/search", {"words": 7})
        await client.notify("notifications/acme/unknown")
        await client.notify("notifications/acme/say", {"text": "fine"})
        await done.wait()

    assert got == ["fine"]
    logged = [record.getMessage() for record in caplog.records]
    assert logged[0] == "notification 'notifications/acme/say': its handler failed"
    assert "$.words: Expected `array`, got `int`" in logged[1]


async def test_a_notification_of_an_extension_is_dropped_without_the_extension(opener: Opener, revision: str) -> None:
    server, got, done = Server("s", extensions={ROOMS: {}}), list[str](), trio.Event()

    @server.notification("notifications/rooms/left", extension=ROOMS)
    async def left(params: dict[str, Any]) -> None:
        got.append(params["who"])
        done.set()

    async with opener(server, revision=revision) as without:
        await without.notify("notifications/rooms/left", {"who": "bob"})
    async with opener(server, revision=revision, extensions={ROOMS: {}}) as client:
        await client.notify("notifications/rooms/left", {"who": "ada"})
        await done.wait()

    assert got == ["ada"]


async def test_a_server_sends_custom_notifications_and_the_client_receives_them_in_order(
    opener: Opener, revision: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, received, done = Server("s"), list[int](), trio.Event()

    @server.tool
    async def count(to: int, ctx: Context) -> None:
        for number in range(to):
            await ctx.notify("notifications/acme/count", {"number": number})
        await ctx.notify("notifications/acme/count", {"number": "many"})
        await ctx.notify("notifications/acme/unhandled")
        await ctx.notify("notifications/acme/count", {"number": -1})

    async def on_count(params: Count) -> None:
        await trio.sleep(1)
        if params.number == 1:
            raise ValueError("a bug of the application")
        received.append(params.number)
        if params.number < 0:
            done.set()

    options = {"notifications": {"notifications/acme/count": on_count}}
    async with opener(server, revision=revision, **options) as client:
        await client.call_tool("count", {"to": 3})
        await done.wait()

    assert received == [0, 2, -1]
    logged = [record.getMessage() for record in caplog.records]
    assert logged == [
        "the handler of notification 'notifications/acme/count' failed",
        "the params of notification 'notifications/acme/count' do not fit: $.number: Expected `int`, got `str`",
    ]


async def test_a_notification_handler_of_a_client_that_never_returns_is_cancelled_and_the_next_one_runs(
    opener: Opener, revision: str, autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    server, done = Server("s"), trio.Event()

    @server.tool
    async def report(ctx: Context) -> None:
        await ctx.notify("notifications/acme/hang")
        await ctx.notify("notifications/acme/end")

    async def hang(params: dict[str, Any]) -> None:
        await trio.sleep_forever()

    async def end(params: dict[str, Any]) -> None:
        done.set()

    options: Any = {"notifications": {"notifications/acme/hang": hang, "notifications/acme/end": end}}
    async with opener(server, revision=revision, **options) as client:
        await client.call_tool("report")
        await done.wait()

    (record,) = caplog.records
    assert record.getMessage() == (
        "the handler of notification 'notifications/acme/hang' was cancelled: it did not return within 60 s "
        "(Limits.notification_seconds)"
    )


async def test_a_server_sends_custom_requests_where_the_revision_allows(
    opener: Opener, revision: str, autojump_clock: object
) -> None:
    server = Server("s")

    @server.tool
    async def consult(word: str, ctx: Context) -> str:
        found = await ctx.request("acme/ask", Search([word]), Found)
        return found.titles[0]

    async def answer(params: Search) -> Found:
        await trio.sleep(1000)  # the timeouts are paused while the callback runs
        return Found(1, [params.words[0].upper()])

    options: dict[str, Any] = {"methods": {"acme/ask": answer}, "time_limits": TimeLimits(idle=60, total=120)}
    async with opener(server, revision=revision, **options) as client:
        if revision == MODERN:
            with pytest.raises(ErrorResponse, match="'acme/ask': a server cannot send requests") as refusal:
                await client.call_tool("consult", {"word": "hi"})
            assert refusal.value.code == MISSING_CAPABILITY
        else:
            result = await client.call_tool("consult", {"word": "hi"})
            assert result.content == [types.TextContent(text="HI")]


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("acme/fail", {}, "this client failed to answer 'acme/fail'"),
        ("acme/refuse", {}, "not now"),
        ("acme/typed", {"words": 1}, r"\$\.words: Expected `array`, got `int`"),
        ("acme/unknown", {}, "acme/unknown"),
        ("acme/odd", {}, "the result of 'acme/odd' does not fit"),
        ("ping", {}, "'ping' is defined by the specification"),
    ],
)
async def test_a_failed_custom_request_raises_in_the_handler(
    opener: Opener, method: str, params: dict[str, Any], message: str
) -> None:
    server = Server("s")

    @server.tool
    async def consult(ctx: Context) -> str:
        await ctx.request(method, params, Found)
        raise NotImplementedError

    async def fail() -> None:
        raise KeyError("secret")

    async def refuse() -> None:
        raise McpError(-31_000, "not now")

    async def typed(params: Search) -> None:
        raise NotImplementedError

    async def odd() -> dict[str, Any]:
        return {"count": "many"}

    methods = {"acme/fail": fail, "acme/refuse": refuse, "acme/typed": typed, "acme/odd": odd}
    async with opener(server, revision=LEGACY, methods=methods) as client:
        result = await client.call_tool("consult")

    assert result.is_error
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    assert re.search(message, block.text)
    assert "secret" not in block.text


async def test_the_server_sends_no_request_before_the_initialized_notification() -> None:
    messages: list[str] = []
    server = Server("s")

    @server.middleware
    async def ask_too_early(request: Request, call_next: Any) -> Any:
        if request.method == "initialize":
            try:
                await request.context.request("acme/ask", None, dict)
            except MissingCapability as error:
                messages.append(str(error))
        return await call_next(request)

    async with open_memory_client(server, revision=LEGACY):
        pass

    assert messages == ["'acme/ask': the client is not initialized yet"]


async def test_names_of_the_specification_cannot_be_sent_as_custom_messages(opener: Opener) -> None:
    server = Server("s")

    @server.tool
    async def misuse(ctx: Context) -> None:
        await ctx.notify("notifications/message", {"level": "info", "data": "x"})

    async with opener(server) as client:
        result = await client.call_tool("misuse")

    assert "'notifications/message' is defined by the specification" in str(result.content)


async def test_the_context_of_a_finished_request_sends_nothing(opener: Opener) -> None:
    server, contexts = Server("s"), list[Context]()

    @server.tool
    async def leak(ctx: Context) -> None:
        contexts.append(ctx)

    async with opener(server, revision=LEGACY) as client:
        await client.call_tool("leak")
        await contexts[0].notify("notifications/acme/late")
        with pytest.raises(LocalProtocolError, match="the request of the handler is over"):
            await contexts[0].request("acme/ask", None, dict)


async def test_a_handler_that_requires_an_undeclared_extension_is_an_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")

    @server.method("acme/rooms")
    async def rooms(ctx: Context) -> None:
        ctx.require_extension(ROOMS)

    async with open_client(server, extensions={ROOMS: {}}) as client:
        with pytest.raises(ErrorResponse) as failure:
            await client.request("acme/rooms", None, dict)

    assert failure.value.code == INTERNAL_ERROR
    assert "this server does not declare the extension 'com.example/rooms'" in caplog.text


REGISTRATIONS: dict[str, Callable[[Server], Any]] = {
    "method 'tools/call': defined by the specification": lambda server: server.method("tools/call")(_any),
    "cannot be replaced; use middleware": lambda server: server.notification("notifications/progress")(_any),
    "a method 'acme/a' is registered already": lambda server: [server.method("acme/a")(_any) for _ in "ab"],
    "a notification 'n/a' is registered": lambda server: [server.notification("n/a")(_any) for _ in "ab"],
    "extension id 'of a method': must be": lambda server: server.method("acme/a", extension="of a method")(_any),
    "extension id 'of a server': must be": lambda _: Server("s", extensions={"of a server": {}}),
    "extension id 'of a result': must be": lambda _: ExtensionResult("of a result", "task", {}),
    "'complete': defined by the protocol": lambda _: ExtensionResult(ROOMS, "complete", {}),
    "extension id 'of a client': must be": lambda _: Extension("of a client"),
    "'input_required' is a result type": lambda _: Extension(ROOMS, {}, {"input_required": _any}),
}


@pytest.mark.parametrize("fault", REGISTRATIONS)
def test_an_invalid_registration_raises_at_once(fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        REGISTRATIONS[fault](Server("s"))


async def _any(*_: Any) -> Any:
    raise NotImplementedError


def not_async() -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("options", "kind", "fault"),
    [
        ({"methods": {"roots/list": _any}}, ValueError, "method 'roots/list': defined by the specification"),
        ({"notifications": {"notifications/message": _any}}, ValueError, "defined by the specification"),
        ({"methods": {"acme/a": not_async}}, TypeError, r"methods\['acme/a'\]: .* must be an async function"),
        ({"extensions": {"rooms": {}}}, ValueError, "extension id 'rooms': must be"),
        ({"extensions": [Extension(ROOMS), Extension(ROOMS)]}, ValueError, "'com.example/rooms' is given twice"),
        (
            {"extensions": [Extension(ROOMS, {}, {"task": _any}), Extension("a/b", {}, {"task": _any})]},
            ValueError,
            "two extensions have results of type 'task'",
        ),
    ],
)
async def test_invalid_options_are_refused(options: dict[str, Any], kind: type[Exception], fault: str) -> None:
    with pytest.raises(kind, match=fault):
        async with open_client(Server("s"), **options):
            pass


@pytest.mark.not_bridged("the extension points of a client are those of the client for Trio")
async def test_an_extension_has_the_questions_of_a_result_checked_before_any_is_answered(opener: Opener) -> None:
    asked: list[str] = []

    async def say_yes(params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={})

    form: dict[str, Any] = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    question: dict[str, Any] = {"method": "elicitation/create", "params": form}
    async with opener(Server("s"), on_elicit=say_yes) as client:
        points = ClientExtensionPoints(client)
        assert await points.answer_questions({"a": question}, "acme/get") == {"a": {"action": "accept", "content": {}}}
        with pytest.raises(RemoteProtocolError, match=r"a question of 'acme/get' does not fit: .*message"):
            await points.answer_questions({"a": question, "b": {**question, "params": {"mode": "form"}}}, "acme/get")

    assert asked == ["Sure?"]


async def test_a_slow_notification_handler_loses_only_the_oldest_notifications(
    opener: Opener, autojump_clock: object
) -> None:
    server, received, go_on, done = Server("s"), list[int](), trio.Event(), trio.Event()

    @server.tool
    async def flood(ctx: Context) -> None:
        for number in range(1500):  # more than a connection queues, and more than a client keeps
            await ctx.notify("notifications/acme/count", {"number": number, "ballast": "x" * 1000})

    async def on_count(params: Count) -> None:
        await go_on.wait()
        received.append(params.number)
        if params.number == 1499:
            done.set()

    async with opener(server, notifications={"notifications/acme/count": on_count}) as client:
        await client.call_tool("flood")
        go_on.set()
        await done.wait()
        skipped = client._connection.custom.skipped  # pyright: ignore[reportPrivateUsage] # only for debugging

    assert received == [*received[:1], *range(received[1], 1500)]
    assert len(received) + skipped == 1500
    assert skipped > 400


# --- Lists of custom methods ---

LIST = "com.example/rooms/list"


class RoomsPage(msgspec.Struct, rename="camel"):
    """A page of the names of rooms."""

    rooms: list[str]
    next_cursor: str | None = None


def make_building(rooms: Sequence[str], *, page_size: int | None = 2, last: str | None = None) -> Server:
    """Return a server with a list of rooms, those that begin with the ``prefix`` of the request.

    Args:
        last: the cursor on the last page, which should have none.
    """
    server = Server("building", page_size=page_size)

    @server.method(LIST)
    async def list_rooms(params: dict[str, Any]) -> dict[str, Any]:
        wanted = ((at, room) for at, room in enumerate(rooms) if room.startswith(params.get("prefix", "")))
        page, following = server.page(LIST, wanted, params.get("cursor"))
        return {"rooms": page, "nextCursor": last if following is None else following}

    return server


def rooms_of(client: Client, **options: Any) -> AsyncIterator[str]:
    return client.pages(LIST, RoomsPage, lambda page: page.rooms, identity=str, **options)


async def test_a_custom_list_has_pages_that_a_client_walks(opener: Opener, revision: str) -> None:
    rooms = ["attic", "bath", "cellar", "den", "bay"]
    async with opener(make_building(rooms), revision=revision) as client:
        assert [room async for room in rooms_of(client)] == rooms
        assert [room async for room in rooms_of(client, params={"prefix": "ba"})] == ["bath", "bay"]
        with pytest.raises(RemoteProtocolError, match=r"more than 2 pages \(max_pages\)"):
            _ = [room async for room in rooms_of(client, max_pages=2)]


async def test_a_custom_list_without_a_page_size_is_one_page_and_may_be_empty(opener: Opener) -> None:
    async with opener(make_building(["attic", "bath", "cellar"], page_size=None)) as client:
        assert (await client.request(LIST, None, RoomsPage)).rooms == ["attic", "bath", "cellar"]
        assert [room async for room in rooms_of(client, params={"prefix": "x"})] == []


async def test_an_entry_of_a_custom_list_that_keeps_its_place_is_on_exactly_one_page(opener: Opener) -> None:
    places = {1: "attic", 4: "bath", 6: "cellar", 9: "den"}
    server = Server("building", page_size=2)

    @server.method(LIST)
    async def list_rooms(params: dict[str, Any]) -> dict[str, Any]:
        page, following = server.page(LIST, places.items(), params.get("cursor"))
        return {"rooms": page, "nextCursor": following}

    async with opener(server) as client:
        rooms = rooms_of(client)
        first = [await anext(rooms), await anext(rooms)]
        del places[4], places[6]
        places[11] = "bay"
        assert [*first, *[room async for room in rooms]] == ["attic", "bath", "den", "bay"]


async def test_a_cursor_of_a_custom_list_is_refused_for_another_and_the_list_is_read_again(opener: Opener) -> None:
    other = make_building(["hall"] * 3)
    _, foreign = other.page(LIST, enumerate(["hall"] * 3), None)
    async with opener(make_building(["attic"])) as client:
        with pytest.raises(ErrorResponse, match="is not a cursor of") as caught:
            await client.request(LIST, {"cursor": foreign}, dict)
        assert caught.value.code == INVALID_PARAMS
    async with opener(make_building(["attic", "bath"], page_size=None, last="invented")) as client:
        rooms = rooms_of(client)
        assert [await anext(rooms), await anext(rooms)] == ["attic", "bath"]
        with pytest.raises(ErrorResponse, match="is not a cursor of"):  # the second time
            await anext(rooms)


async def test_an_empty_cursor_of_a_custom_list_is_the_end_in_legacy_revisions(opener: Opener) -> None:
    async with opener(make_building(["attic"], last=""), revision=LEGACY) as client:
        assert [room async for room in rooms_of(client)] == ["attic"]
