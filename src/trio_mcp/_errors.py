"""Defines the exceptions of trio-mcp, as one tree. Every layer may import it; it imports none.

::

    TrioMcpError
    ├── McpError                raised by a handler: answers the request with this JSON-RPC error
    │   └── ResourceNotFound    raised by the handler of a resource: the resource does not exist
    ├── ToolError               raised by a tool: answers with `isError` and a message for the model
    ├── ToolFailed              a tool answered with `isError`, and the caller asked for an exception
    ├── ErrorResponse           the peer answered a request with an error
    ├── RequestTimedOut         a request exceeded the time limits of the client (not the caller's own deadline)
    ├── ProtocolError
    │   ├── LocalProtocolError  this program violated the protocol; nothing was sent
    │   └── RemoteProtocolError the peer violated the protocol
    ├── StructureError          a JSON value does not fit its type; lists every fault with its path
    │   └── UnexpectedResult    the result of a tool does not fit the type that the caller asked for
    ├── ResponseLost            the HTTP exchange of one request broke; other requests continue
    ├── HttpStatusError         the server answered a request with an HTTP status instead of a message
    ├── AuthorizationFailed     a server requires a token, and the client could not get one
    ├── ConsentRefused          the consent hook of the client refused; nothing was sent
    ├── SkillChanged            a file of a skill is not what the entry of the skill says
    ├── MissingCapability       the peer did not declare a capability that the request needs
    ├── AskExpired              a question was not answered in time, or the server stops
    ├── TooManyParked           the limit of parked handlers is reached
    ├── TooManyTasks            the limit of background tasks, or of the tasks of a caller, is reached
    ├── SharedUnavailable       what several processes share cannot be reached
    ├── TaskCancelled           the task that a call has become was cancelled on the server
    ├── UnsupportedRevision     the two sides have no protocol revision in common
    └── ConnectionLost
        ├── ConnectionClosed    this side closed the connection
        └── ConnectionBroken    the peer or the network closed the connection
            └── ServerExited    the process of a child server has ended

The tree answers two questions. Which side is at fault: the class says whether this program, the peer, or the connection
failed. Is the connection still usable: only `ConnectionLost` means that it is gone; all others end a single request.
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
    "SharedUnavailable",
    "SkillChanged",
    "StructureError",
    "TaskCancelled",
    "TooManyParked",
    "TooManyTasks",
    "ToolError",
    "ToolFailed",
    "TrioMcpError",
    "UnexpectedResult",
    "UnsupportedRevision",
]


class TrioMcpError(Exception):
    """The base class: `except TrioMcpError` catches every exception that this package defines."""


class McpError(TrioMcpError):
    """An error that a handler raises to answer its request with a JSON-RPC error.

    Args:
        code: the number of the error. Use the standard numbers (-32600 to -32603, -32700) with their standard meaning,
            and numbers outside -32768..-32000 for your own errors.
        message: one sentence for the caller. It is sent unchanged: do not put secrets in it.
        data: any JSON value with details; omitted if None.

    Raises:
        TypeError: *code* is not an integer, or *message* is not a string.

    Specification: https://www.jsonrpc.org/specification#error_object
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if type(code) is not int or not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance] # it is sent
            raise TypeError(f"McpError({code!r}, {message!r}): the code must be an integer, and the message a string")
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ResourceNotFound(McpError):
    """An error that the handler of a resource raises if there is no resource at the URI.

    The client receives it with the error code of its revision (-32602 from 2026-07-28 on, -32002 before), and the URI.

    Args:
        message: one sentence for the caller.
        data: any JSON value with details, instead of ``{"uri": ...}``.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
    """

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(-32002, message, data)


class ToolError(TrioMcpError):
    """An error that a tool raises to answer with `isError` and this message, which the calling model reads.

    Raise it for a fault that the model can mend, such as a wrong argument. The message is sent unchanged, even with
    ``Server(mask_errors=True)``: do not put secrets in it.
    """


