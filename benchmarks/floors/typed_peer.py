"""The reference floor: a Trio peer that talks JSON in lines, with a cancellable task for each request.

It does what no implementation can leave out, and nothing else: no revisions, no validation, no limits, no state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
import trio
from attrs import define, field

__all__ = ["Handler", "Peer"]

Json: TypeAlias = dict[str, Any]
Handler: TypeAlias = "Callable[[Peer, int, str, Json], Awaitable[Json]]"
"""A function of the peer, the request id, the method and the params that returns the result."""

READ_BYTES = 2**20


@define(eq=False)
class Peer:
    """One side of a connection. Run it in a task, and make requests from others."""

    stream: trio.abc.Stream
    handler: Handler | None = None
    _outbox: list[bytes] = field(factory=list[bytes], init=False)
    _something: trio.Event = field(factory=trio.Event, init=False)
    _waiting: dict[int, trio.lowlevel.Task] = field(factory=dict[int, trio.lowlevel.Task], init=False)
    _answers: dict[int, Json] = field(factory=dict[int, Json], init=False)
    _progress_callbacks: dict[int, Callable[[float], None]] = field(
        factory=dict[int, Callable[[float], None]], init=False
    )
    _running: dict[int, trio.CancelScope] = field(factory=dict[int, trio.CancelScope], init=False)
    _last_id: int = field(default=0, init=False)

    async def run(self) -> None:
        """Read and write until the other side closes; then cancel what still runs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            await self._read(nursery)
            nursery.cancel_scope.cancel()

    async def request(self, method: str, params: Json, on_progress: Callable[[float], None] | None = None) -> Json:
        """Return the result of a request; a cancellation cancels the handler of the other side."""
        self._last_id += 1
        id = self._last_id
        self._waiting[id] = trio.lowlevel.current_task()
        if on_progress is not None:
            self._progress_callbacks[id] = on_progress
        self._post({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

        def abort(_: object) -> trio.lowlevel.Abort:
            self._post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            del self._waiting[id]
            self._progress_callbacks.pop(id, None)
        return self._answers.pop(id)

    def report(self, id: int, progress: float, total: float) -> None:
        """Send progress of a request to the other side."""
        params = {"progressToken": id, "progress": progress, "total": total}
        self._post({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def _post(self, message: Json) -> None:
        self._outbox.append(msgspec.json.encode(message))
        self._something.set()

    async def _write(self) -> None:
        while True:
            await self._something.wait()
            lines = [*self._outbox, b""]
            self._outbox.clear()
            self._something = trio.Event()
            await self.stream.send_all(b"\n".join(lines))

    async def _read(self, nursery: trio.Nursery) -> None:
        buffer, scanned = bytearray(), 0
        while data := await self.stream.receive_some(READ_BYTES):
            buffer += data
            begin = 0
            while (end := buffer.find(b"\n", max(begin, scanned))) >= 0:
                self._take(msgspec.json.decode(memoryview(buffer)[begin:end]), nursery)
                begin = end + 1
            del buffer[:begin]
            scanned = len(buffer)

    def _take(self, message: Json, nursery: trio.Nursery) -> None:
        method = message.get("method")
        if method is None:
            if (task := self._waiting.get(message["id"])) is not None:
                self._answers[message["id"]] = message["result"]
                trio.lowlevel.reschedule(task)
        elif method == "notifications/progress":
            params = message["params"]
            if (on_progress := self._progress_callbacks.get(params["progressToken"])) is not None:
                on_progress(params["progress"])
        elif method == "notifications/cancelled":
            if (scope := self._running.get(message["params"]["requestId"])) is not None:
                scope.cancel()
        else:
            nursery.start_soon(self._answer, message)

    async def _answer(self, message: Json) -> None:
        assert self.handler is not None
        id = message["id"]
        with trio.CancelScope() as scope:
            self._running[id] = scope
            try:
                result = await self.handler(self, id, message["method"], message["params"])
                self._post({"jsonrpc": "2.0", "id": id, "result": result})
            finally:
                del self._running[id]
