"""Middleware of a gateway, and gateways behind gateways."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import evolve

from tests.gateway.helpers import (
    Heard,
    Way,
    contents,
    front,
    in_all_eras,
    names,
    opened,
    text,
    uris,
)
from tests.gateway.test_questions import CAPABLE
from tests.gateway.upstream_server import META, make_server
from trio_mcp import CallNext, ErrorResponse, ListChanged, RateLimit, Request, ResourceUpdated, types
from trio_mcp.gateway import Gateway

# Middleware.


async def nothing_special(request: Request, call_next: CallNext) -> Any:
    return await call_next(request)


@in_all_eras
async def test_middleware_sees_typed_params_and_results_of_calls_of_servers(way: Way) -> None:
    seen: list[Any] = []

    async def note(request: Request, call_next: CallNext) -> Any:
        result = await call_next(request)
        if request.method == "tools/call":
            seen.append((request.params.name, result.structured_content))
        return result

    async with opened(front(make_server(way.upstream), middleware=[note]), way) as client:
        result = await client.call_tool("point", {"x": 1, "y": 2})

    assert result.structured_content == {"x": 1, "y": 2}
    assert seen == [("point", {"x": 1, "y": 2})]


@in_all_eras
async def test_middleware_changes_the_arguments_of_a_call(way: Way) -> None:
    async def edit(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            request = request.with_params(evolve(request.params, arguments={"x": 5, "y": 6}))
        return await call_next(request)

    async with opened(front(make_server(way.upstream), middleware=[edit]), way) as client:
        result = await client.call_tool("point", {"x": 1, "y": 2})

    assert result.structured_content == {"x": 5, "y": 6}


@in_all_eras
async def test_middleware_changes_the_name_of_a_tool_and_the_uri_of_a_resource(way: Way) -> None:
    async def edit(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            request = request.with_params({"name": "nothing"})
        if request.method == "resources/read":
            request = request.with_params(evolve(request.params, uri="notes://text"))
        return await call_next(request)

    async with opened(front(make_server(way.upstream), middleware=[edit]), way) as client:
        assert text(await client.call_tool("made_up")) == "nothing was needed"
        assert contents(await client.read_resource("notes://other")) == "grüß"


@in_all_eras
async def test_middleware_changes_what_is_completed_and_the_meta_of_a_request(way: Way) -> None:
    async def edit(request: Request, call_next: CallNext) -> Any:
        if request.method == "completion/complete":
            argument = types.CompletionArgument(name="city", value="Gra")
            request = request.with_params(evolve(request.params, argument=argument))
        elif request.method == "tools/call":
            meta: dict[str, Any] = {**request.params.meta, "example.com/colour": "blue"}
            request = request.with_params(evolve(request.params, meta=meta))
        return await call_next(request)

    async with opened(front(make_server(way.upstream), middleware=[edit]), way) as client:
        completed = await client.complete(types.PromptReference(name="plan"), "city", "Ge")
        seen: Any = (await client.call_tool("request_meta", meta={"example.com/colour": "red"})).structured_content

    assert list(completed.values) == ["Graz"]
    assert seen["example.com/colour"] == "blue"


@in_all_eras
async def test_middleware_leaves_arguments_out(way: Way) -> None:
    async def edit(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            request = request.with_params(evolve(request.params, arguments=None))
        return await call_next(request)

    async with opened(front(make_server(way.upstream), middleware=[edit]), way) as client:
        result = await client.call_tool("echo", {"value": 1})

    assert result.structured_content == {"value": "nothing"}


@in_all_eras
async def test_a_fixed_argument_is_not_changed_by_middleware(way: Way) -> None:
    async def edit(request: Request, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            request = request.with_params(evolve(request.params, arguments={"x": 5, "y": 6}))
        return await call_next(request)

    gateway = front(middleware=[edit])
    gateway.mount(make_server(way.upstream), fix={"y": 0})
    async with opened(gateway, way) as client:
        assert (await client.call_tool("point", {"x": 1})).structured_content == {"x": 5, "y": 0}


@in_all_eras
async def test_middleware_changes_the_result_of_a_call(way: Way) -> None:
    async def shorten(request: Request, call_next: CallNext) -> Any:
        result = await call_next(request)
        if isinstance(result, types.CallToolResult):
            result = evolve(result, content=[types.TextContent(text="short")], structured_content=types.UNSET)
        return result

    async with opened(front(make_server(way.upstream), middleware=[shorten]), way) as client:
        assert text(await client.call_tool("point", {"x": 1, "y": 2})) == "short"


@in_all_eras
async def test_everything_works_through_middleware_that_does_nothing(way: Way) -> None:
    updates: list[float] = []

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        updates.append(update.progress)

    async with opened(front(make_server(way.upstream), middleware=[nothing_special]), way, **CAPABLE) as client:
        assert text(await client.call_tool("nothing")) == "nothing was needed"
        assert (await client.call_tool("whole")).meta == {**((await client.call_tool("whole")).meta or {}), **META}
        with pytest.raises(ErrorResponse, match="not today"):
            await client.call_tool("refuse")
        assert (await client.call_tool("fail")).is_error
        await client.call_tool("count", {"steps": 3}, on_progress=on_progress)
        assert "point" in await names(client)
        assert "notes://text" in await uris(client)
        assert contents(await client.read_resource("notes://text")) == "grüß"
        prompt = await client.get_prompt("plan", {"city": "Graz"})
        assert prompt.messages[0].content == types.TextContent(text="a slow day in Graz")
        assert list((await client.complete(types.PromptReference(name="plan"), "city", "Ge")).values) == [
            "Genoa",
            "Geneva",
        ]

    assert updates == [1, 2, 3]


@in_all_eras
async def test_questions_pass_through_middleware(way: Way) -> None:
    async with opened(front(make_server(way.upstream), middleware=[nothing_special]), way, **CAPABLE) as client:
        assert text(await client.call_tool("ask", {"question": "How many?"})) == "2 for How many?"
        assert text(await client.call_tool("several")) == "2 1 m"
        assert len((await client.call_tool("rounds")).content) >= 1
        assert contents(await client.read_resource("table://reserved")) == "A table: 2 for How many seats?."
        prompt = await client.get_prompt("invitation")
        assert prompt.messages[0].content == types.TextContent(text="Invite 2 for How many guests?.")


@in_all_eras
async def test_a_rate_limit_applies_to_calls_of_servers(way: Way) -> None:
    limit = RateLimit(per_second=0.001, burst=2, methods=["tools/call"])
    async with opened(front(make_server(way.upstream), middleware=[limit]), way) as client:
        await names(client)  # a tool that is not known yet has no bucket of its own
        for _ in range(2):
            assert text(await client.call_tool("nothing")) == "nothing was needed"
        with pytest.raises(ErrorResponse) as refused:
            await client.call_tool("nothing")
        assert "nothing" in await names(client)

    assert refused.value.code == -31000


# A gateway behind a gateway.


def two_gateways(way: Way) -> tuple[Gateway, Gateway]:
    """Return a gateway, and the one behind it."""
    inner = Gateway("inner", revisions=[way.upstream])
    inner.mount(make_server(way.upstream))
    return front(inner), inner


@in_all_eras
async def test_calls_and_errors_pass_two_gateways(way: Way) -> None:
    outer, _ = two_gateways(way)
    async with opened(outer, way) as client:
        assert text(await client.call_tool("nothing")) == "nothing was needed"
        assert (await client.call_tool("point", {"x": 1, "y": 2})).structured_content == {"x": 1, "y": 2}
        with pytest.raises(ErrorResponse) as refused:
            await client.call_tool("refuse")
        assert (refused.value.code, refused.value.data) == (-5, {"until": "tomorrow"})
        assert contents(await client.read_resource("notes://named/x")) == "named x"
        assert list((await client.complete(types.PromptReference(name="plan"), "city", "Ge")).values) == [
            "Genoa",
            "Geneva",
        ]


@in_all_eras
async def test_questions_pass_two_gateways(way: Way) -> None:
    outer, _ = two_gateways(way)
    async with opened(outer, way, **CAPABLE) as client:
        assert text(await client.call_tool("ask", {"question": "How many?"})) == "2 for How many?"
        assert text(await client.call_tool("several")) == "2 1 m"
        assert text(await client.call_tool("think_with_tools")) == "weather {'city': 'Graz'}"
        assert "2 for third?" in str((await client.call_tool("rounds")).content)


@in_all_eras
async def test_progress_log_messages_and_cancellation_pass_two_gateways(way: Way) -> None:
    outer, _ = two_gateways(way)
    updates: list[float] = []
    heard = Heard()

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        updates.append(update.progress)

    async with opened(outer, way, on_log=heard.hear) as client:
        await client.set_log_level("warning")
        await client.call_tool("count", {"steps": 5}, on_progress=on_progress)
        await client.call_tool("say")
        async with client.open_call("hang", {"key": "left"}) as call:
            await anext(call.updates)
        assert text(await client.call_tool("when_stopped", {"key": "left"})) == "left was stopped"
        assert await heard.levels(2) == ["warning", "error"]

    assert updates == [1, 2, 3, 4, 5]


@in_all_eras
async def test_changes_pass_two_gateways(way: Way) -> None:
    outer, inner = two_gateways(way)
    async with opened(outer, way) as client:
        await names(client)
        async with client.listen(tools=True, resources=["notes://text"]) as changes:
            await client.call_tool("touch", {"uri": "notes://text"})
            told = await anext(changes)
            while told == ListChanged("tools"):  # the lists of the server behind may arrive late
                told = await anext(changes)
            assert told == ResourceUpdated("notes://text")
            inner.tool(name="of_inner")(_said)
            assert await anext(changes) == ListChanged("tools")
        assert "of_inner" in await names(client)


async def _said() -> str:
    return "said"
