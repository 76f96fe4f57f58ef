"""The page about errors: each text in it is told by what the page calls its cause.

A provocation makes the mistake with the public interface, and returns what a user is told, or raises it. What is
logged, and what a program writes to standard error, counts as told as well.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import inspect
import logging
import os
import re
import socket
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, TypeAlias, cast
from zipfile import ZipFile

import httpx2
import pytest
import trio
from trio.testing import memory_stream_pair

import trio_mcp
import trio_mcp.asyncio
from tests.cluster.interrupted_backend import InterruptedShared
from tests.cluster.test_membership import Service
from tests.cluster.test_once import Shop, asked, served
from tests.cluster.test_service import Work, processes
from tests.transports.http.hypercorn.test_tls import make_certificate
from tests.web.web_server import LEGACY
from trio_mcp import (
    Bearer,
    Context,
    FileTokenStorage,
    Limits,
    MemoryShared,
    OAuth,
    RateLimit,
    ResourceServer,
    Server,
    SqliteShared,
    TimeLimits,
    http_app,
    open_client,
    open_clients,
    open_http_client,
    serve_http,
    types,
)
from trio_mcp.auth import JwtVerifier
from trio_mcp.testing import ScriptedPeer, open_authorization_server, open_memory_client

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)`[^|]* \| .+ \| .+ \|$", PAGE, re.MULTILINE)
UNKNOWN = "…"
"""The mark of a value that a text contains, which is known only at run time."""

Provocation: TypeAlias = "Callable[[Path], Any]"
"""A function of an empty folder; async ones run in Trio."""
PROVOCATIONS: dict[str, Provocation] = {}


def cause_of(said: str) -> Callable[[Provocation], Provocation]:
    """Register a function as the provocation of a text of the page."""

    def register(provocation: Provocation) -> Provocation:
        assert said not in PROVOCATIONS, said
        PROVOCATIONS[said] = provocation
        return provocation

    return register


def leaves(error: BaseException) -> Generator[BaseException]:
    """Yield an exception, or those of a group."""
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(each)
    else:
        yield error


def told_by(provocation: Provocation, folder: Path) -> str:
    """Run a provocation; return what it returns, or the messages of what it raises."""

    async def within_time() -> Any:
        with trio.fail_after(120):
            return await provocation(folder)

    try:
        if inspect.iscoroutinefunction(provocation):
            return str(trio.run(within_time))
        return str(provocation(folder))
    except BaseException as error:  # noqa: BLE001 # a program that ends is told something, too
        return "\n".join(str(each) for each in leaves(error))


def pattern(said: str) -> re.Pattern[str]:
    """Return the pattern of the messages that contain a text of the page."""
    return re.compile(".*".join(map(re.escape, said.split(UNKNOWN))), re.DOTALL)


@pytest.mark.parametrize("said", ROWS)
def test_the_cause_of_each_text_on_the_page_has_it_told(
    said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "trio_mcp"):
        told = told_by(PROVOCATIONS[said], tmp_path)

    assert pattern(said).search(f"{told}\n{caplog.text}"), f"{told}\n{caplog.text}"


def test_every_provocation_is_on_the_page() -> None:
    assert PROVOCATIONS.keys() <= set(ROWS)


def test_each_row_of_the_page_is_read() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]

    assert len(ROWS) == len(rows) > 60


def test_no_text_is_on_the_page_twice() -> None:
    assert len(set(ROWS)) == len(ROWS)


# --- The program does not start ---


def run_program(folder: Path, text: str, *, stdin: str = "") -> str:
    """Run a program until it ends; return what it writes to both outputs."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return f"{done.stdout}\n{done.stderr}"


def unchecked(value: Any) -> Any:
    """Return a value without its type, for a mistake that a type checker would find."""
    return value


def notes() -> Server:
    """Return a server with one tool."""
    server = Server("notes")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return server


