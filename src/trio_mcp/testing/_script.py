"""A scripted peer: one end of a connection under the control of a test, which may send anything."""

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
"""A function that acts as the server while the client connects."""

_INFO: Json = {"name": "scripted", "version": "0"}
_EVERYTHING: Json = {"completions": {}, "logging": {}, "prompts": {}, "resources": {"subscribe": True}, "tools": {}}
_SCRIPT_SECONDS = 60.0
"""The seconds that a script may take after the client is connected; a script that waits for the block never ends."""
_DEFAULT: Json = {}
"""A marker for the envelope that the revision requires."""


@define(eq=False)
class ScriptedPeer:
    """A peer that sends and receives plain JSON values on one end of a stream, and checks only on request.

    It can make the handshake of a client (`greet`) and of a server (`welcome`), and it numbers its requests. An
    unexpected message raises `AssertionError`, which names the expectation and shows the message. Only one task at a
    time may receive.

    Args:
        stream: the stream, which carries newline-delimited JSON. The caller closes it.
    """

    INFO = _INFO
    """The name and version that a scripted peer sends."""
    EVERYTHING = _EVERYTHING
    """The capabilities of a scripted server: all that a legacy or modern server can have."""

    stream: trio.abc.Stream
    revision: str | None = field(default=None, init=False)
    """The revision that `greet` or `welcome` agreed on; None before."""
    _envelope: Json = field(factory=dict[str, Any], init=False)
    _unread: bytearray = field(factory=bytearray, init=False)
    _ids: count[int] = field(factory=lambda: count(1000), init=False)

    async def send(self, *messages: Any) -> None:
        """Send each message as one line. Send `bytes` unchanged, without adding a newline."""
        for message in messages:
            await self.stream.send_all(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    async def send_eof(self) -> None:
        """End the output, and keep receiving. The stream must be a `trio.abc.HalfCloseableStream`."""
        assert isinstance(self.stream, trio.abc.HalfCloseableStream)
        await self.stream.send_eof()

    async def receive(self) -> Any:
        """Return the next message of any kind; None at the end of the stream.

        Raises:
            AssertionError: the next line is not JSON, or the stream ends in the middle of a line.
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
        """Return all messages up to the end of the stream."""
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
        """Receive the end of the stream."""
        message = await self.receive()
        if message is not None:
            raise AssertionError(_unexpected("the end of the connection", message))

    async def expect_silence(self, seconds: float = 1.0) -> None:
        """Assert that no message arrives for *seconds*. With the autojump clock, this takes no real time."""
        with trio.move_on_after(seconds):
            message = await self.receive()
            raise AssertionError(_unexpected(f"silence for {seconds:g} s", message))

    # --- Either role ---

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification.

        Args:
            method: its method.
            params: its params; None to send none.
        """
        await self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, envelope: Mapping[str, Any] | None = _DEFAULT
    ) -> Json:
        """Send a request, and return the next message, which must be its response.

        Args:
            method: the method of the request.
            params: its params; None to send none, unless there is an envelope.
            envelope: the `_meta` of the params. By default, it is the envelope that the revision of `greet` requires,
                which is empty in legacy revisions. None adds no `_meta`.
        """
        id = await self.begin(method, params, envelope=envelope)
        return await self.expect_response(id)

    async def begin(
        self, method: str, params: Mapping[str, Any] | None = None, *, envelope: Mapping[str, Any] | None = _DEFAULT
    ) -> int:
        """Send a request as `request` does, and return its id without waiting for the response; see `request`."""
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
        """Receive a request, and send an error response; return the request.

        Args:
            code: the number of the JSON-RPC error.
            data: any JSON value with details; omitted if None.
            message: the message of the error.
            method: the method that the request must have; None for any.
        """
        request = await self.expect_request(method)
        error: Json = {"code": code, "message": message} | ({} if data is None else {"data": data})
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        return request

    async def respond(self, request: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Send the result of a request that was received earlier."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def report(self, request: Mapping[str, Any], progress: Any, **members: Any) -> None:
        """Send progress of a request that was received earlier and that has a progress token.

        Args:
            members: further members of the params of the notification, such as `total` and `message`.
        """
        token = request.get("params", {}).get("_meta", {}).get("progressToken")
        if token is None:
            raise AssertionError(_unexpected("a request that asks for progress", request))
        await self.notify("notifications/progress", {"progressToken": token, "progress": progress, **members})

    # --- The role of a client ---

    @staticmethod
    def envelope(revision: str) -> Json:
        """Return the `_meta` that *revision* requires in each request of a client; empty in legacy revisions."""
        return {REVISION_KEY: revision, CAPABILITIES_KEY: {}} if is_modern(revision) else {}

    async def greet(self, revision: str) -> None:
        """Make the handshake of a legacy revision as a client. In a modern revision, send nothing.

        Raises:
            ValueError: *revision* is unknown.
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
        """Answer `server/discover` as a server that supports *versions*; return the request."""
        result: Json = {"resultType": "complete", "supportedVersions": versions, "capabilities": self.EVERYTHING}
        return await self.answer(result | {"ttlMs": 0, "cacheScope": "private"}, method="server/discover")

    async def answer_initialize(self, revision: str, capabilities: Json = _EVERYTHING) -> Json:
        """Answer `initialize`, and receive the `initialized` notification; return the request.

        Args:
            revision: the protocol revision to agree on.
            capabilities: the JSON of the capabilities to declare; all by default.
        """
        result: Json = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": self.INFO}
        request = await self.answer(result, method="initialize")
        await self.expect_notification("notifications/initialized")
        return request

    async def welcome(self, revision: str) -> None:
        """Agree, as a server, on a revision that the client has pinned. Raises `ValueError` as `greet` does."""
        if "initialize" in _methods(revision):
            await self.answer_initialize(revision)
        else:
            await self.answer_discover(revision)
        self.revision = revision


@asynccontextmanager
async def open_scripted_client(
    server: Answerer | Serving, revision: str = REVISIONS[-1]
) -> AsyncGenerator[ScriptedPeer]:
    """Serve *server* over bytes in memory, and yield a scripted client that has connected in *revision*.

    At the end of the block, the client closes its end of the connection, and this function waits for the server.
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

    After that, the block controls the server, in separate tasks if the client waits at the same time::

        async with open_scripted_server(revision="2025-11-25") as (client, server), trio.open_nursery() as nursery:
            nursery.start_soon(server.refuse, -32603)
            with pytest.raises(ErrorResponse):
                await client.list_tools()

    Args:
        script: acts as the server while the client connects. By default, the server accepts the revision in *options*,
            or the newest one. An exception of the script is raised unchanged. The script must not wait for the
            block: if it has not ended 60 s after the client has connected, `AssertionError` is raised.
        options: see `trio_mcp.ClientOptions`.
    """
    ours, theirs = trio.testing.memory_stream_pair()
    server, ended, failed = ScriptedPeer(theirs), trio.Event(), list[Exception]()

    async def run_script(scope: trio.CancelScope) -> None:
        try:
            await (server.welcome(options.get("revision") or REVISIONS[-1]) if script is None else script(server))
        except Exception as exc:  # noqa: BLE001 # raised again below, without a group
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
                    "move the actions after the connection into the block"
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
