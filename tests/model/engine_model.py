"""A model of one end of a link: messages in, messages out, and the requests in flight."""

from __future__ import annotations

from typing import Any, TypeAlias

from attrs import define, field

__all__ = ["EngineModel", "Inbound", "Outbound"]

Id: TypeAlias = "str | int"
Json: TypeAlias = dict[str, Any]


@define(eq=False)
class Inbound:
    """A request of the other side."""

    id: Id
    working: bool = True
    """Whether its handler has begun and not ended, be there somebody to answer or not."""


@define(eq=False)
class Outbound:
    """A request of ours."""

    id: int | None
    """None before it has one: the connection was lost already."""
    updates: list[int] | None
    """What was told about it and not read; None where nobody wants to know."""
    outcome: Any = None
    """What asking for it came to; None while it is open."""


@define(eq=False)
class EngineModel:
    """One end of a connection that carries one message after the other.

    What is said goes out at once while the other side reads. While it does not, one write hangs in the air with all
    that was said when it began; the rest is queued, and what is in the queue can be taken back.
    """

    incoming: dict[Id, Inbound] = field(factory=dict[Id, Inbound])
    outgoing: dict[int, Outbound] = field(factory=dict[int, Outbound])
    out: list[Json] = field(factory=list[Json])
    """All that has arrived at the other side, in order."""
    in_the_air: list[Json] = field(factory=list[Json])
    queue: list[Json] = field(factory=list[Json])
    reading: bool = True
    issued: int = 0
    unmatched: int = 0
    malformed: int = 0
    input_ended: bool = False

    # What goes out.

    def say(self, *messages: Json) -> None:
        """Queue messages, and let them leave if they can."""
        for message in messages:
            self.queue.append({"jsonrpc": "2.0", **message})
            if not self.in_the_air and not self.reading:
                self.in_the_air, self.queue = self.queue, []
        if self.reading:
            self.read_on()

    def read_on(self) -> None:
        """The other side reads."""
        self.reading = True
        self.out += [*self.in_the_air, *self.queue]
        self.in_the_air, self.queue = [], []

    def refuse(self, id: Id | None, code: int) -> None:
        """Answer with an error."""
        self.say({"error": code} if id is None else {"id": id, "error": code})

    # Requests of the other side.

    def request(self, id: Id) -> Inbound | None:
        """A request comes; return it, or None where it was refused."""
        if id in self.incoming:
            self.refuse(None, -32600)
            return None
        self.incoming[id] = inbound = Inbound(id)
        return inbound

    def cancelled(self, id: Id) -> Inbound | None:
        """The other side does not want an answer any more; return the request whose handler is stopped by that."""
        inbound = self.incoming.pop(id, None)
        if inbound is not None:
            inbound.working = False
        return inbound

    def answer(self, inbound: Inbound, content: Json) -> None:
        """A handler has an answer."""
        inbound.working = False
        del self.incoming[inbound.id]
        self.say({"id": inbound.id, **content})

    # Requests of ours.

    def ask(self, *, wants_updates: bool) -> Outbound:
        """We ask."""
        if self.input_ended:
            return Outbound(None, None, "lost")
        self.issued += 1
        outbound = Outbound(self.issued, [] if wants_updates else None)
        self.outgoing[self.issued] = outbound
        params = {"params": {"_meta": {"progressToken": self.issued}}} if wants_updates else {}
        self.say({"id": self.issued, "method": "ours", **params})
        return outbound

    def outcome(self, id: Id, outcome: Any) -> None:
        """A response comes."""
        outbound = self.outgoing.pop(id, None) if isinstance(id, int) else None
        if outbound is None:
            self.unmatched += 1
        else:
            outbound.outcome = outcome

    def progress(self, token: Id, value: int) -> None:
        """News of a request of ours come."""
        outbound = self.outgoing.get(token) if isinstance(token, int) else None
        if outbound is not None and outbound.updates is not None:
            outbound.updates.append(value)

    def leave(self, outbound: Outbound) -> None:
        """We do not want an answer any more: the request is taken back, or cancelled where it has left."""
        if outbound.id is None or self.outgoing.pop(outbound.id, None) is None:
            return
        outbound.outcome = "left"
        self._take_back(outbound)

    def _take_back(self, outbound: Outbound) -> None:
        queued = [each for each in self.queue if each.get("method") == "ours" and each["id"] == outbound.id]
        for each in queued:
            self.queue.remove(each)
        if not queued:
            self.say({"method": "notifications/cancelled", "params": {"requestId": outbound.id}})

    # The end.

    def end_of_input(self, *, by_us: bool) -> None:
        """Nothing more is heard: what we asked is lost, what the other side asked may still be answered.

        Where that is our doing, the other side is told that we do not want its answers.
        """
        self.input_ended = True
        for outbound in self.outgoing.values() if by_us else ():
            self._take_back(outbound)
        for outbound in self.outgoing.values():
            outbound.outcome = "lost"
        self.outgoing.clear()
