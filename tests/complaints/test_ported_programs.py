"""Programs as the READMEs of FastMCP and of the official SDK teach them, moved line by line.

Each program here says the same as one of theirs, with the import of this package and its class `Server`, or else a line
that cannot be kept. Every line works, or the error of the first one that does not names the cure.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
import trio
from pydantic import BaseModel, Field

from trio_mcp import Context, Image, Server, User, open_client, open_stdio_client, types
from trio_mcp.server import Assistant

# --- Servers that work ---

QUICKSTART = """
from trio_mcp import Server

mcp = Server("Sums")

@mcp.tool{called}
def total(first: int, second: int) -> int:
    '''Return the sum of two integers.'''
    return first + second

@mcp.resource("hello://{{who}}")
def hello(who: str) -> str:
    '''Greet a person.'''
    return f"Good day, {{who}}"

@mcp.resource("setup://release")
def release():
    return "4.2"

@mcp.resource("people://{{number}}/card")
def card(number: int):
    return {{"number": number, "state": "present"}}

@mcp.prompt{called}
def praise(who: str, manner: str = "short") -> str:
    '''Ask for a praise.'''
    return f"Write a {{manner}} praise of {{who}}."

if __name__ == "__main__":
    mcp.run()
"""


@pytest.mark.parametrize("called", ["", "()"])
async def test_a_first_server_runs_as_a_program(called: str, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(QUICKSTART.format(called=called))

    with trio.fail_after(60):
        async with open_stdio_client([sys.executable, program]) as client:
            result = await client.call_tool("total", {"first": 2, "second": 3})
            greeting = await client.read_resource("hello://Ada")
            data = await client.read_resource("people://7/card")
            prompt = await client.get_prompt("praise", arguments={"who": "Ada"})
            listed = await client.list_tools()

    assert result.structured_content == {"result": 5}
    assert [each.description for each in listed.tools] == ["Return the sum of two integers."]
    assert greeting.contents == [
        types.TextResourceContents(uri="hello://Ada", text="Good day, Ada", mime_type="text/plain")
    ]
    assert data.contents == [
        types.TextResourceContents(
            uri="people://7/card", text='{"number":7,"state":"present"}', mime_type="application/json"
        )
    ]
    assert prompt.messages == [
        types.PromptMessage(role="user", content=types.TextContent(text="Write a short praise of Ada."))
    ]


@dataclass
class Resources:
    shelf: dict[str, int]


async def test_a_lifespan_gives_its_resources_to_the_handlers() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[Resources]:
        steps.append("open")
        try:
            yield Resources(shelf={"pens": 3})
        finally:
            steps.append("closed")

    mcp = Server("Shelf", lifespan=lifespan)

    @mcp.tool()
    def count(what: str, ctx: Context[Resources]) -> int:
        return ctx.state.shelf[what]

    async with open_client(mcp) as client:
        assert await client.call_tool("count", {"what": "pens"}, returns=int) == 3
    assert steps == ["open", "closed"]


class Weather(BaseModel):
    degrees: float = Field(description="in Celsius")
    sky: str


class Place(TypedDict):
    north: float
    name: str


async def test_results_have_the_structure_of_their_annotations() -> None:
    mcp = Server("Structures")

    @mcp.tool()
    def weather(city: str) -> Weather:
        return Weather(degrees=21.5, sky=f"clear over {city}")

    @mcp.tool()
    def place(name: str) -> Place:
        return {"north": 52.5, "name": name}

    @mcp.tool()
    def figures() -> dict[str, float]:
        return {"mean": 4.5}

    @mcp.tool()
    def towns() -> list[str]:
        return ["Ulm", "Bonn"]

    @mcp.tool()
    def whole() -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text="seen")], meta={"hidden": 1})

    @mcp.tool(icons=[types.Icon(src="pen.png", mime_type="image/png", sizes=["64x64"])])
    def picture() -> Image:
        return Image(b"\x89PNG", "image/png")

    async with open_client(mcp) as client:
        assert await client.call_tool("weather", {"city": "Ulm"}, returns=Weather) == Weather(
            degrees=21.5, sky="clear over Ulm"
        )
        assert (await client.call_tool("place", {"name": "Ulm"})).structured_content == {"north": 52.5, "name": "Ulm"}
        assert (await client.call_tool("figures")).structured_content == {"mean": 4.5}
        assert (await client.call_tool("towns")).structured_content == {"result": ["Ulm", "Bonn"]}
        assert ((await client.call_tool("whole")).meta or {})["hidden"] == 1
        assert (await client.call_tool("picture")).content == [
            types.ImageContent(data="iVBORw==", mime_type="image/png")
        ]


async def test_prompts_are_texts_or_messages() -> None:
    mcp = Server("Prompts")

    @mcp.prompt(title="Check a text")
    def check(text: str) -> str:
        return f"Check this text:\n{text}"

    @mcp.prompt(title="Find a fault")
    def fault(report: str) -> list[Any]:
        return [User("It says:"), User(report), Assistant("Which version is it?")]

    async with open_client(mcp) as client:
        messages = (await client.get_prompt("fault", {"report": "out of paper"})).messages
        titles = [each.title async for each in client.prompts()]

    assert [each.role for each in messages] == ["user", "user", "assistant"]
    assert titles == ["Check a text", "Find a fault"]


class Wish(BaseModel):
    other_day: bool = Field(description="Is another day possible?")
    day: str = Field(default="2027-01-02", description="The other day")


async def test_a_handler_reports_asks_and_samples() -> None:
    mcp, updates = Server("Table"), list[types.ProgressNotificationParams]()

    @mcp.tool()
    async def reserve(day: str, ctx: Context) -> str:
        await ctx.log("info", f"looking at {day}")
        await ctx.report_progress(progress=0.5, total=1.0, message="half")
        answer = await ctx.elicit(message="That day is full. Another one?", form=Wish)
        verse = await ctx.sample("Write a verse.", max_tokens=50)
        assert isinstance(verse.content, types.TextContent)
        return f"{answer!r} {verse.content.text}"

    async def on_elicit(_: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"other_day": True})

    async def on_sample(_: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Roses."), model="m")

    async def on_progress(update: types.ProgressNotificationParams) -> None:
        updates.append(update)

    async with open_client(mcp, on_elicit=on_elicit, on_sample=on_sample) as client:
        text = await client.call_tool("reserve", {"day": "2027-01-01"}, returns=str, on_progress=on_progress)

    assert text == "Accepted(value=Wish(other_day=True, day='2027-01-02')) Roses."
    assert {each.message for each in updates} == {"half"}


# --- Lines that cannot be kept ---

SERVER = """
from trio_mcp import Accepted, Context, Image, Server, open_client, types
import trio