class ToolFailed(TrioMcpError):
    """A tool answered with `isError`, and the caller had passed `raise_on_error=True` or `returns=`.

    The tool or its arguments are at fault; the client and the connection are not. `tool` is the name of the tool; None
    if it is unknown, as that of a task of `Client.task`. `text` is the text of the result, which comes from the server:
    do not trust it. `result` is the complete `types.CallToolResult`.
    """

    def __init__(self, tool: str | None, text: str, result: Any) -> None:
        super().__init__(tool, text, result)
        self.tool = tool
        self.text = text
        self.result = result

    def __str__(self) -> str:
        tool = "the tool" if self.tool is None else f"tool {self.tool!r}"
        return f"{tool} failed: {self.text}"


class ErrorResponse(TrioMcpError):
    """The peer answered a request with an error. The connection and other requests are not affected.

    `code` (int), `message` (str) and `data` (any JSON value, None if absent) come from the peer: do not trust them.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class RequestTimedOut(TrioMcpError):
    """A request exceeded the time limits of the client: the peer was silent too long, or took too long in total.

    The peer was asked to cancel the request. A deadline of the caller (`trio.fail_after`) raises `trio.TooSlowError`
    instead.
    """


class ProtocolError(TrioMcpError):
    """A message violates the protocol. Always raised as one of the two subclasses."""


class LocalProtocolError(ProtocolError):
    """This program tried to violate the protocol; nothing was sent. The calling code is at fault and must be fixed."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol. Only one request fails, unless the message says otherwise."""


class StructureError(TrioMcpError):
    """A JSON value does not fit its type. The code that made the value is at fault.

    Functions that read JSON raise it, such as `types.structure`. For a message of the peer, a client raises
    `RemoteProtocolError` instead. `type_name` is the name of the type. `faults` has one line for each fault, with its
    path on the wire, as in ``$.messages[0].content.text: expected string, got integer``.
    """

    def __init__(self, type_name: str, faults: Sequence[str]) -> None:
        super().__init__(type_name, tuple(faults))
        self.type_name = type_name
        self.faults: tuple[str, ...] = tuple(faults)

    def __str__(self) -> str:
        return f"not a {self.type_name}: {'; '.join(self.faults)}"


class UnexpectedResult(StructureError):
    """The result of a tool does not fit the type that the caller asked for: `call_tool(..., returns=...)`.

    The server has broken its word, or the caller asks for the wrong type. `tool` is the name of the tool, `type_name`
    that of the type, `result` the complete `types.CallToolResult`. `faults` has one line for each fault,
    with its path in the structured content, as in ``$.result[0].score: expected number, got string``. The tool has run.
    """

    def __init__(self, tool: str, type_name: str, faults: Sequence[str], result: Any) -> None:
        super().__init__(type_name, faults)
        self.args = (tool, type_name, self.faults, result)
        self.tool = tool
        self.result = result

    def __str__(self) -> str:
        return f"the result of tool {self.tool!r} is not a {self.type_name}: {'; '.join(self.faults)}"


