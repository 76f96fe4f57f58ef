"""The one door through which everything of a client goes out over HTTP: what each request carries is decided here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from attrs import define, field

from ..abc import Tap
from ..wire import EVENT_STREAM_TYPE, JSON_TYPE
from ._http_engine import HttpEngine, HttpResponse

__all__ = ["HttpDoor"]

_TAKEN = f"{JSON_TYPE}, {EVENT_STREAM_TYPE}"


@define(eq=False)
class HttpDoor:
    """Requests to one server.

    Args:
        engine: carries them.
        url: where the server is.
        tap: sees each message, or None.
        fields: header fields of the caller's, which go with each request.
    """

    engine: HttpEngine
    url: str
    _tap: Tap | None
    _fields: Mapping[str, str] = field(repr=False)
    is_reached: bool = field(default=False, init=False)
    """Whether the server has answered anything yet."""

    @asynccontextmanager
    async def post(
        self, url: str, line: bytes, fields: Mapping[str, str], on_sent: Callable[[], None] | None = None
    ) -> AsyncGenerator[HttpResponse]:
        """Post one message; see `HttpEngine.request` for the rest.

        Args:
            line: the message, with its newline.
            fields: what goes with this one alone.
        """
        message = line.removesuffix(b"\n")
        if self._tap is not None:  # before it leaves: afterwards, the answer might be told first
            self._tap("sent", message)
        async with self._request(
            "POST", url, {"content-type": JSON_TYPE, "accept": _TAKEN, **fields}, message, on_sent
        ) as response:
            yield response

    @asynccontextmanager
    async def get(self, fields: Mapping[str, str]) -> AsyncGenerator[HttpResponse]:
        """Ask for an event stream."""
        async with self._request("GET", self.url, {"accept": EVENT_STREAM_TYPE, **fields}) as response:
            yield response

    @asynccontextmanager
    async def delete(self, fields: Mapping[str, str]) -> AsyncGenerator[HttpResponse]:
        """Say that what *fields* name is not needed any more."""
        async with self._request("DELETE", self.url, fields) as response:
            yield response

    def received(self, message: bytes) -> None:
        """A message has come in."""
        if self._tap is not None:
            self._tap("received", message)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes = b"",
        on_sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpResponse]:
        # What proves who asks belongs here, too: every request passes, and its response is known here first.
        async with self.engine.request(method, url, {**self._fields, **fields}, content, on_sent=on_sent) as response:
            self.is_reached = True
            yield response
