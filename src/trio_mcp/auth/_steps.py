"""What a flow of authorization asks for, as data: it does no I/O of its own, so that any driver can run it.

A flow is a generator. It yields a step and is sent its outcome, or has the error of the step thrown into it; what it
returns is what comes of it. `drive` runs flows on Trio.

================ =============================================== ====================================
step             outcome                                         error
================ =============================================== ====================================
`HttpCall`       `HttpReply`                                     `CallFailed`, `Unreadable`
`PickRedirect`   the redirect URI, a text                        `AuthorizationFailed`
`Visit`          the URL that the browser was led to, a text     `AuthorizationFailed`
`Load`           the value, or None                              what the storage raises
`Swap`           whether it was swapped                          what the storage raises
`Now`            the time, a float as `time.time` counts         none
`Pause`          None                                            none
`Await`          what the function returns                       what it raises
================ =============================================== ====================================
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlencode

from attrs import field, frozen

__all__ = [
    "Await",
    "CallFailed",
    "Flow",
    "HttpCall",
    "HttpReply",
    "Load",
    "Now",
    "Pause",
    "PickRedirect",
    "Step",
    "Swap",
    "Unreadable",
    "Visit",
    "call",
    "get_json_from",
    "now",
    "post_form",
]

T = TypeVar("T")


class CallFailed(Exception):
    """A request beside the protocol could not be made, or its response could not be read. The text says why."""


class Unreadable(CallFailed):
    """There is nothing that could be read, now or later: too much, or a redirect to where none is followed."""


@frozen(kw_only=True)
class HttpCall:
    """One HTTP request, whose response is read as a whole."""

    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    """By lower-case name."""
    body: bytes = field(default=b"", repr=False)
    named_by: Literal["user", "server"]
    """Who has chosen the host: a server may not lead a client into networks that it cannot reach itself."""


@frozen(kw_only=True)
class HttpReply:
    """The response to an `HttpCall`."""

    status: int
    headers: Mapping[str, str] = field(factory=dict[str, str])
    """By lower-case name; the values of repeated ones are joined with ``", "``."""
    body: bytes = field(default=b"", repr=False)


@frozen
class PickRedirect:
    """Have a place for the browser to come back to."""

    preferred: str | None
    """The redirect URI that an authorization server knows already; None where there is none yet."""


@frozen
class Visit:
    """Have a person visit an authorization server, and wait until the browser comes back."""

    url: str = field(repr=False)
    redirect_uri: str


@frozen
class Load:
    """Read a value of the storage."""

    key: str


@frozen
class Swap:
    """Change a value of the storage, if it is still what it was."""

    key: str
    old: str | None = field(repr=False)
    new: str | None = field(repr=False)


@frozen
class Now:
    """Look at the clock."""


@frozen
class Pause:
    """Wait a little, because somebody else is at work."""

    seconds: float


@frozen
class Await:
    """Call an asynchronous function of the application's."""

    function: Callable[[], Awaitable[Any]]


Step: TypeAlias = "HttpCall | PickRedirect | Visit | Load | Swap | Now | Pause | Await"
Flow: TypeAlias = Generator[Step, Any, T]


def call(request: HttpCall) -> Flow[HttpReply]:
    """Make a request; raises `CallFailed`."""
    reply: HttpReply = yield request
    return reply


def get_json_from(url: str, *, named_by: Literal["user", "server"], headers: Mapping[str, str]) -> Flow[HttpReply]:
    """Ask for a JSON document; raises `CallFailed`."""
    fields = {"accept": "application/json", **headers}
    return (yield from call(HttpCall(method="GET", url=url, headers=fields, named_by=named_by)))


def post_form(
    url: str, form: Mapping[str, str], headers: Mapping[str, str], *, named_by: Literal["user", "server"] = "server"
) -> Flow[HttpReply]:
    """Post a form, whose answer is JSON, to an address that metadata, or the user, has named; raises `CallFailed`."""
    fields = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", **headers}
    body = urlencode(form).encode()
    return (yield from call(HttpCall(method="POST", url=url, headers=fields, body=body, named_by=named_by)))


def now() -> Flow[float]:
    """Return the time, as `time.time` counts."""
    time: float = yield Now()
    return time