@cause_of("… needs Trio, and no event loop of Trio runs here")
def outside_of_trio(_: Path) -> None:
    async def main() -> None:
        async with open_client(notes()):
            pass

    asyncio.run(main())


@cause_of("this application needs Trio, and its server runs another event loop")
def application_on_asyncio(_: Path) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        raise RuntimeError(message.get("message"))

    asyncio.run(http_app(notes())({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send))


@cause_of("must be called from async context")
def trio_on_asyncio(_: Path) -> None:
    async def main() -> None:
        await trio.sleep(1)

    asyncio.run(main())


@cause_of("trio_mcp.asyncio needs asyncio, and no event loop of asyncio runs here")
async def client_for_asyncio_on_trio(_: Path) -> None:
    async with trio_mcp.asyncio.open_client(notes()):
        pass


@cause_of("run() got an unexpected keyword argument 'port'")
def option_for_trio(_: Path) -> None:
    unchecked(trio.run)(serve_http, notes(), port=0)


@cause_of("cannot import name … from 'trio_mcp'; use …")
def name_of_another_sdk(_: Path) -> None:
    exec("from trio_mcp import FastMCP")  # a type checker would find the mistake


@cause_of("'Server' object has no attribute …; use …")
def method_of_another_sdk(_: Path) -> None:
    unchecked(notes()).add_tool(print)


@cause_of("requires a different Python")
def old_python(folder: Path) -> str:
    """Have pip of Python 3.10 install a wheel with the requirement of this package."""
    required = metadata("trio-mcp")["Requires-Python"]
    wheel = folder / "trio_mcp-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as contents:
        information = f"Metadata-Version: 2.1\nName: trio-mcp\nVersion: 1\nRequires-Python: {required}\n"
        contents.writestr("trio_mcp-1.dist-info/METADATA", information)
        contents.writestr(
            "trio_mcp-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        contents.writestr("trio_mcp-1.dist-info/RECORD", "")
    options = ["--no-index", "--no-deps", "--python-version=3.10", "--only-binary=:all:", f"--target={folder / 'new'}"]
    command = [sys.executable, "-m", "pip", "install", *options, str(wheel)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    return done.stderr


@cause_of("server.run() starts Trio, which runs already: write")
async def run_in_trio(_: Path) -> None:
    notes().run()


@cause_of("server.run() would block the asyncio event loop that runs in this thread")
def run_in_asyncio(_: Path) -> None:
    async def main() -> None:
        notes().run()

    asyncio.run(main())


@cause_of("serve_http() takes all options by name")
async def port_without_name(_: Path) -> None:
    await unchecked(serve_http)(notes(), 8000)


@cause_of("expected a Server, such as Server('notes')")
async def class_instead_of_server(_: Path) -> None:
    await unchecked(serve_http)(Server)


@cause_of("standard input and output are claimed already in this process")
def two_servers_on_stdio(folder: Path) -> str:
    text = """
import trio
from trio_mcp import Server, serve_stdio

async def main():
    async with trio.open_nursery() as nursery:
        for name in ("a", "b"):
            nursery.start_soon(serve_stdio, Server(name))

trio.run(main)
"""
    return run_program(folder, text)


@cause_of("lifespan: a generator function needs @asynccontextmanager")
def lifespan_without_decorator(_: Path) -> None:
    async def lifespan(_: Any) -> Any:
        yield 1

    unchecked(Server)("notes", lifespan=lifespan)


@cause_of("keys: must be a list of bytes")
def key_as_string(_: Path) -> None:
    unchecked(Server)("notes", keys="secret")


@cause_of("keys: each must have at least 16 bytes")
def short_key(_: Path) -> None:
    Server("notes", keys=[b"secret"])


@cause_of("path=…: must begin with a slash")
def path_without_slash(_: Path) -> None:
    http_app(notes(), path="mcp")


@cause_of("host=…: it stands for every address of this machine")
async def every_address(_: Path) -> None:
    await serve_http(notes(), host="0.0.0.0")


@cause_of("cannot listen on …")
async def taken_port(_: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        await serve_http(notes(), port=taken.getsockname()[1])


@cause_of("cannot use … for TLS: …")
async def wrong_key(folder: Path) -> None:
    (folder / "wrong.pem").write_text("secret")
    await serve_http(notes(), certfile=make_certificate(folder).certfile, keyfile=folder / "wrong.pem")


@cause_of("shared=MemoryShared(): other processes cannot use it")
async def memory_for_workers(_: Path) -> None:
    await serve_http(notes(), workers=2, shared=MemoryShared())


@cause_of("auth: expected ResourceServer(url, issuers=[...])")
def verifier_as_auth(_: Path) -> None:
    unchecked(http_app)(notes(), auth=JwtVerifier())


@cause_of("is without TLS, and neither on this machine nor on a trusted host")
def issuer_without_tls(_: Path) -> None:
    ResourceServer("https://mcp.example.com/mcp", issuers=["http://auth.example.com"])


# --- A tool, resource or prompt is refused ---


@cause_of("has no annotation: annotate it with its type")
def no_annotation(_: Path) -> None:
    namespace: dict[str, Any] = {}
    exec("def find(name): pass", namespace)  # a type checker would find the mistake
    Server("notes").tool(namespace["find"])


@cause_of("its default … is not a value of …")
def default_of_other_type(_: Path) -> None:
    missing: Any = None

    @Server("notes").tool
    async def find(limit: int = missing) -> int:
        return limit


@cause_of("… has no JSON form")
def no_json_form(_: Path) -> None:
    @Server("notes").tool
    async def find(place: socket.socket) -> int:
        return place.fileno()


@cause_of("its return annotation names …, which cannot be returned")
def result_without_json_form(_: Path) -> None:
    @Server("notes").resource("notes://all")
    async def find() -> socket.socket:
        return socket.socket()


class Library:
    async def search(self, name: str) -> str:
        return name


@cause_of("this is not a method of an instance")
def method_of_class(_: Path) -> None:
    unchecked(Server("notes").tool)(Library.search)


@cause_of("@server.resource takes a URI")
def resource_without_uri(_: Path) -> None:
    async def everything() -> str:
        return ""

    unchecked(Server("notes").resource)(everything)


@cause_of("a … … is registered already")
def two_of_one_name(_: Path) -> None:
    server = notes()

    @server.tool(name="add")
    async def other() -> str:
        return ""


@cause_of("a generator function cannot be a handler")
def generator_as_handler(_: Path) -> None:
    async def count() -> Any:
        yield 1

    unchecked(Server("notes").tool)(count)


@cause_of("unknown options: …")
def unknown_option(_: Path) -> None:
    unchecked(http_app)(notes(), json_response=True)


@cause_of("tool name …: clients may refuse it")
def name_with_space(_: Path) -> None:
    @Server("notes").tool(name="find all")
    async def find() -> str:
        return ""


@cause_of("is not a scope; use visible ASCII without spaces")
def scope_with_space(_: Path) -> None:
    @Server("notes").tool(scopes=["read write"])
    async def find() -> str:
        return ""


@cause_of("functions: a worker process does not run Trio")
def isolated_coroutine(_: Path) -> None:
    @Server("notes").tool(isolate="process")
    async def find() -> str:
        return ""


@cause_of("RedisShared needs coredis")
def without_the_extra(folder: Path) -> str:
    text = """
import sys
sys.modules["coredis"] = None  # as if it were not installed
import trio
from functools import partial
from trio_mcp import RedisShared, Server, serve_http
trio.run(partial(serve_http, Server("notes"), port=0, shared=RedisShared("redis://localhost:1/0")))
"""
    return run_program(folder, text)


# --- A handler fails ---


async def call(server: Server, name: str, **arguments: Any) -> str:
    """Call a tool of a server in memory; return what the model reads."""
    async with open_client(server) as client:
        result = await client.call_tool(name, arguments)
        return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))


@cause_of("… uses asyncio, and it runs on Trio")
async def asyncio_in_handler(_: Path) -> str:
    server = Server("notes")

    @server.tool
    async def wait() -> None:
        await asyncio.sleep(1)

    return await call(server, "wait")


@cause_of("it is a coroutine of …")
async def coroutine_as_result(_: Path) -> str:
    server = Server("notes")

    async def find() -> str:
        return ""

    @server.tool
    async def look() -> Any:
        return find()

    return await call(server, "look")


@cause_of("standard output carries the protocol; text printed there goes to standard error instead")
def print_in_a_server(folder: Path) -> str:
    return run_program(folder, STUCK.format(body="print('hello')"), stdin=CALL_STAY)


@cause_of("this server has no lifespan, and so no state")
async def state_without_lifespan(_: Path) -> str:
    server = Server("notes")

    @server.tool
    async def look(ctx: Context) -> str:
        return str(ctx.state)

    return await call(server, "look")


@cause_of("returned a value of type …: $…")
async def value_without_json(_: Path) -> str:
    server = Server("notes")

    @server.tool
    async def look() -> Any:
        return object()

    return await call(server, "look")


@cause_of("…: the request of the handler is over; nothing can be sent")
async def context_kept(_: Path) -> None:
    server, kept = Server("notes"), list[Context]()

    @server.tool
    async def keep(ctx: Context) -> None:
        kept.append(ctx)

    async with open_memory_client(server, revision=LEGACY) as client:
        await client.call_tool("keep")
        await kept[0].request("example/later", {}, dict[str, Any])


@cause_of("… failed; the server's log says why")
async def failing_resource(_: Path) -> None:
    server = Server("notes")

    @server.resource("notes://all")
    async def everything() -> str:
        raise OSError("the disk is full")

    async with open_client(server) as client:
        await client.read_resource("notes://all")


def asking_server(**limits: Any) -> Server:
    """Return a server with a tool that asks its user."""
    server = Server("notes", limits=Limits(**limits))

    @dataclasses.dataclass
    class Name:
        name: str

    @server.tool
    async def greet(ctx: Context) -> str:
        return str(await ctx.elicit("Your name?", Name))

    return server


@cause_of("the question was not answered in time")
async def unanswered(_: Path) -> str:
    async def on_elicit(_: Any) -> Any:
        await trio.sleep_forever()

    server = asking_server(ask_seconds=0.1)
    async with open_memory_client(server, revision=LEGACY, on_elicit=on_elicit) as client:
        return str(await client.call_tool("greet"))


@cause_of("a handler of … cannot ask questions of a client of this revision")
async def ask_where_no_answer_comes(_: Path) -> None:
    server = Server("notes")

    @server.method("example/ask")
    async def ask(ctx: Context) -> dict[str, Any]:
        return {"answer": str(await ctx.elicit("Look", url="https://example.com"))}

    async with open_client(server) as client:
        await client.request("example/ask", {}, dict[str, Any])


@cause_of("the client cannot be asked: it has not declared …")
async def ask_a_client_without_callback(_: Path) -> str:
    return await call(asking_server(), "greet")


@cause_of("… background tasks are running already (Limits.max_background)")
async def too_many_background_tasks(_: Path) -> str:
    server = Server("notes", limits=Limits(max_background=1, drain_seconds=0.1))

    @server.tool
    async def begin() -> None:
        for _ in range(2):
            server.background.start_soon(trio.sleep_forever)

    return await call(server, "begin")


@cause_of("the handler tried to exit the process")
async def exit_in_handler(_: Path) -> str:
    server = Server("notes")

    @server.tool
    async def leave() -> None:
        sys.exit("bye")

    return await call(server, "leave")


@cause_of("no tool …; did you mean …")
async def unknown_tool(_: Path) -> str:
    return await call(notes(), "ad")


@cause_of("too many requests; try again in … s")
async def too_many_requests(_: Path) -> None:
    server = Server("notes", middleware=[RateLimit(per_second=0.001, burst=1, methods=["tools/call"])])

    @server.tool
    async def look() -> None: ...

    async with open_client(server) as client:
        await client.call_tool("look")
        await client.call_tool("look")


# --- The client cannot connect ---


@cause_of("it ended by itself before it answered: does the program serve")
async def program_without_run(folder: Path) -> None:
    (folder / "server.py").write_text("from trio_mcp import Server\nserver = Server('notes')\n")
    async with open_client([sys.executable, str(folder / "server.py")]):
        pass


@cause_of("cannot start …: …")
async def unknown_command(_: Path) -> None:
    async with open_client(["no-such-command"]):
        pass


@cause_of("the server has not agreed to a revision within … s (TimeLimits.connect)")
async def slow_program(_: Path) -> None:
    async with open_client(
        [sys.executable, "-c", "input()\nimport time\ntime.sleep(60)"], time_limits=TimeLimits(connect=1)
    ):
        pass


@cause_of("cannot connect to …: …")
async def nothing_listens(_: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with open_client(f"http://127.0.0.1:{port}/mcp"):
        pass


@cause_of("if the server uses TLS, its URL begins with https://")
async def http_instead_of_https(folder: Path) -> None:
    certificate = make_certificate(folder)
    async with trio.open_nursery() as nursery:
        options: dict[str, Any] = {"certfile": certificate.certfile, "keyfile": certificate.keyfile}
        bound = await nursery.start(partial(serve_http, notes(), port=0, **options))
        try:
            async with open_client(f"http://127.0.0.1:{bound.port}/mcp"):
                pass
        finally:
            nursery.cancel_scope.cancel()


@cause_of("no common protocol revision: this side asked for …, the peer offers …")
async def pinned_revision(_: Path) -> None:
    async with open_client(Server("notes", revisions=[types.REVISIONS[-1]]), revision=LEGACY):
        pass


async def connect_to(path: str, **options: Any) -> None:
    """Connect to another path of a server over HTTP."""
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, notes(), port=0, **options))
        try:
            async with open_client(bound.url.removesuffix("/mcp") + path):
                pass
        finally:
            nursery.cancel_scope.cancel()


@cause_of("the URL has no path: is it …")
async def no_path(_: Path) -> None:
    await connect_to("")


@cause_of("HTTP status 404")
async def wrong_path(_: Path) -> None:
    await connect_to("/notes")


@cause_of("certificate verify failed")
async def untrusted_certificate(folder: Path) -> None:
    certificate = make_certificate(folder)
    await connect_to("/mcp", certfile=certificate.certfile, keyfile=certificate.keyfile)


async def connect_to_program(folder: Path, text: str) -> None:
    """Connect to a program over stdio."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    async with open_client([sys.executable, str(folder / "program.py")]):
        pass


@cause_of("the server process exited with status …; the last lines of its standard error:")
async def missing_module(folder: Path) -> None:
    await connect_to_program(folder, "import no_such_module_of_notes\n")


@cause_of("not a message: not a JSON message: …")
async def words_on_standard_output(folder: Path) -> None:
    text = """
import os
os.write(1, b"hello\\n")
from trio_mcp import Server
Server("notes").run()
"""
    await connect_to_program(folder, text)


@cause_of("this is a block, and has no attribute …: write …")
async def block_without_with(_: Path) -> None:
    await unchecked(open_client(notes())).call_tool("add")


@cause_of("this is a block, and cannot be awaited")
async def awaited_block(_: Path) -> None:
    await unchecked(open_client(notes()))


@cause_of("open_client() takes one entry of 'mcpServers'")
async def whole_file(_: Path) -> None:
    async with open_client({"mcpServers": {"notes": {"command": "x"}}}):
        pass


@cause_of("expected an object with the member 'mcpServers'")
async def no_table(folder: Path) -> None:
    (folder / "mcp.json").write_text("[]")
    async with open_clients(folder / "mcp.json"):
        pass


@cause_of("the environment variable … in … is not set")
async def unset_variable(_: Path) -> None:
    async with open_clients({"mcpServers": {"notes": {"url": "https://${NO_SUCH_VARIABLE_OF_NOTES}/mcp"}}}):
        pass


@cause_of("is not a URL; pass a command as a list of the program and its arguments")
async def command_as_string(_: Path) -> None:
    async with open_client("python server.py"):
        pass


@cause_of("unknown client option …")
async def unknown_client_option(_: Path) -> None:
    async with unchecked(open_client)(notes(), timeout=3):
        pass


@cause_of("auth: expected OAuth(...), Bearer(...) or the like")
async def token_as_auth(_: Path) -> None:
    async with unchecked(open_http_client)("http://127.0.0.1:1/mcp", auth="TOKEN"):
        pass


def protection(**options: Any) -> ResourceServer:
    """Return the options of a protected server whose authorization server is not reached."""
    return ResourceServer("http://127.0.0.1:1/mcp", issuers=["http://127.0.0.1:2"], **options)


@cause_of("a token is required")
async def no_token(_: Path) -> None:
    await connect_protected(None)


async def connect_protected(auth: Any, **options: Any) -> None:
    """Connect to a protected server."""
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, notes(), port=0, auth=protection(**options)))
        try:
            async with open_http_client(bound.url, auth=auth):
                pass
        finally:
            nursery.cancel_scope.cancel()


@cause_of("the token is not accepted")
async def wrong_token(_: Path) -> None:
    await connect_protected(Bearer("opaque"))


@cause_of("it does not have the three parts of a JWS")
async def opaque_token(_: Path) -> None:
    await connect_protected(Bearer("opaque"))


@cause_of("the token storage … is accessible for other users; chmod 600 it")
async def open_storage(folder: Path) -> None:
    path = folder / "tokens.json"
    path.write_text("{}")
    path.chmod(0o644)
    await FileTokenStorage(path).load("key")


async def sign_in(audience: str = "", **options: Any) -> None:
    """Sign in at an authorization server, and call a tool."""
    server_options = {name: options.pop(name) for name in ("registration", "change", "resources") if name in options}
    async with (
        open_authorization_server(auto_consent=True, **server_options) as authority,
        trio.open_nursery() as nursery,
    ):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        resource = ResourceServer(
            f"http://127.0.0.1:{port}/mcp", issuers=[authority.issuer], audiences=[audience] if audience else None
        )
        bound = await nursery.start(partial(serve_http, notes(), port=port, auth=resource))
        given: dict[str, Any] = {"visit": authority.visit, "redirect_uri": "http://127.0.0.1/callback", **options}
        try:
            async with open_http_client(bound.url, auth=OAuth(**given)) as client:
                await client.call_tool("add", {"a": 1, "b": 2})
        finally:
            nursery.cancel_scope.cancel()


@cause_of("it is for …, not for this server")
async def other_audience(_: Path) -> None:
    await sign_in(audience="another")


@cause_of("does not support dynamic registration; register this client manually")
async def no_registration(_: Path) -> None:
    await sign_in(registration=False)


@cause_of("does not announce support for PKCE with S256")
async def no_pkce(_: Path) -> None:
    def change(_endpoint: str, members: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in members.items() if name != "code_challenge_methods_supported"}

    await sign_in(change=change)


@cause_of("was refused: invalid_target")
async def resource_refused(_: Path) -> None:
    await sign_in(resources=[])


@cause_of("the sign-in at … was not completed within … s")
async def nobody_signs_in(_: Path) -> None:
    async def visit(_url: str) -> str:
        await trio.sleep_forever()
        raise AssertionError

    await sign_in(visit=visit, visit_seconds=0.1)


# --- HTTP ---


async def post(**options: Any) -> str:
    """Send a request to a server as a program without an SDK would; return the answer."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    serving = {name: options.pop(name) for name in ("max_body_bytes",) if name in options}
    options = {"headers": headers | options.pop("headers", {}), "json": message} | options
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, notes(), port=0, **serving))
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(bound.url, **options)
        nursery.cancel_scope.cancel()
    return f"{answer.status_code} {answer.text}"


