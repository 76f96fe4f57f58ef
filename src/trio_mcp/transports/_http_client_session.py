"""One session of a server of the older revisions: what names it, and what is under way in it.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from .._errors import RemoteProtocolError
from ..wire import SESSION_FIELD, VERSION_FIELD
from ._http_engine import HttpResponse

if TYPE_CHECKING:
    from ._http_client_session_carrier import SessionCarrier
    from ._http_client_session_streams import NewsStream

__all__ = ["Session"]

_ID = re.compile(r"[!-~]{1,1024}")


@define(eq=False)
class Session:
    """One session, from its `initialize` on; also what stands for it where the server gives it no id."""

    url: str
    """Where its messages are posted."""
    is_older: bool = False
    """Whether it is one of HTTP+SSE: answers come by its one stream, and not in response to what is posted."""
    id: str | None = field(default=None, init=False, repr=False)
    revision: str | None = field(default=None, init=False)
    """What was agreed on; None before."""
    is_lost: bool = field(default=False, init=False)
    has_streams: bool = field(default=False, init=False)
    """Whether the server has answered a GET with a stream."""
    news: NewsStream | None = field(default=None, init=False)
    carriers: set[SessionCarrier] = field(factory=set["SessionCarrier"], init=False)
    """The requests under way in it."""
    _streams: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)

    @property
    def fields(self) -> dict[str, str]:
        """The header fields that name it."""
        fields = {} if self.id is None else {SESSION_FIELD: self.id}
        return fields if self.revision is None else {**fields, VERSION_FIELD: self.revision}

    def begun_by(self, response: HttpResponse) -> None:
        """Take the id that the server has given it; raises `RemoteProtocolError` for one that cannot be sent back."""
        id = response.headers.get(SESSION_FIELD)
        if id is not None and not _ID.fullmatch(id):
            raise RemoteProtocolError(f"the server gives its session an id that is none: {id[:100]!r}")
        self.id = id

    @contextmanager
    def streams(self) -> Generator[None]:
        """Cancel the block when the session ends."""
        with trio.CancelScope() as scope:
            self._streams.add(scope)
            try:
                yield
            finally:
                self._streams.discard(scope)

    def lose(self) -> None:
        """It is over: end its streams, and what is under way in it. Synchronous."""
        self.is_lost = True
        for scope in self._streams:
            scope.cancel(reason="the session is over")
        for carrier in list(self.carriers):
            carrier.lose_session()
