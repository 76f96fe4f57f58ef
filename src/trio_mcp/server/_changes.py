"""What changes on a server, and who is told: from wherever it happens to every listener of every serving.

Rules of this file:

1. One source per server. Registrations and updates may come from any thread, and before anything is served.
2. One hub per serving. Listeners live in its Trio run, and are only ever told there.
3. Telling never waits and never fails. A listener notes each change once until it sends it, so that what is changed
   in one go is one piece of news, and one that cannot send holds no more than there are lists and resources it wants.
4. What a handler has changed is said before the handler's own result, as far as there is room: whoever has the result
   knows then that what they had listed before is out of date.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import trio
from attrs import define, field

from ..wire import Change, ResourceUpdated

if TYPE_CHECKING:
    from ._resources import Resources

__all__ = ["ChangeHub", "ChangeListener", "ChangeSource", "has_resource"]


class ChangeListener(Protocol):
    """Somebody who is told."""

    def changed(self, change: Change) -> None:
        """Take note, and say so soon; synchronous, and never raises."""
        ...

    def tell_now(self) -> None:
        """Say what was noted, as far as there is room; likewise."""
        ...


@define(eq=False)
class ChangeHub:
    """The listeners of one serving."""

    _token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token, init=False)
    _listeners: dict[ChangeListener, None] = field(factory=dict["ChangeListener", None], init=False)
    """A set in order."""
    unsaid: bool = field(default=False, init=False)
    """Whether somebody may have noted something since `tell_now`."""

    @property
    def listening(self) -> int:
        """How many there are."""
        return len(self._listeners)

    def add(self, listener: ChangeListener) -> None:
        """Tell *listener* from now on."""
        self._listeners[listener] = None

    def discard(self, listener: ChangeListener) -> None:
        """Tell *listener* no more; harmless when repeated."""
        self._listeners.pop(listener, None)

    def close(self) -> None:
        """Tell nobody any more, not even of what is on its way from another thread."""
        self._listeners.clear()

    def tell(self, change: Change) -> None:
        """Tell all listeners; from any thread, where equal changes that wait for the Trio run count once."""
        if self._is_here():
            self._tell(change)
        else:
            with suppress(trio.RunFinishedError):  # then nobody listens any more
                self._token.run_sync_soon(self._tell, change, idempotent=True)

    def tell_now(self) -> None:
        """Have all listeners say what they noted (rule 4)."""
        if self.unsaid:
            self.unsaid = False
            for listener in self._listeners:
                listener.tell_now()

    def _is_here(self) -> bool:
        try:
            return trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:  # a thread without a Trio run
            return False

    def _tell(self, change: Change) -> None:
        self.unsaid = True
        for listener in self._listeners:
            listener.changed(change)


@define(eq=False)
class ChangeSource:
    """Where the changes of one server come together."""

    _hubs: tuple[ChangeHub, ...] = field(default=(), init=False)
    """Replaced as a whole, because another thread may be going through it."""
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def tell(self, change: Change) -> None:
        """Tell all listeners of all servings; from any thread, at any time."""
        for hub in self._hubs:
            hub.tell(change)

    def resource_updated(self, uri: str) -> None:
        """Tell that the resource of this URI is not what it was."""
        self.tell(ResourceUpdated(uri))

    @contextmanager
    def serving(self) -> Generator[ChangeHub]:
        """Open the hub of a serving, in its Trio run."""
        hub = ChangeHub()
        with self._lock:
            self._hubs = (*self._hubs, hub)
        try:
            yield hub
        finally:
            with self._lock:
                self._hubs = tuple(each for each in self._hubs if each is not hub)
            hub.close()


def has_resource(resources: Resources, uri: str) -> bool:
    """Tell whether *uri* is registered, or follows a template that is."""
    return resources.catalog.get(uri) is not None or any(
        template.match(uri) is not None for template in resources.templates
    )
