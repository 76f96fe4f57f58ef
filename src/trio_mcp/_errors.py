"""Every exception trio-mcp raises, as one tree; importable by every layer, importing none.

::

    TrioMcpError
    ├── McpError                what a handler raises to answer with a protocol error of its choice
    │   └── ResourceNotFound    what a resource's handler raises where there is nothing
    ├── ToolError               what a tool raises to answer `isError` with a text for the model
    ├── ToolFailed              a tool answered `isError`, and the caller asked for an exception
    ├── ErrorResponse           the peer answered a request with an error
    ├── RequestTimedOut         the opener's time policy ended a request (not the caller's own deadline)
    ├── ProtocolError
    │   ├── LocalProtocolError  this program asked for something the protocol forbids
    │   └── RemoteProtocolError the peer did
    ├── StructureError          a JSON value does not fit its type; every fault by its path on the wire
    ├── ResponseLost            the HTTP exchange of one request broke; others go on
    ├── HttpStatusError         an HTTP status came in place of an answer
    ├── AuthorizationFailed     a server wants to know who asks, and no token could be had for it
    ├── ConsentRefused          the client's consent hook said no; nothing was sent
    ├── MissingCapability       the other side never declared what the request needs
    ├── AskExpired              nobody answered a question of ours in time, or the server stops
    ├── TooManyParked           a server keeps as many handlers waiting for answers as it may
    ├── TooManyTasks            a server runs as many background tasks as it may
    ├── UnsupportedRevision     no protocol revision is spoken by both sides
    └── ConnectionLost
        ├── ConnectionClosed    this side ended the connection
        └── ConnectionBroken    the other side or the network did
            └── ServerExited    a child server's process ended

Two questions sort them: *who* is at fault (local, remote, closed, broken), and *what survives*: only
`ConnectionLost` says that the connection is gone; every other one ends a single request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "AskExpired",
    "AuthorizationFailed",
    "ConnectionBroken",
    "ConnectionClosed",
    "ConnectionLost",
    "ConsentRefused",
    "ErrorResponse",
    "HttpStatusError",
    "LocalProtocolError",
    "McpError",
    "MissingCapability",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestTimedOut",
    "ResourceNotFound",
    "ResponseLost",
    "ServerExited",
    "StructureError",
    "TooManyParked",
    "TooManyTasks",
    "ToolError",
    "ToolFailed",
    "TrioMcpError",
    "UnsupportedRevision",
]


class TrioMcpError(Exception):
    """The root of the tree: `except TrioMcpError` catches whatever this package raises on purpose."""


class McpError(TrioMcpError):
    """Raise it in a handler to answer the request with a JSON-RPC error of your choice.

    Args:
        code: the error's number. Use the standard ones (-32600 to -32603, -32700) for their standard
            meaning, and numbers outside -32768..-32000 for your own.
        message: one sentence for whoever asked. It crosses the wire as it is: put no secret in it.
        data: any JSON value with details; left out when None.

    Raises:
        TypeError: *code* is no integer, or *message* no text.

    Specification: https://www.jsonrpc.org/specification#error_object
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if type(code) is not int or not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance] # it is sent
            raise TypeError(f"McpError({code!r}, {message!r}): the code is an integer, the message a text")
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ResourceNotFound(McpError):
    """Raise it in the handler of a resource: there is nothing at this URI.

    Each client gets it with the code of its revision (-32602 from 2026-07-28 on, -32002 before), and the URI.

    Args:
        message: one sentence for whoever asked.
        data: any JSON value with details, in place of ``{"uri": ...}``.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
    """

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(-32002, message, data)


class ToolError(TrioMcpError):
    """Raise it in a tool to answer with `isError` and this text, which the calling model reads."""


class ToolFailed(TrioMcpError):
    """A called tool answered with `isError`, and `raise_on_error=True` was asked for.

    `result` is the whole `types.CallToolResult`.
    """

    def __init__(self, tool: str, text: str, result: Any) -> None:
        super().__init__(tool, text, result)
        self.tool = tool
        self.text = text
        self.result = result

    def __str__(self) -> str:
        return f"tool {self.tool!r} failed: {self.text}"