class ResponseLost(TrioMcpError):
    """The HTTP exchange of one request broke, so its response is lost. Other requests are not affected.

    The network, a proxy or the server is at fault; *message* says what happened. `sent` is False if the request
    certainly did not reach the server (the connection failed). If it is True, the request may have taken effect.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class HttpStatusError(TrioMcpError):
    """The server, or a proxy in front of it, answered a request with an HTTP status and without an MCP message.

    `status` is the HTTP status; `text` is the beginning of the response body, which is not trusted; `hint` says what
    may be wrong with the URL, and is empty if that is unknown. The client remains usable.
    """

    def __init__(self, status: int, text: str = "", *, hint: str = "") -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text
        self.hint = hint

    def __str__(self) -> str:
        said = f"HTTP status {self.status}" + (f": {self.text}" if self.text else "")
        return f"{said} ({self.hint})" if self.hint else said


class AuthorizationFailed(TrioMcpError):
    """A server requires authentication, and the client could not get a token. The next request tries again.

    Its message says which step failed and why, and so whether the user, the authorization server or the options of the
    client are at fault. `error` is the error code of the authorization server, such as
    ``"access_denied"`` or ``"invalid_client"``; None if it sent none. `message` and `error` contain no secret.
    """

    def __init__(self, message: str, *, error: str | None = None) -> None:
        super().__init__(message)
        self.error = error


class ConsentRefused(TrioMcpError):
    """An error that the `consent` hook of a client raises to refuse an action; the message says why.

    A refused tool call raises it to the caller, and nothing is sent. A refused elicitation counts as declined. A
    refused sampling request is answered with the error -1; if it arrived inside a result, the caller of that request
    gets this error.
    """


class SkillChanged(TrioMcpError):
    """A file of a skill is not what the entry of the skill says: its size, its digest or its frontmatter differs.

    Nothing of the file may be used, and the `skills.ClientSkill` refuses all further reads. The server may have a new
    version of the skill: request its entry again, and approve it again. `uri` is the URI of the file, `fault` says what
    is wrong.
    """

    def __init__(self, uri: str, fault: str) -> None:
        super().__init__(uri, fault)
        self.uri = uri
        self.fault = fault

    def __str__(self) -> str:
        return f"{self.uri}: {self.fault}"


class MissingCapability(TrioMcpError):
    """The request needs a capability that the peer did not declare. Nothing was sent.

    This program may check the capabilities before: `Client.server_capabilities`, `Context.client_capabilities`. If a
    handler lets it pass, the client receives it as an error. `message` names the capability. `required` is the JSON of
    the capabilities that the peer would have to declare, such as ``{"elicitation": {"form": {}}}``.
    """

    def __init__(self, message: str, required: dict[str, Any]) -> None:
        super().__init__(message, required)
        self.message = message
        self.required = required

    def __str__(self) -> str:
        return self.message


class AskExpired(TrioMcpError):
    """A question was not answered within `Limits.ask_seconds`, or gave way to another client's, or the server stops.

    Raised to the handler that asked. After it, the handler has five seconds for asynchronous clean-up.
    """


class TooManyParked(TrioMcpError):
    """A question was refused: `Limits.max_parked` handlers wait for answers, and no client has more than this one.

    Raised to the handler that asked. The client that leaves so many questions open is at fault, or the limit is too low
    for the service.
    """


class TooManyTasks(TrioMcpError):
    """A task was refused, because there are too many; the others are not affected.

    For `Server.background`, `Limits.max_background` tasks are running; for a call that was to become a task, its caller
    has `TaskSettings.max_tasks`.
    """


class SharedUnavailable(TrioMcpError):
    """The backend by which processes share state (`abc.Shared`) cannot be reached, or refuses this program.

    The message names the backend, without its password, and the cause. Only what needs the backend fails, until the
    backend can be reached again.
    """


class TaskCancelled(TrioMcpError):
    """The task that a tool call has become was cancelled on the server: by a client, or by the server itself.

    The message is what the server says about it.
    """


class UnsupportedRevision(TrioMcpError):
    """The two sides have no protocol revision in common.

    `requested` is the revision that this side requested; `supported` are those that the peer offers.
    """

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(requested, tuple(supported))
        self.requested = requested
        self.supported: tuple[str, ...] = tuple(supported)

    def __str__(self) -> str:
        offered = ", ".join(self.supported) or "no known revision"
        return f"no common protocol revision: this side asked for {self.requested}, the peer offers {offered}"


class ConnectionLost(TrioMcpError):
    """The connection is closed, and the request has failed. Always raised as one of the subclasses."""


class ConnectionClosed(ConnectionLost):
    """This side closed the connection, before or during the call: the block of the client was left, or it was closed.

    The program is at fault if it did not intend this.
    """


class ConnectionBroken(ConnectionLost):
    """The peer or the network closed the connection. The request may or may not have taken effect."""


class ServerExited(ConnectionBroken):
    """The child process of the server has ended.

    `status` is its exit status, or the negative number of the signal that killed it; `stderr_tail` holds the last lines
    of its standard error (empty if standard error was not captured). `has_read` is False if the process certainly read
    nothing of what it was sent. `hint` says what may be wrong with the program, and is empty if that is unknown.
    """

    def __init__(self, status: int, stderr_tail: Sequence[str] = (), *, has_read: bool = True, hint: str = "") -> None:
        super().__init__(status, tuple(stderr_tail))
        self.status = status
        self.stderr_tail: tuple[str, ...] = tuple(stderr_tail)
        self.has_read = has_read
        self.hint = hint

    def __str__(self) -> str:
        how = f"was killed by signal {-self.status}" if self.status < 0 else f"exited with status {self.status}"
        hint = f" ({self.hint})" if self.hint else ""
        tail = "".join(f"\n    {line}" for line in self.stderr_tail)
        return f"the server process {how}{hint}" + (f"; the last lines of its standard error:{tail}" if tail else "")