mcp = Server("Sums")

@mcp.tool
def total(first: int, second: int) -> int:
    return first + second

async def with_client(use):
    async with open_client(mcp) as client:
        await use(client)

async def in_handler(use):
    async def handler(ctx: Context) -> None:
        await use(ctx)
    mcp.tool(name="handler")(handler)
    async with open_client(mcp) as client:
        await client.call_tool("handler", raise_on_error=True)

"""

LINES = [
    ("from trio_mcp import FastMCP", "ImportError: cannot import name 'FastMCP' from 'trio_mcp'; use `Server`"),
    ("from trio_mcp import ClientSession, StdioServerParameters", "; use `open_client(target)`"),
    (
        'mcp = Server("Sums", stateless_http=True, json_response=True)',
        "'stateless_http'; not needed: clients of 2026-07",
    ),
    ('mcp = Server("Sums", streamable_http_path="/")', "; use `path=` of `serve_http` or `http_app`"),
    ('mcp = Server("Sums", auth=object())', "; use `serve_http(server, auth=ResourceServer(url, issuers=[...]))`"),
    ('mcp.run(transport="http", host="0.0.0.0", port=9000)', "server.run(http=9000, host='0.0.0.0') for HTTP"),
    ('mcp.run("streamable-http")', "server.run(http=8000) for HTTP"),
    ("app = mcp.streamable_http_app()", "; use `http_app(server)`"),
    ("mcp.session_manager.run()", "; use `http_app(server).run()` or its `lifespan`"),
    ('mcp.settings.streamable_http_path = "/"', "; use the options of `Server(...)`"),
    ('@mcp.custom_route("/health", methods=["GET"])\ndef health(request): ...', "; use `routes={path: function}`"),
    ("@mcp.list_tools()\nasync def tools(): ...", "; use `@server.tool` to register one"),
    ("@mcp.call_tool()\nasync def call(name, arguments): ...", "; use `@server.tool` to register one"),
    (
        "@mcp.completion()\nasync def complete(ref, argument): ...",
        "missing 1 required keyword-only argument: 'argument'",
    ),
    ("def query(ctx: Context[object, dict]) -> str: ...", "Context takes one type, that of its state"),
    ('Image(data=b"", format="png")', "; use `mime_type=`, such as 'image/png'"),
    ('Image(path="x.png")', "; use `path.read_bytes()` and the media type"),
    ("from trio_mcp import CurrentContext", "; take a parameter `ctx: Context` in the handler"),
    ("Server.from_openapi({})", "; use `add_openapi(server, source, include=[...])`, of `trio_mcp.openapi`"),
    (
        "async def main():\n    await mcp.run_async(transport='http')\ntrio.run(main)",
        "`await serve_http(server, port=8000)`",
    ),
    (
        "class Profile:\n    name: str\n\n@mcp.tool\ndef profile() -> Profile: ...",
        "Profile has no JSON form; make it a dataclass, a TypedDict, an attrs class or a pydantic model",
    ),
    (
        "async def lifespan(server):\n    yield {}\nmcp = Server('Sums', lifespan=lifespan)",
        "lifespan: a generator function needs @asynccontextmanager (of contextlib) above it",
    ),
    ("import asyncio\nasyncio.run(with_client(lambda client: client.ping()))", "trio.run(main), not with asyncio.run"),
    ("from trio_mcp import Client\nClient('server.py')", "write `async with open_client(target) as client:`"),
    ("async with open_client('server.py') as client: ...", "such as [sys.executable, 'server.py']"),
    (
        "async with open_client({'mcpServers': {'a': {'command': 'a'}}}) as client: ...",
        "open_clients() takes the whole table",
    ),
    ("client: await client.initialize()", "; not needed: the block of `open_client` does it"),
    ("client: [tool.name for tool in await client.list_tools()]", "is an object and no list: use its members .tools"),
    ("client: (await client.list_tools()).tools[0].inputSchema", ". Did you mean: 'input_schema'?"),
    ("client: (await client.call_tool('total', {'first': 1, 'second': 2})).data", "; use `result.structured_content`"),
    ("client: (await client.call_tool('total', {'first': 1, 'second': 2})).isError", ". Did you mean: 'is_error'?"),
    (
        "client: await client.call_tool('total', {}, timeout=3)",
        "; use `with trio.fail_after(seconds):` around the call",
    ),
    ("client: await client.complete(ref=types.PromptReference(name='p'), argument={})", "argument: 'value'"),
    ("ctx: await ctx.info('text')", "; use `await ctx.log('info', data)`"),
    ("ctx: await ctx.read_resource('setup://release')", "; call the function itself"),
    ("ctx: await ctx.sample('Write a verse.')", "missing 1 required keyword-only argument: 'max_tokens'"),
    ("ctx: ctx.request_context.lifespan_context", "; use `ctx.state`"),
    ("ctx: await ctx.session.send_resource_list_changed()", "list changes are sent without your help"),
    ("ctx: await ctx.log(level='info', message='text')", "missing 1 required positional argument: 'data'"),
    ("ctx: Accepted(1).action", "; use `isinstance(answer, Accepted)`, and then `answer.value`; or `match`"),
    ("ctx: ctx.fastmcp.name", "; use the `Server` object itself"),
    ("ctx: await ctx.elicit(message='Which?', schema=dict)", "; use `ctx.elicit(message, Form)`"),
]


@pytest.mark.parametrize(("line", "cure"), LINES)
def test_a_line_that_cannot_be_kept_names_the_cure(line: str, cure: str, tmp_path: Path) -> None:
    for parameter, runner in (("client", "with_client"), ("ctx", "in_handler")):
        if line.startswith(f"{parameter}: "):
            body = line.removeprefix(f"{parameter}: ")
            line = f"async def use({parameter}):\n    {body}\ntrio.run({runner}, use)\n"
    if line.startswith("async with "):
        line = f"async def main():\n    {line}\ntrio.run(main)\n"
    program = tmp_path / "program.py"
    program.write_text(SERVER + line)

    done = subprocess.run(
        [sys.executable, program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert cure in done.stderr