class ErrorResponse(TrioMcpError):
    """The peer answered a request with an error. The connection is fine, and so are other requests.

    `code` (int), `message` (str) and `data` (any JSON value, None when absent) are the peer's own:
    treat them as untrusted text.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class RequestTimedOut(TrioMcpError):
    """A request outlasted the opener's time policy: the peer was silent too long, or took too long in all.

    The peer has been told to stop. A deadline of your own (`trio.fail_after`) raises
    `trio.TooSlowError` instead.
    """


class ProtocolError(TrioMcpError):
    """Something was said that the protocol forbids. Raised as one of its two subclasses."""


class LocalProtocolError(ProtocolError):
    """This program asked for what the protocol forbids; nothing was sent. Fix the calling code."""


class RemoteProtocolError(ProtocolError):
    """The peer said what the protocol forbids. One request fails with it unless its text says more."""


class StructureError(TrioMcpError):
    """A JSON value does not fit the type it should have.

    `faults` names every one of them by its path on the wire, as in
    ``$.messages[0].content.text: expected string, got integer``.
    """

    def __init__(self, type_name: str, faults: Sequence[str]) -> None:
        super().__init__(type_name, tuple(faults))
        self.type_name = type_name
        self.faults: tuple[str, ...] = tuple(faults)

    def __str__(self) -> str:
        return f"not a {self.type_name}: {'; '.join(self.faults)}"


class ResponseLost(TrioMcpError):
    """The answer to one request will not come, because the HTTP exchange that carried it broke. Others go on.

    `sent` is False where surely nothing has reached the server (it could not be connected to); where it is True the
    request may have taken effect.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class HttpStatusError(TrioMcpError):
    """The server, or a proxy before it, answered a request with an HTTP status that carries no MCP message.

    `status` is its number, `text` the beginning of what came with it: untrusted, and for people. The client goes on.
    """

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return f"HTTP status {self.status}" + (f": {self.text}" if self.text else "")


class AuthorizationFailed(TrioMcpError):
    """A server wants to know who asks, and no token could be had for it. The client goes on; its next call tries anew.

    The text says which step failed and why. `error` is the code with which an authorization server, or the user there,
    said no, such as ``"access_denied"`` or ``"invalid_client"``; None where it was none of these.
    No secret is in it.
    """

    def __init__(self, message: str, *, error: str | None = None) -> None:
        super().__init__(message)
        self.error = error


class ConsentRefused(TrioMcpError):
    """Raise it in a client's `consent` hook to refuse what is about to happen; the text says why.

    A tool call raises it at its caller, and nothing is sent. A question to the user counts as declined. A question to
    the model is answered with the error -1, or, where it came inside a result, raises this at the caller of that
    request.
    """


class MissingCapability(TrioMcpError):
    """The request needs something that the other side did not declare. Nothing was sent.

    `required` is the JSON shape of the capabilities it would have to declare, such as
    ``{"elicitation": {"form": {}}}``.
    """

    def __init__(self, message: str, required: dict[str, Any]) -> None:
        super().__init__(message, required)
        self.message = message
        self.required = required

    def __str__(self) -> str:
        return self.message


class AskExpired(TrioMcpError):
    """Nobody answered a question within `Limits.ask_seconds`, or the server stops.

    Raised where the handler asked. It then has five seconds for clean-up that awaits.
    """


class TooManyParked(TrioMcpError):
    """A question cannot be asked: `Limits.max_parked` handlers wait for answers already. None of them is hurt."""


class TooManyTasks(TrioMcpError):
    """A background task was not started, because `Limits.max_background` of them run already. Others are not hurt."""


class UnsupportedRevision(TrioMcpError):
    """There is no protocol revision that both sides speak.

    `requested` is what this side asked for, `supported` what the other side offers.
    """

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(requested, tuple(supported))
        self.requested = requested
        self.supported: tuple[str, ...] = tuple(supported)

    def __str__(self) -> str:
        offered = ", ".join(self.supported) or "nothing this side knows"
        return f"no common protocol revision: this side asked for {self.requested}, the other side offers {offered}"


class ConnectionLost(TrioMcpError):
    """The connection is gone, and this request with it. Raised as one of its subclasses."""


class ConnectionClosed(ConnectionLost):
    """This side closed the connection, before the call or while it waited."""


class ConnectionBroken(ConnectionLost):
    """The other side, or the network, ended the connection. Whether the request took effect is unknown."""


class ServerExited(ConnectionBroken):
    """The child process that was the server has ended.

    `status` is its exit status, negative for the number of the signal that killed it; `stderr_tail` holds
    the last lines it wrote to standard error (empty where standard error was not captured).
    """

    def __init__(self, status: int, stderr_tail: Sequence[str] = ()) -> None:
        super().__init__(status, tuple(stderr_tail))
        self.status = status
        self.stderr_tail: tuple[str, ...] = tuple(stderr_tail)

    def __str__(self) -> str:
        how = f"was killed by signal {-self.status}" if self.status < 0 else f"exited with status {self.status}"
        tail = "".join(f"\n    {line}" for line in self.stderr_tail)
        return f"the server process {how}" + (f"; its last words on standard error:{tail}" if tail else "")
