"""The relay of changes: what one process of a service reports, the listeners of all processes hear.

Rules of this file:

1. The changes of one process arrive in their order. Equal changes that wait together are sent once, as the latest.
2. A change is sent until the backend has taken it. While that cannot be reached, changes wait here; there are never
   more than the lists and resources of the server, and the tasks and other things that extensions report on.
3. A process that may have missed changes, because the backend was interrupted, tells its listeners that everything has
   changed: they fetch again what they need.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

import trio
from attrs import define, field

from .. import Change, CustomChange, ListChanged, ResourceUpdated, SharedUnavailable
from ..abc import SharedState, StreamPart
from ..lowlevel import ServerExtensionPoints
from ..wire import JsonObject, JsonText, NotJsonError, Undecodable, decode, encode, is_object, json_text

__all__ = ["ChangeRelay"]

_log = logging.getLogger("trio_mcp.cluster")

_STREAM = "changes"
_MOST_KEPT = 10_000
"""The number of entries in the stream: more than a process can be behind."""
_MOST_WAITING = 100_000
"""The number of changes that wait while the backend cannot be reached; more are dropped, the oldest first."""
_PAUSE_SECONDS = 0.2


def _to_json(change: Change) -> JsonObject:
    if isinstance(change, ListChanged):
        return {"list": change.kind}
    if isinstance(change, ResourceUpdated):
        return {"uri": change.uri}
    return {"member": change.member, "key": change.key, "method": change.method, "params": change.params}


def _encoded(change: Change) -> JsonText | None:
    """Return the JSON of a change; None if it has none, because the program has reported something impossible."""
    try:
        return json_text(encode(_to_json(change)))
    except NotJsonError as error:
        _log.warning("the change %r is not relayed to other processes: %s", change, error)
        return None


def _of_json(json: Any) -> Change:
    """Return the change that `_to_json` has written; raise `TypeError` if it has not."""
    match json:
        case {"list": "tools" | "prompts" | "resources" as kind}:
            return ListChanged(kind)
        case {"uri": str(uri)}:
            return ResourceUpdated(uri)
        case {"member": str(member), "key": str(key), "method": str(method), "params": params} if is_object(params):
            return CustomChange(member, key, method, params)
        case _:
            raise TypeError


@define(eq=False)
class ChangeRelay:
    """Relays the changes of one server between this process and the others.

    Args:
        state: the backend.
        points: those of the server.
        on_gap: called when the backend may have lost data.
    """

    _state: SharedState
    _points: ServerExtensionPoints
    _on_gap: Callable[[], None]
    _token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    _waiting: dict[Change, None] = field(factory=dict["Change", None], init=False)
    """The changes that were not sent: an ordered set."""
    _added: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def take(self, change: Change) -> None:
        """Take a change of this process, to be sent to the others; from any thread."""
        try:
            is_here = trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:  # a thread without a Trio run
            is_here = False
        if is_here:
            self._take(change)
        else:
            with suppress(trio.RunFinishedError):  # then nobody listens
                self._token.run_sync_soon(self._take, change)

    def _take(self, change: Change) -> None:
        self._waiting.pop(change, None)
        self._waiting[change] = None
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._added.unpark_all()

    async def send(self) -> None:
        """Send the changes of this process until cancelled."""
        while True:
            while not self._waiting:
                await self._added.park()
            changes = [json for change in self._waiting if (json := _encoded(change)) is not None]
            self._waiting.clear()
            if changes:
                await self._append(encode({"origin": self._points.changes_id, "changes": changes}))

    async def _append(self, entry: bytes) -> None:
        """Append an entry, as soon as the backend can be reached (rule 2)."""
        while True:
            try:
                await self._state.append(_STREAM, [entry], at_most=_MOST_KEPT)
            except SharedUnavailable:  # the heartbeat logs it
                await trio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def receive(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Deliver the changes of other processes until cancelled."""
        async with self._state.follow(_STREAM) as parts:
            task_status.started()
            await self._deliver(parts)

    async def _deliver(self, parts: AsyncIterator[StreamPart]) -> None:
        async for part in parts:
            if part.is_gap:
                self._points.all_changed()
                self._on_gap()
            for entry in part.entries:
                for change in self._changes_in(entry):
                    self._points.deliver_change(change)

    def _changes_in(self, entry: bytes) -> Sequence[Change]:
        try:
            json: Any = decode(entry)
            is_own = json["origin"] == self._points.changes_id
            return [] if is_own else [_of_json(each) for each in json["changes"]]
        except (Undecodable, KeyError, TypeError):
            _log.warning("an entry of the stream %r was written by another program", _STREAM)
            return []