@cause_of("Host … is not a name of this server (see allowed_hosts)")
async def unknown_host(_: Path) -> str:
    return await post(headers={"host": "mcp.example.com"})


@cause_of("pages of Origin … may not use this server (see allowed_origins)")
async def unknown_origin(_: Path) -> str:
    return await post(headers={"origin": "https://example.com"})


@cause_of("Accept must list application/json and text/event-stream")
async def no_accept(_: Path) -> str:
    return await post(headers={"accept": "text/html"})


@cause_of("the body is longer than … bytes")
async def large_body(_: Path) -> str:
    return await post(max_body_bytes=100, json={"text": "x" * 1000})


@cause_of("the server sends a message of more than … bytes (Limits.max_message_bytes)")
async def large_result(_: Path) -> None:
    server = Server("notes")

    @server.tool
    async def look() -> str:
        return "x" * 10_000

    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(serve_http, server, port=0))
        try:
            async with open_http_client(bound.url, limits=Limits(max_message_bytes=5000)) as client:
                await client.call_tool("look")
        finally:
            nursery.cancel_scope.cancel()


# --- A call fails ---


@cause_of("this is an asynchronous iterator")
async def plain_for(_: Path) -> None:
    async with open_client(notes()) as client:
        for _tool in unchecked(client.tools()):
            pass


