"""The command `app` in a process, and its page, played by a test over a WebSocket."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import define, field
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, TextMessage
from wsproto.events import Request as Opening

from tests.cli.command import PROGRAMS, environment
from trio_mcp.wire import JsonObject

SERVER = str(PROGRAMS / "app_server.py")
_URL = re.compile(r"http://127\.0\.0\.1:(\d+)(/\S+/)")
_SECONDS = 60


@define(eq=False)
class Preview:
    """A running `trio-mcp app`."""

    process: trio.Process
    port: int
    path: str
    shown: str
    """What it has written to standard error until the URL."""
    _output: bytearray = field(factory=bytearray, init=False)
    _has_ended: trio.Event = field(factory=trio.Event, init=False)

    async def read(self) -> None:
        """Read its standard output, so that a full pipe does not stop it."""
        assert self.process.stdout
        with suppress(trio.ClosedResourceError):
            async for chunk in self.process.stdout:
                self._output += chunk
        self._has_ended.set()

    @property
    def url(self) -> str:
        """The URL of the page."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    async def get(self, path: str | None = None, *, method: str = "GET", port: int | None = None, **fields: str) -> str:
        """Send a request; return the whole response."""
        stream = await trio.open_tcp_stream("127.0.0.1", port or self.port)
        async with stream:
            head = {"host": f"127.0.0.1:{port or self.port}", "connection": "close", **fields}
            lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in head.items())
            await stream.send_all(f"{method} {path or self.path} HTTP/1.1\r\n{lines}\r\n".encode())
            return b"".join([chunk async for chunk in stream]).decode()

    async def settings(self) -> JsonObject:
        """Return what the page knows about the preview."""
        found = re.search(r"const settings = (\{.*\});", await self.get())
        assert found
        settings: JsonObject = json.loads(found[1])
        return settings

    @asynccontextmanager
    async def page(self) -> AsyncGenerator[PlayedPage]:
        """Open the page, and its WebSocket."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            page = PlayedPage(stream)
            await page.open(f"127.0.0.1:{self.port}", f"{self.path}socket")
            yield page

    async def stop(self) -> tuple[int, str]:
        """Interrupt the command; return its status and the rest of its standard output."""
        self.process.send_signal(signal.SIGINT)
        await self._has_ended.wait()
        return await self.process.wait(), self._output.decode()


@asynccontextmanager
async def previewing(*arguments: str, server: Sequence[str] = (SERVER,), **variables: str) -> AsyncGenerator[Preview]:
    """Run the command with a server, and wait until it has told the URL of its page.

    Args:
        arguments: the tool, its arguments, and options.
        server: the Python file of the server, and its arguments.
        variables: of the environment.
    """
    command = [sys.executable, "-m", "trio_mcp", "app", *arguments, "--", sys.executable, *server]
    pipes: Mapping[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with trio.fail_after(_SECONDS):
        process = await trio.lowlevel.open_process(command, env={**environment(), **variables}, **pipes)
        try:
            assert process.stderr
            shown = b""
            while not (found := _URL.search(shown.decode())):
                chunk = await process.stderr.receive_some()
                assert chunk, shown
                shown += chunk
            preview = Preview(process, int(found[1]), found[2], shown.decode())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(preview.read)
                yield preview
                if process.returncode is None:
                    await preview.stop()
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


@define(eq=False)
class PlayedPage:
    """The page of a preview, and the view in it."""

    _stream: trio.SocketStream
    _connection: WSConnection = field(factory=lambda: WSConnection(ConnectionType.CLIENT), init=False)
    _arrived: list[JsonObject] = field(factory=list[JsonObject], init=False)
    _text: str = field(default="", init=False)
    refused: int | None = field(default=None, init=False)
    """The status of the response that refuses the WebSocket."""
    is_closed: bool = field(default=False, init=False)
    _id: int = field(default=0, init=False)

    async def open(self, host: str, target: str, *, origin: str | None = None) -> None:
        """Ask for the WebSocket."""
        fields = [(b"Origin", (origin or f"http://{host}").encode())]
        await self._put(Opening(host=host, target=target, extra_headers=fields))
        while not await self._take():
            pass

    async def _put(self, event: Any) -> None:
        await self._stream.send_all(self._connection.send(event))

    async def _take(self) -> bool:
        """Take what arrives; return True if that is an event."""
        data = await self._stream.receive_some()
        self._connection.receive_data(data or None)
        found = False
        for event in self._connection.events():
            found = True
            match event:
                case TextMessage(data=text, message_finished=is_whole):
                    self._text += text
                    if is_whole:
                        self._arrived.append(json.loads(self._text))
                        self._text = ""
                case RejectConnection(status_code=status):
                    self.refused = status
                case CloseConnection():
                    self.is_closed = True
                case _:
                    assert isinstance(event, AcceptConnection) or self.refused
        return found

    async def say(self, text: str) -> None:
        """Send a text."""
        await self._put(TextMessage(text))

    async def tell(self, **members: Any) -> None:
        """Send an object."""
        await self.say(json.dumps(members))

    async def next(self, kind: str) -> Any:
        """Wait for the next object of a kind, and drop those before it; return its value."""
        while True:
            while self._arrived:
                message = self._arrived.pop(0)
                if kind in message:
                    return message[kind]
            assert not self.is_closed, f"closed without {kind}"
            await self._take()

    async def until_closed(self) -> None:
        """Wait for the end of the WebSocket."""
        while not self.is_closed:
            await self._take()

    # --- The view ---

    async def begin(self) -> None:
        """Load the view, and initialize it."""
        await self.tell(view={"jsonrpc": "2.0", "method": "ui/notifications/sandbox-proxy-ready", "params": {}})
        assert (await self.next("view"))["method"] == "ui/notifications/sandbox-resource-ready"
        about = {
            "appInfo": {"name": "played", "version": "1"},
            "appCapabilities": {},
            "protocolVersion": "2026-01-26",
        }
        await self.ask("ui/initialize", about)
        await self.answer()
        await self.tell(view={"jsonrpc": "2.0", "method": "ui/notifications/initialized"})

    async def ask(self, method: str, params: Any) -> None:
        """Send a request of the view."""
        self._id += 1
        await self.tell(view={"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})

    async def answer(self) -> JsonObject:
        """Wait for the response to the last request."""
        while (message := await self.next("view")).get("id") != self._id or "method" in message:
            pass
        response: JsonObject = message
        return response

    async def heard(self, method: str) -> JsonObject:
        """Wait for a message of the host to the view; return it."""
        while (message := await self.next("view")).get("method") != method:
            pass
        found: JsonObject = message
        return found
