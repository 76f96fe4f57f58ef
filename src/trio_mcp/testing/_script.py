"""A scripted peer: one end of a connection that a test controls message by message, invalid messages included."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeAlias, Unpack, cast

import trio
import trio.testing
from attrs import define, field

from .._util import owned_nursery
from ..abc import Answerer, Serving
from ..client import Client, ClientOptions, open_stream_client
from ..server import serve_stream
from ..types import METHODS, REVISIONS
from ..wire import CAPABILITIES_KEY, REVISION_KEY, is_modern

__all__ = ["Script", "ScriptedPeer", "open_scripted_client", "open_scripted_server"]

Json: TypeAlias = dict[str, Any]
Script: TypeAlias = "Callable[[ScriptedPeer], Awaitable[object]]"
"""A function that controls a scripted peer while the other side connects."""

_INFO: Json = {"name": "scripted", "version": "0"}
_EVERYTHING: Json = {"completions": {}, "logging": {}, "prompts": {}, "resources": {"subscribe": True}, "tools": {}}
_SCRIPT_SECONDS = 60.0
"""The time that a script has after the client has connected. A script that waits for later messages would never end."""
_DEFAULT: Json = {}
"""Stands for the envelope that the revision requires."""


@define(eq=False)
class ScriptedPeer:
    """A peer that sends and receives plain JSON values over a stream, and checks only what the caller asks it to check.

    It can make the handshake of a client (`greet`) and of a server (`welcome`), and it numbers its requests. An
    unexpected message raises an `AssertionError` that names the expected message and shows the received one. Only one
    task at a time may receive.

    Args:
        stream: carries newline-delimited JSON. The caller closes it.
    """

    INFO = _INFO
    """The name and version of a scripted peer."""
    EVERYTHING = _EVERYTHING
    """The capabilities that a scripted server declares: all that a legacy or modern server can have."""

    stream: trio.abc.Stream
    revision: str | None = field(default=None, init=False)
    """The revision that `greet` or `welcome` agreed on; None before."""
    _envelope: Json = field(factory=dict[str, Any], init=False)
    _unread: bytearray = field(factory=bytearray, init=False)
    _ids: count[int] = field(factory=lambda: count(1000), init=False)

    async def send(self, *messages: Any) -> None:
        """Send each message as one line; `bytes` are sent unchanged, with or without a newline."""
        for message in messages:
            await self.stream.send_all(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    async def send_eof(self) -> None:
        """Close the sending half of the stream, which must be a `trio.abc.HalfCloseableStream`; receiving continues."""
        assert isinstance(self.stream, trio.abc.HalfCloseableStream)
        await self.stream.send_eof()

    async def receive(self) -> Any:
        """Return the next message of any kind; None at the end of the input.

        Raises:
            AssertionError: the input is not JSON, or ends in the middle of a line.
        """
        while (end := self._unread.find(b"\n")) < 0:
            chunk = await self.stream.receive_some()
            if not chunk:
                if self._unread:
                    raise AssertionError(f"the other side ended in the middle of a message: {bytes(self._unread)!r}")
                return None
            self._unread += chunk
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        try:
            return json.loads(line)
        except ValueError:
            raise AssertionError(f"expected a line of JSON; received {line!r}") from None

    async def rest(self) -> list[Any]:
        """Return all messages until the end of the input."""
        messages: list[Any] = []
        while (message := await self.receive()) is not None:
            messages.append(message)
        return messages

    # --- Expectations ---

    async def expect_request(self, method: str | None = None) -> Json:
        """Receive a request, for *method* if given, and return it."""
        message = await self.receive()
        what = "a request" if method is None else f"a request {method!r}"
        named = _is_object(message) and "method" in message and method in (None, message["method"])
        return _checked(message, what, fits=named and "id" in message)

    async def expect_notification(self, method: str) -> Json:
        """Receive the notification *method*, and return it."""
        message = await self.receive()
        named = _is_object(message) and message.get("method") == method
        return _checked(message, f"a notification {method!r}", fits=named and "id" not in message)

    async def expect_response(self, id: Any) -> Json:
        """Receive the response to the request *id*, a result or an error, and return it. 1 and "1" are different."""
        message = await self.receive()
        responds = _is_object(message) and "method" not in message and "id" in message
        fits = responds and message["id"] == id and type(message["id"]) is type(id)
        return _checked(message, f"a response to {id!r}", fits=fits)

    async def expect_end(self) -> None:
        """Wait for the end of the other side's output; any message is an error."""
        message = await self.receive()
        if message is not None:
            raise AssertionError(_unexpected("the end of the connection", message))

    async def expect_silence(self, seconds: float = 1.0) -> None:
        """Check that nothing arrives for *seconds*. With the autojump clock this takes no time."""
        with trio.move_on_after(seconds):
            message = await self.receive()
            raise AssertionError(_unexpected(f"silence for {seconds:g} s", message))

    # --- Either role ---

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, envelope: Mapping[str, Any] | None = _DEFAULT
    ) -> Json:
        """Send a request, and return the next message, which must be its response.

        Args:
            envelope: the `_meta` of the params. By default it has the members that the revision of `greet` requires of
                a client, which are none in a legacy revision. None adds nothing.
        """
        id = await self.begin(method, params, envelope=envelope)
        return await self.expect_response(id)

    async def begin(
        self, method: str, params: Mapping[str, Any] | None = None, *, envelope: Mapping[str, Any] | None = _DEFAULT
    ) -> int:
        """Send a request as `request` does, and return its id without waiting for the response."""
        id = next(self._ids)
        meta = self._envelope if envelope is _DEFAULT else envelope
        if meta:
            params = {"_meta": meta, **(params or {})}
        await self.send({"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params}))
        return id

    async def answer(self, result: Mapping[str, Any], *, method: str | None = None) -> Json:
        """Receive a request, for *method* if given, and send its result; return the request."""
        request = await self.expect_request(method)
        await self.respond(request, result)
        return request

    async def refuse(self, code: int, data: Any = None, *, message: str = "no", method: str | None = None) -> Json:
        """Receive a request, for *method* if given, and answer with an error; return the request."""
        request = await self.expect_request(method)
        error: Json = {"code": code, "message": message} | ({} if data is None else {"data": data})
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        return request

    async def respond(self, request: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Send the result of a request that was received before."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def report(self, request: Mapping[str, Any], progress: Any, **members: Any) -> None:
        """Report progress of a request that was received before and requested it.

        Args:
            members: further members of the notification's params, such as `total` and `message`.
        """
        token = request.get("params", {}).get("_meta", {}).get("progressToken")
        if token is None:
            raise AssertionError(_unexpected("a request that asks for progress", request))
        await self.notify("notifications/progress", {"progressToken": token, "progress": progress, **members})

    # --- The role of a client ---

    @staticmethod
    def envelope(revision: str) -> Json:
        """Return what *revision* requires in the `_meta` of a client's requests; it is empty for a legacy revision."""
        return {REVISION_KEY: revision, CAPABILITIES_KEY: {}} if is_modern(revision) else {}

    async def greet(self, revision: str) -> None:
        """Make the handshake of a legacy revision; do nothing in a modern one, which has none.

        Raises:
            ValueError: there is no such revision.
        """
        if "initialize" in _methods(revision):
            params: Json = {"protocolVersion": revision, "capabilities": {}, "clientInfo": self.INFO}
            answer = await self.request("initialize", params, envelope=None)
            if answer.get("result", {}).get("protocolVersion") != revision:
                raise AssertionError(_unexpected(f"an agreement on {revision}", answer))
            await self.notify("notifications/initialized")
        self.revision, self._envelope = revision, self.envelope(revision)

    # --- The role of a server ---

    async def answer_discover(self, *versions: str) -> Json:
        """Answer the probe as a server of *versions*; return the request."""
        result: Json = {"resultType": "complete", "supportedVersions": versions, "capabilities": self.EVERYTHING}
        return await self.answer(result | {"ttlMs": 0, "cacheScope": "private"}, method="server/discover")

    async def answer_initialize(self, revision: str) -> Json:
        """Answer the handshake with *revision*, and receive the notification that completes it; return the request."""
        result: Json = {"protocolVersion": revision, "capabilities": self.EVERYTHING, "serverInfo": self.INFO}
        request = await self.answer(result, method="initialize")
        await self.expect_notification("notifications/initialized")
        return request

    async def welcome(self, revision: str) -> None:
        """Answer the handshake or the probe of a client that supports only *revision*.

        Raises:
            ValueError: there is no such revision.
        """
        if "initialize" in _methods(revision):
            await self.answer_initialize(revision)
        else:
            await self.answer_discover(revision)
        self.revision = revision


@asynccontextmanager
async def open_scripted_client(
    server: Answerer | Serving, revision: str = REVISIONS[-1]
) -> AsyncGenerator[ScriptedPeer]:
    """Serve *server* over a stream in memory, and yield a scripted client that has made the handshake of *revision*.

    When the block ends, the client's side of the connection is closed, and the block waits until the server has ended.
    """
    ours, theirs = trio.testing.memory_stream_pair()
    ended = trio.Event()

    async def serve() -> None:
        await serve_stream(server, theirs)
        ended.set()

    async with owned_nursery() as nursery:
        nursery.start_soon(serve)
        client = ScriptedPeer(ours)
        await client.greet(revision)
        yield client
        await ours.aclose()
        await ended.wait()


@asynccontextmanager
async def open_scripted_server(
    script: Script | None = None, **options: Unpack[ClientOptions]
) -> AsyncGenerator[tuple[Client, ScriptedPeer]]:
    """Connect a client to a scripted server; yield both when the client is connected and *script* has ended.

    After that, the block controls the server. It does so in another task if the client waits for the server::

        async with open_scripted_server(revision="2025-11-25") as (client, server), trio.open_nursery() as nursery:
            nursery.start_soon(server.refuse, -32603)
            with pytest.raises(ErrorResponse):
                await client.list_tools()

    Args:
        script: controls the server while the client connects. By default the server agrees on the revision in
            *options*, or on the newest one. An exception of the script leaves the block unchanged. The script must not
            wait for something that the block does: if it has not ended 60 s after the client has connected, the block
            raises an `AssertionError`.
        options: see `trio_mcp.ClientOptions`.
    """
    ours, theirs = trio.testing.memory_stream_pair()
    server, ended, failed = ScriptedPeer(theirs), trio.Event(), list[Exception]()

    async def run_script(scope: trio.CancelScope) -> None:
        try:
            await (server.welcome(options.get("revision") or REVISIONS[-1]) if script is None else script(server))
        except Exception as exc:  # noqa: BLE001 # raised again below, outside of the nursery
            failed.append(exc)
            scope.cancel(reason="the script failed")
        ended.set()

    async with owned_nursery() as nursery:
        nursery.start_soon(run_script, nursery.cancel_scope)
        async with open_stream_client(ours, **options) as client:
            with trio.move_on_after(_SCRIPT_SECONDS):
                await ended.wait()
            if not ended.is_set():
                raise AssertionError(
                    f"the client is connected, and {_SCRIPT_SECONDS:g} s later the script has not ended; "
                    "control the server in the block after the client has connected"
                )
            yield client, server
    if failed:
        raise failed[0]


def _methods(revision: str) -> Collection[str]:
    if revision not in REVISIONS:
        raise ValueError(f"revision={revision!r}: this package supports {', '.join(REVISIONS)}")
    return METHODS[revision]


def _is_object(message: object) -> bool:
    return isinstance(message, dict)


def _checked(message: Any, expected: str, *, fits: bool) -> Json:
    if not fits:
        raise AssertionError(_unexpected(expected, message))
    return cast("Json", message)


def _unexpected(expected: str, message: object) -> str:
    received = "the end of the connection" if message is None else json.dumps(message, indent=2)
    return f"expected {expected}; received {received}"