@cause_of("'coroutine' object has no attribute …")
@cause_of("coroutine … was never awaited")
async def call_without_await(_: Path) -> str:
    said = ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with open_client(notes()) as client:
            try:
                unchecked(client.call_tool("add")).content  # noqa: B018 # the mistake
            except AttributeError as error:
                said = str(error)
        gc.collect()
    return f"{said} {[str(each.message) for each in warned]}"


@cause_of("this client is closed")
async def outside_of_block(_: Path) -> None:
    async with open_client(notes()) as client:
        pass
    await client.call_tool("add", {"a": 1, "b": 2})


@cause_of("the server has not declared …, which … needs")
async def missing_feature(_: Path) -> None:
    async with open_client(notes()) as client:
        await client.get_prompt("greet")


@cause_of("on_elicit accepted a form with invalid content: …")
async def misfit_answer(_: Path) -> str:
    async def on_elicit(_: Any) -> Any:
        return types.ElicitResult(action="accept", content={"name": 1})

    async with open_client(asking_server(), on_elicit=on_elicit) as client:
        return str(await client.call_tool("greet"))


@cause_of("the server has asked … times (Limits.max_rounds)")
async def endless_questions(_: Path) -> str:
    server = Server("notes")

    @dataclasses.dataclass
    class Name:
        name: str

    @server.tool
    async def greet(ctx: Context) -> str:
        for _time in range(3):
            await ctx.elicit("Your name?", Name)
        return ""

    async def on_elicit(_: Any) -> Any:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with open_client(server, on_elicit=on_elicit, limits=Limits(max_rounds=2)) as client:
        return str(await client.call_tool("greet"))


