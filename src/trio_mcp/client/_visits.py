"""Pages that a server of 2025-11-25 has asked the user to visit: it tells when the user is done with one.

Rules of this file:

1. Only pages that this connection was told of can be done with, once each; whatever else is told is ignored.
2. What is remembered is bounded: of more pages than that, the oldest are forgotten.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import Any

import trio
from attrs import define, field

from .. import types
from .._errors import ErrorResponse, StructureError
from ..wire import JsonObject
from ._callbacks import OnElicitComplete

__all__ = ["VISIT_DONE", "Visits"]

VISIT_DONE = "notifications/elicitation/complete"

MAX_VISITS = 1024
"""Pages whose end is waited for."""

_REVISION = "2025-11-25"
_VISITS_REQUIRED = -32042

_log = logging.getLogger("trio_mcp.client")


@define(eq=False)
class Visits:
    """The pages that one connection's user was asked to visit."""

    _on_complete: OnElicitComplete | None
    _open: dict[str, None] = field(factory=dict[str, None], init=False)
    """A set in order."""
    _done: deque[types.ElicitationCompleteNotificationParams] = field(
        factory=partial(deque["types.ElicitationCompleteNotificationParams"], maxlen=MAX_VISITS), init=False
    )
    _told: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def asked(self, request: Any) -> None:
        """Remember a question that names a page; others are nothing to remember."""
        if isinstance(request, types.ElicitRequestURLParams) and request.elicitation_id is not None:
            self._open[request.elicitation_id] = None
            if len(self._open) > MAX_VISITS:
                del self._open[next(iter(self._open))]

    def required(self, error: ErrorResponse) -> None:
        """Remember the pages that an error names as to be visited first."""
        if error.code == _VISITS_REQUIRED:
            try:
                data = types.structure(error.data, types.URLElicitationRequiredErrorData, revision=_REVISION)
            except StructureError as fault:
                _log.warning("an error %s of the server names no pages: %s", error.code, fault)
                return
            for each in data.elicitations:
                self.asked(each)

    def done(self, params: JsonObject) -> None:
        """Take the notice that the user is done with a page; synchronous."""
        identifier = params.get("elicitationId")
        if type(identifier) is str and identifier in self._open:
            del self._open[identifier]
            self._done.append(types.structure(params, types.ElicitationCompleteNotificationParams, revision=_REVISION))
            self._told.unpark()

    def start(self, nursery: trio.Nursery) -> None:
        """Start the task that hands the notices on, if the application wants to hear of them."""
        if self._on_complete is not None:
            nursery.start_soon(self._deliver, self._on_complete)

    async def _deliver(self, on_complete: OnElicitComplete) -> None:
        """Hand the notices to `on_elicit_complete`, one after the other, for ever. Its failure costs one of them."""
        while True:
            while not self._done:
                await self._told.park()
            try:
                await on_complete(self._done.popleft())
            except Exception:  # noqa: BLE001 # it is the application's, and costs one notice
                _log.exception("on_elicit_complete failed")
