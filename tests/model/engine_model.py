"""A model of one end of a link: messages in, messages out, and the requests in flight."""

from __future__ import annotations

from typing import Any, TypeAlias

from attrs import define, field

__all__ = ["EngineModel", "Inbound", "Outbound"]

Id: TypeAlias = "str | int"
Json: TypeAlias = dict[str, Any]


@define(eq=False)
class Inbound:
    """A request of the peer."""

    id: Id
    working: bool = True
    """True while its handler runs, even if the peer no longer waits for the response."""


@define(eq=False)
class Outbound:
    """A request to the peer."""

    id: int | None
    """None if the connection was lost before the request got an id."""
    updates: list[int] | None
    """The unread updates, or None if the caller wants no updates."""
    outcome: Any = None
    """The outcome, or None while the request is open."""


@define(eq=False)
class EngineModel:
    """One end of a connection that carries one message after the other.

    While the peer reads, every message is sent at once. While the peer does not read, one write is blocked, with the
    messages that were queued when it began. Later messages are queued, and can be withdrawn from the queue.
    """

    incoming: dict[Id, Inbound] = field(factory=dict[Id, Inbound])
    outgoing: dict[int, Outbound] = field(factory=dict[int, Outbound])
    out: list[Json] = field(factory=list[Json])
    """All messages that have arrived at the peer, in order."""
    being_written: list[Json] = field(factory=list[Json])
    queue: list[Json] = field(factory=list[Json])
    reading: bool = True
    issued: int = 0
    unmatched: int = 0
    malformed: int = 0
    input_ended: bool = False

    # Outgoing messages.

    def send(self, *messages: Json) -> None:
        """Queue messages, and send them if the peer reads."""
        for message in messages:
            self.queue.append({"jsonrpc": "2.0", **message})
            if not self.being_written and not self.reading:
                self.being_written, self.queue = self.queue, []
        if self.reading:
            self.resume_reading()

    def resume_reading(self) -> None:
        """Deliver all messages, because the peer reads again."""
        self.reading = True
        self.out += [*self.being_written, *self.queue]
        self.being_written, self.queue = [], []

    def refuse(self, id: Id | None, code: int) -> None:
        """Send an error response."""
        self.send({"error": code} if id is None else {"id": id, "error": code})

    # Requests of the peer.

    def request(self, id: Id) -> Inbound | None:
        """Receive a request; return it, or None if it is refused."""
        if id in self.incoming:
            self.refuse(None, -32600)
            return None
        self.incoming[id] = inbound = Inbound(id)
        return inbound

    def cancelled(self, id: Id) -> Inbound | None:
        """Receive a cancellation; return the request whose handler it stops, if any."""
        inbound = self.incoming.pop(id, None)
        if inbound is not None:
            inbound.working = False
        return inbound

    def answer(self, inbound: Inbound, content: Json) -> None:
        """Send the response of a handler."""
        inbound.working = False
        del self.incoming[inbound.id]
        self.send({"id": inbound.id, **content})

    # Requests to the peer.

    def ask(self, *, wants_updates: bool) -> Outbound:
        """Send a request."""
        if self.input_ended:
            return Outbound(None, None, "lost")
        self.issued += 1
        outbound = Outbound(self.issued, [] if wants_updates else None)
        self.outgoing[self.issued] = outbound
        params = {"params": {"_meta": {"progressToken": self.issued}}} if wants_updates else {}
        self.send({"id": self.issued, "method": "ours", **params})
        return outbound

    def outcome(self, id: Id, outcome: Any) -> None:
        """Receive a response. An id that comes back as a string stands for the number."""
        outbound = self.outgoing.pop(int(id), None)
        if outbound is None:
            self.unmatched += 1
        else:
            outbound.outcome = outcome

    def progress(self, token: Id, value: int) -> None:
        """Receive a progress notification."""
        outbound = self.outgoing.get(token) if isinstance(token, int) else None
        if outbound is not None and outbound.updates is not None:
            outbound.updates.append(value)

    def leave(self, outbound: Outbound) -> None:
        """Leave a request: withdraw it if it is still queued, and cancel it otherwise."""
        if outbound.id is None or self.outgoing.pop(outbound.id, None) is None:
            return
        outbound.outcome = "left"
        self._withdraw(outbound)

    def _withdraw(self, outbound: Outbound) -> None:
        queued = [each for each in self.queue if each.get("method") == "ours" and each["id"] == outbound.id]
        for each in queued:
            self.queue.remove(each)
        if not queued:
            self.send({"method": "notifications/cancelled", "params": {"requestId": outbound.id}})

    # The end of the connection.

    def end_of_input(self, *, by_us: bool) -> None:
        """End the input: outgoing requests are lost, and incoming requests may still be answered.

        If this side ends the connection, outgoing requests are cancelled as well.
        """
        self.input_ended = True
        for outbound in self.outgoing.values() if by_us else ():
            self._withdraw(outbound)
        for outbound in self.outgoing.values():
            outbound.outcome = "lost"
        self.outgoing.clear()