async def scripted(answers: list[dict[str, Any]], work: Callable[[Any], Awaitable[object]], **options: Any) -> None:
    """Let a client work with a scripted server of an older revision."""
    ours, theirs = memory_stream_pair()
    peer = ScriptedPeer(theirs)

    async def serve() -> None:
        await peer.welcome(LEGACY)
        for answer in answers:
            request = await peer.receive()
            await peer.send({"jsonrpc": "2.0", "id": request["id"], "result": answer})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with trio_mcp.open_stream_client(ours, revision=LEGACY, **options) as client:
            await work(client)


@cause_of("the server's list is endless: cursor … is repeated")
async def endless_list(_: Path) -> None:
    async def work(client: Any) -> None:
        async for _tool in client.tools():
            pass

    await scripted([{"tools": [], "nextCursor": "a"}] * 2, work)


@cause_of("the result of … does not fit: …")
async def misfit_result(_: Path) -> None:
    async def work(client: Any) -> None:
        await client.call_tool("add")

    await scripted([{"content": 1}], work)


@cause_of("tool … returned no structured content, which its output schema requires")
async def no_structured_content(_: Path) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool: dict[str, Any] = {"name": "add", "inputSchema": schema, "outputSchema": schema}

    async def work(client: Any) -> None:
        async for _tool in client.tools():
            pass
        await client.call_tool("add")

    await scripted([{"tools": [tool]}, {"content": []}], work)


