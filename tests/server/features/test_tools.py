"""Tools from a client's point of view: lists, calls, results and errors."""

from __future__ import annotations

import threading
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
import trio

from tests.server.helpers import text_of
from trio_mcp import (
    Audio,
    Context,
    ErrorResponse,
    Image,
    McpError,
    Server,
    ToolError,
    ToolFailed,
    open_client,
    types,
)

LINK = types.ResourceLink(name="doc", uri="file:///doc", description="the manual")


@pytest.mark.complaint(39)
async def test_a_registered_function_is_returned_unchanged_and_stays_callable() -> None:
    server = Server("s")

    @server.tool
    def double(x: int) -> int:
        return 2 * x

    @server.tool(name="other", title="Other")
    def triple(x: int) -> int:
        return 3 * x

    assert (double(2), triple(2)) == (4, 6)


async def test_a_tool_is_listed_with_all_options_of_its_registration() -> None:
    server = Server("s")
    annotations, icon = types.ToolAnnotations(read_only_hint=True), types.Icon(src="https://example.com/i.png")

    @server.tool(title="Add", annotations=annotations, icons=[icon], meta={"team": "sums"})
    def add(a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: the first one
        """
        return a + b

    async with open_client(server) as client:
        (tool,) = [tool async for tool in client.tools()]

    assert tool == types.Tool(
        name="add",
        title="Add",
        description="Add two numbers.",
        input_schema={
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "the first one"},
                "b": {"type": "integer", "default": 1},
            },
            "required": ["a"],
            "additionalProperties": False,
        },
        output_schema={"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]},
        annotations=annotations,
        icons=[icon],
        meta={"team": "sums"},
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"max_concurrency": 0}, "max_concurrency=0"),
        ({"max_concurrency": 1.5}, r"max_concurrency=1\.5: must be an integer"),
    ],
)
def test_an_invalid_option_is_refused_at_registration(options: dict[str, Any], fault: str) -> None:
    server = Server("s")

    with pytest.raises(ValueError, match=fault):
        server.tool(**options)(lambda: None)


@pytest.mark.requirement("B.20-S3c")
def test_a_second_tool_of_the_same_name_is_refused_at_registration() -> None:
    server = Server("s")
    server.tool(name="x")(lambda: None)

    with pytest.raises(ValueError, match="'x' is registered already"):
        server.tool(name="x")(lambda: None)


async def test_a_removed_tool_is_neither_listed_nor_called() -> None:
    server = Server("s")
    server.tool(name="x")(lambda: None)
    server.tool(name="y")(lambda: None)

    async with open_client(server) as client:
        server.tools.remove("x")

        assert [tool.name async for tool in client.tools()] == ["y"]
        with pytest.raises(ErrorResponse, match="no tool 'x'"):
            await client.call_tool("x")


@pytest.mark.requirement("B.20-S1b", "B.20-S6c")
async def test_all_faults_of_the_arguments_are_reported_and_the_handler_does_not_run() -> None:
    server, ran = Server("s"), list[int]()

    @server.tool
    def add(a: int, b: int) -> int:
        ran.append(1)
        return a + b

    async with open_client(server) as client:
        result = await client.call_tool("add", {"a": "1", "c": 3})

    assert result.is_error
    assert all(part in text_of(result) for part in ("$.a: expected integer", "$.b: required", "$.c"))
    assert not ran


@pytest.mark.requirement("B.20-S6b")
async def test_a_raised_exception_is_a_tool_error_with_its_message_and_a_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")

    @server.tool
    async def fail() -> None:
        raise KeyError("no such thing")

    async with open_client(server) as client:
        result = await client.call_tool("fail")

    assert (result.is_error, text_of(result)) == (True, "'no such thing'")
    assert "Traceback" in caplog.text
    assert "Traceback" not in str(result)


async def test_an_exception_without_a_message_is_reported_by_its_class() -> None:
    server = Server("s")

    @server.tool
    async def fail() -> None:
        raise ZeroDivisionError

    async with open_client(server) as client:
        assert text_of(await client.call_tool("fail")) == "ZeroDivisionError"


async def test_a_group_of_exceptions_is_a_tool_error_with_all_their_messages() -> None:
    server = Server("s")

    @server.tool
    async def fail() -> None:
        raise ExceptionGroup("both", [ValueError("one"), ValueError("two")])

    async with open_client(server) as client:
        assert text_of(await client.call_tool("fail")) == "one; two"


async def test_a_tool_error_is_deliberate_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def fail() -> None:
        raise ToolError("the shop is closed")

    async with open_client(server) as client:
        with pytest.raises(ToolFailed, match="the shop is closed") as caught:
            await client.call_tool("fail", raise_on_error=True)

    assert (caught.value.tool, caught.value.result.is_error) == ("fail", True)
    assert not caplog.records


async def test_an_mcp_error_of_a_tool_is_sent_as_a_protocol_error() -> None:
    server = Server("s")

    @server.tool
    async def fail() -> None:
        raise McpError(123, "custom", {"a": 1})

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse) as caught:
            await client.call_tool("fail")

    assert (caught.value.code, caught.value.message, caught.value.data) == (123, "custom", {"a": 1})


@pytest.mark.complaint(23)
async def test_a_tool_that_exceeds_its_timeout_is_cancelled_and_sends_a_tool_error(autojump_clock: object) -> None:
    server, ended = Server("s"), list[float]()

    @server.tool(timeout=3)
    async def sleep() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with open_client(server) as client:
        began = trio.current_time()
        result = await client.call_tool("sleep")

    assert (result.is_error, text_of(result)) == (True, "sleep timed out after 3 s")
    assert ended == [pytest.approx(began + 3)]


async def test_a_tool_that_was_removed_before_its_timeout_still_sends_the_tool_error(autojump_clock: object) -> None:
    server = Server("s")

    @server.tool(timeout=3)
    async def sleep() -> None:
        server.tools.remove("sleep")
        await trio.sleep_forever()

    async with open_client(server) as client:
        assert (await client.call_tool("sleep")).is_error


@pytest.mark.requirement("B.20-S1d")
@pytest.mark.complaint(23)
async def test_max_concurrency_limits_the_simultaneous_calls_of_a_tool(autojump_clock: object) -> None:
    server, working, most = Server("s"), 0, 0

    @server.tool(max_concurrency=2)
    async def work() -> None:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await trio.sleep(1)
        working -= 1

    async with open_client(server) as client, trio.open_nursery() as nursery:
        for _ in range(7):
            nursery.start_soon(client.call_tool, "work")

    assert (most, working) == (2, 0)


async def test_a_plain_function_runs_in_a_thread_and_its_exception_is_a_tool_error() -> None:
    server = Server("s")

    @server.tool
    def in_main_thread(fail: bool) -> bool:
        if fail:
            raise ValueError("thrown in a thread")
        return threading.current_thread() is threading.main_thread()

    async with open_client(server) as client:
        assert (await client.call_tool("in_main_thread", {"fail": False})).structured_content == {"result": False}
        assert text_of(await client.call_tool("in_main_thread", {"fail": True})) == "thrown in a thread"


@pytest.mark.requirement("B.20-S8")
async def test_the_return_value_of_a_tool_becomes_content() -> None:
    server = Server("s")
    whole = types.CallToolResult(content=[], meta={"a": 1})
    cases: dict[str, tuple[Any, list[Any]]] = {
        "nothing": (None, []),
        "text": ("hi", [types.TextContent(text="hi")]),
        "block": (types.TextContent(text="hi"), [types.TextContent(text="hi")]),
        "image": (Image(b"abc", "image/png"), [types.ImageContent(data="YWJj", mime_type="image/png")]),
        "mixed": (
            ["look", Audio(b"abc", "audio/wav")],
            [types.TextContent(text="look"), types.AudioContent(data="YWJj", mime_type="audio/wav")],
        ),
        "data": ({"a": [1, None]}, [types.TextContent(text='{"a":[1,null]}')]),
        "list of data": ([1, 2], [types.TextContent(text="[1,2]")]),
    }

    @server.tool
    async def give(key: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 # a return value without annotation on purpose
        return whole if key == "whole" else cases[key][0]

    async with open_client(server, revision="2025-06-18") as client:
        for key, (_, expected) in cases.items():
            assert (await client.call_tool("give", {"key": key})).content == expected
        assert await client.call_tool("give", {"key": "whole"}) == whole


@pytest.mark.requirement("B.20-S8")
async def test_bytes_without_a_media_type_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def give():  # type: ignore[no-untyped-def]  # noqa: ANN202 # a return value without annotation on purpose
        return b"abc"

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.call_tool("give")
    assert "return Image(data, mime_type)" in caplog.text


@pytest.mark.requirement("B.20-S5a")
async def test_a_result_that_does_not_fit_its_annotation_is_a_tool_error() -> None:
    server = Server("s")

    @server.tool
    async def count() -> int:
        return "three"  # type: ignore[return-value]  # a wrong type on purpose

    async with open_client(server) as client:
        result = await client.call_tool("count")

    assert result.is_error
    assert "$.result: expected integer" in text_of(result)


@pytest.mark.requirement("A.5-P1", "B.2-P1c")
@pytest.mark.parametrize(
    ("revision", "block", "kind"),
    [
        ("2024-11-05", Audio(b"a", "audio/wav"), "audio"),
        ("2024-11-05", LINK, "a resource link"),
        ("2025-03-26", LINK, "a resource link"),
    ],
)
async def test_content_that_the_revision_does_not_have_is_refused(
    revision: str, block: Audio | types.ResourceLink, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool
    async def give() -> types.CallToolResult:
        content = block.block() if isinstance(block, Audio) else block
        return types.CallToolResult(content=[types.TextContent(text="before"), content])

    async with open_client(server, revision=revision) as client:
        refused = await client.call_tool("give")

    message = f"tool 'give': content[1] is {kind}, which revision {revision} does not have"
    assert refused.is_error
    assert message in text_of(refused)
    assert message in caplog.text


@pytest.mark.parametrize(
    ("annotation", "value", "texts"),
    [
        (list[str | Image], ["a", "b"], ["a", "b"]),
        (list[str | Image] | None, ["a"], ["a"]),
        (Annotated[tuple[str, types.ImageContent | str], "text"], ("a", "b"), ["a", "b"]),
        (list[dict[str, int] | Image], [{"n": 1}], ['{"n":1}']),
        (list[str | Image], [], []),
        (list[str] | Image, ["a", "b"], ['["a","b"]']),
        (Any, ["a", "b"], ['["a","b"]']),
    ],
)
async def test_the_items_of_a_list_are_blocks_if_the_annotation_says_that_they_are_content(
    annotation: Any, value: Any, texts: list[str]
) -> None:
    server = Server("s")

    async def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    server.tool(give)

    async with open_client(server) as client:
        result = await client.call_tool("give")

    assert [text_of_block(block) for block in result.content] == texts
    assert result.structured_content is types.UNSET


def text_of_block(block: types.ContentBlock) -> str:
    assert isinstance(block, types.TextContent)
    return block.text


async def test_members_of_content_that_the_revision_does_not_have_are_omitted() -> None:
    server = Server("s")

    @server.tool
    async def give() -> list[types.ImageContent]:
        return [types.ImageContent(data="", mime_type="image/png", meta={"a": 1})]

    for revision, meta in (("2025-03-26", None), ("2025-06-18", {"a": 1})):
        async with open_client(server, revision=revision) as client:
            (block,) = (await client.call_tool("give")).content
            assert block.meta == meta


async def test_a_custom_schema_is_published_and_its_arguments_arrive_unconverted() -> None:
    server = Server("s")
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}

    @server.tool(input_schema=schema)
    async def raw(**arguments: Any) -> str:
        return repr(arguments)

    async with open_client(server) as client:
        (tool,) = [tool async for tool in client.tools()]
        assert tool.input_schema == schema
        assert text_of(await client.call_tool("raw", {"n": 3, "x": None})) == "{'n': 3, 'x': None}"
        assert (await client.call_tool("raw", {"n": 2})).is_error


async def test_the_context_may_be_any_parameter() -> None:
    server = Server("s")

    @server.tool
    async def combine(a: int, ctx: Context, b: int) -> str:
        return f"{a} {ctx.revision} {b}"

    async with open_client(server, revision="2025-11-25") as client:
        assert text_of(await client.call_tool("combine", {"a": 1, "b": 2})) == "1 2025-11-25 2"


@pytest.mark.requirement("B.20-S3a")
async def test_a_name_that_clients_may_refuse_is_registered_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    server.tool(name="a tool")(lambda: None)

    assert "tool name 'a tool'" in caplog.text


async def test_annotations_may_name_classes_that_are_local_to_the_registering_function() -> None:
    server = Server("s")

    class Point(TypedDict):
        x: int

    @server.tool
    async def look(point: Point) -> str:
        return str(point["x"])

    @server.tool(name="again")
    async def look_again(point: Point) -> str:
        return str(point["x"])

    async with open_client(server) as client:
        for name in ("look", "again"):
            assert text_of(await client.call_tool(name, {"point": {"x": 3}})) == "3"


async def test_an_exception_whose_message_cannot_be_formatted_affects_only_its_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class WithoutStringError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    class OddError(Exception):
        exceptions = None

    server = Server("s")

    @server.tool
    async def fail(how: str) -> None:
        raise WithoutStringError if how == "unformattable" else OddError("odd")

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the log says more"):
            await client.call_tool("fail", {"how": "unformattable"})
        assert text_of(await client.call_tool("fail", {"how": "odd"})) == "odd"
    assert "no words" in caplog.text


@pytest.mark.requirement("B.1-P5")
async def test_an_invalid_mcp_error_raises_at_its_creation() -> None:
    server = Server("s")

    @server.tool
    async def fail() -> None:
        raise McpError(-32000, None)  # type: ignore[arg-type]  # a wrong type on purpose

    async with open_client(server) as client:
        assert "McpError(-32000, None)" in text_of(await client.call_tool("fail"))


async def test_an_abandoned_thread_counts_against_the_concurrency_of_its_tool() -> None:
    server, release, working = Server("s"), threading.Event(), list[int]()
    begun = trio.Event()

    @server.tool(max_concurrency=1)
    def work() -> None:
        working.append(1)
        trio.from_thread.run_sync(begun.set)
        release.wait(60)

    async with open_client(server) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "work")
            await begun.wait()
            nursery.cancel_scope.cancel()
        with trio.move_on_after(0.05):
            await client.call_tool("work")
        assert working == [1]
        release.set()
        assert not (await client.call_tool("work")).is_error
        assert working == [1, 1]


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (types.CallToolResult(content=[]), r"$: required, but missing: the tool has an output schema"),
        (types.CallToolResult(content=[], structured_content={"b": 1}), "$.a: required, but missing"),
        (types.CallToolResult(content=[], structured_content={"a": 1}), ""),
        (types.CallToolResult(content=[types.TextContent(text="no")], is_error=True), "no"),
    ],
)
async def test_a_complete_result_has_to_fit_the_output_schema(result: types.CallToolResult, fault: str) -> None:
    server = Server("s")
    server.tool(name="t", output_schema={"type": "object", "required": ["a"]})(lambda: result)

    async with open_client(server) as client:
        answer = await client.call_tool("t")

    assert (answer.is_error or False) == bool(fault)
    assert answer.content == result.content or fault in text_of(answer)


async def test_content_where_the_annotation_promises_data_is_a_tool_error() -> None:
    server = Server("s")

    @server.tool
    def pictures() -> list[Any]:
        return ["a picture", Image(b"...", "image/png")]

    async with open_client(server) as client:
        answer = await client.call_tool("pictures")

    assert answer.is_error
    assert "$: it is content, but the return annotation promises data; annotate" in text_of(answer)


@pytest.mark.parametrize("revision", types.REVISIONS[:-1])
@pytest.mark.parametrize(("structured", "text"), [([1], "[1]"), (None, "null"), ({"a": 1}, '{"a":1}')])
async def test_structured_content_that_the_revision_does_not_have_becomes_text_content(
    revision: str, structured: Any, text: str
) -> None:
    server = Server("s")
    without_text = types.CallToolResult(content=[], structured_content=structured)
    server.tool(name="without_text")(lambda: without_text)
    with_text = types.CallToolResult(content=[types.TextContent(text="x")], structured_content=structured)
    server.tool(name="with_text")(lambda: with_text)

    async with open_client(server, revision=revision) as client:
        answer, unchanged = await client.call_tool("without_text"), await client.call_tool("with_text")

    kept = revision >= "2025-06-18" and isinstance(structured, dict)
    assert (answer.structured_content, unchanged.structured_content) == (
        (structured, structured) if kept else (types.UNSET,) * 2
    )
    assert text_of(unchanged) == "x"
    assert answer.content == [] if kept else text_of(answer) == text


async def test_the_message_about_faulty_arguments_has_a_bounded_length() -> None:
    server = Server("s")

    @server.tool
    def take(a: int) -> None: ...

    async with open_client(server) as client:
        answer = await client.call_tool("take", {"a": 1, "x" * 1_000_000: 2})

    assert answer.is_error
    assert text_of(answer).startswith("take: the arguments do not fit its schema\n$.xxx")
    assert len(text_of(answer)) < 11_000


@pytest.mark.parametrize("plain", [False, True])
def test_max_concurrency_applies_to_each_trio_run_separately(plain: bool) -> None:
    server = Server("s")
    both = threading.Barrier(2)

    def wait_for_the_other() -> str:
        both.wait(30)
        return "both run"

    if plain:
        server.tool(name="meet", max_concurrency=1)(wait_for_the_other)
    else:

        async def meet() -> str:
            await trio.lowlevel.checkpoint()
            return wait_for_the_other()

        server.tool(max_concurrency=1)(meet)

    async def run() -> None:
        async with open_client(server) as client, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(partial(client.call_tool, "meet", raise_on_error=True))

    other = threading.Thread(target=trio.run, args=[run])
    other.start()
    trio.run(run)
    other.join()


async def test_middleware_may_change_the_result_of_a_tool_in_place() -> None:
    async def change(request: Any, call_next: Any) -> Any:
        result = await call_next(request)
        result.content.append(types.TextContent(text="and more"))
        result.structured_content["result"] += 1
        return result

    server = Server("s")

    @server.tool
    async def one() -> int:
        return 1

    async with open_client(server) as client:
        plain = await client.call_tool("one")
        server.middleware(change)
        changed = await client.call_tool("one")

    assert plain == types.CallToolResult(
        content=[types.TextContent(text="1")],
        structured_content={"result": 1},
        result_type=plain.result_type,
        meta=plain.meta,
    )
    assert [block.text for block in changed.content if isinstance(block, types.TextContent)] == ["1", "and more"]
    assert changed.structured_content == {"result": 2}


@pytest.mark.parametrize(
    ("revision", "expected"), [("2025-03-26", types.UNSET), ("2025-11-25", types.UNSET), ("2026-07-28", [1, 2])]
)
async def test_structured_content_other_than_objects_is_sent_only_in_revisions_that_allow_it(
    revision: str, expected: Any
) -> None:
    server = Server("s", revisions=[revision])

    @server.tool(output_schema={"type": "array", "items": {"type": "integer"}})
    async def both() -> list[int]:
        return [1, 2]

    async with open_client(server) as client:
        answer = await client.call_tool("both")

    assert (text_of(answer), answer.structured_content) == ("[1,2]", expected)


@pytest.mark.parametrize(("value", "texts"), [("a", ["a"]), (1.5, ["1.5"]), (True, ["true"]), (None, [])])
async def test_the_result_of_a_tool_without_an_output_schema_becomes_text_content(value: Any, texts: list[str]) -> None:
    server = Server("s")

    @server.tool
    async def answer_with_it() -> Any:
        return value

    async with open_client(server) as client:
        answer = await client.call_tool("answer_with_it")

    assert answer.content == [types.TextContent(text=each) for each in texts]
    assert answer.structured_content is types.UNSET