# --- Servers on many machines ---


@cause_of("what the processes of this service share cannot be reached at the moment")
async def backend_is_down(_: Path) -> str:
    async with served(Shop()) as (line, clients):
        retry = await asked(clients[0], catches=False)
        line.is_down = True
        got = await clients[0].post(retry)
        return str(got.answer["error"]["message"])


@cause_of("the backend has lost its data, and not all processes have renewed their leases yet")
async def backend_is_new(_: Path) -> None:
    async with trio.open_nursery() as nursery:
        one = await Service(nursery).start()
        try:
            await one.membership.find("never")
        finally:
            nursery.cancel_scope.cancel()


@cause_of("the value … of the shared backend was not made by this service")
async def other_keys(_: Path) -> None:
    line = InterruptedShared()
    async with processes(line, 1, b"a" * 32) as (one,):
        await one.once("key", Work(), seconds=60)
    async with processes(line, 1, b"b" * 32) as (other,):
        await other.once("key", Work(), seconds=60)


@cause_of("give all of them the same Server(keys=[...]), or none")
async def keys_of_one_process(folder: Path) -> None:
    async with trio.open_nursery() as nursery:
        shared = SqliteShared(folder / "state.db")
        await nursery.start(partial(serve_http, notes(), port=0, shared=shared))
        try:
            await nursery.start(partial(serve_http, Server("notes", keys=[os.urandom(32)]), port=0, shared=shared))
        finally:
            nursery.cancel_scope.cancel()


@cause_of("worker … … before it served")
def worker_ends(folder: Path) -> str:
    text = """
import os, sys, trio
from functools import partial
from trio_mcp import Server, serve_http
if "TRIO_MCP_BEGUN" in os.environ:
    sys.exit(3)
os.environ["TRIO_MCP_BEGUN"] = "1"
trio.run(partial(serve_http, Server("notes"), port=0, workers=2))
"""
    return run_program(folder, text)


# --- At the end ---

STUCK = """
import time, trio
from trio_mcp import Limits, Server

server = Server("notes", limits=Limits(drain_seconds=0.1, stop_seconds=0.1))

@server.tool
async def stay():
    {body}

server.run()
"""
CALL_STAY = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"c","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"stay","arguments":{}}}\n'
)


@cause_of("… does not end; it stands at …")
@cause_of("this process ends with status …, because something in it does not end")
def shielded_handler(folder: Path) -> str:
    body = "with trio.CancelScope(shield=True): await trio.sleep_forever()"
    return run_program(folder, STUCK.format(body=body), stdin=CALL_STAY)


@cause_of("the event loop is blocked at …")
def blocking_handler(folder: Path) -> str:
    return run_program(
        folder,
        STUCK.format(body="import os, signal; os.kill(os.getpid(), signal.SIGTERM); time.sleep(3)"),
        stdin=CALL_STAY,
    )
