"""What every transport must keep, as a suite of tests to inherit from: no pytest needed, but made for it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trio

from .. import types
from .._errors import ConnectionClosed, ConnectionLost, ErrorResponse
from ..abc import Direction, Transport, TransportOpener
from ..client import open_client
from ._cancel import cancelled_after
from ._contract_checks import Caller, call, check, failure_of, nothing_held, params, text_of, until, working_tasks
from ._contract_exchanges import ExchangeClauses

__all__ = ["TransportContract"]


class TransportContract(ExchangeClauses):
    """The contract of an `abc.TransportOpener`: one test method for each clause, whose docstring is the clause.

    Inherit from it and say in `served` how one connects; pytest (with pytest-trio) then collects the clauses as it
    does any test of yours, and `check_contract` runs them without pytest::

        class TestMyTransport(TransportContract):
            @asynccontextmanager
            async def served(self, server: Answerer) -> AsyncGenerator[TransportOpener]:
                async with my_listener(server) as address:
                    yield my_transport(address)

    Where pytest-trio's `trio_mode` is off, mark the class: ``pytestmark = pytest.mark.trio``. The clauses use Trio's
    clock only to bound what never comes, so they work with sockets, with processes and in memory.

    A transport to another machine or process inherits from `RemoteTransportContract`, one that is a `trio.abc.Stream`
    from `StreamContract`; each adds clauses.
    """

    # Opening and closing.

    async def test_closing_tells_those_who_wait(self) -> None:
        """Leaving the opener's block ends each request that waits with a `ConnectionClosed` of its own."""
        errors: list[ConnectionClosed] = []

        async def wait(transport: Transport) -> None:
            errors.append(await failure_of(partial(call, transport, "wait", key="never"), ConnectionClosed))

        async with self._opener() as opener, trio.open_nursery() as nursery, opener(Caller()) as transport:
            for _ in range(3):
                nursery.start_soon(wait, transport)
            await self._until_waiting(transport, 3)
        check(len({id(error) for error in errors}), 3, "exceptions")

    async def test_after_closing_nothing_can_be_asked(self) -> None:
        """A transport whose block was left raises `ConnectionClosed`, whatever it is asked."""
        async with self._opener() as opener:
            async with opener(Caller()) as transport:
                await call(transport, "count", steps=0)
            await failure_of(partial(call, transport, "count", steps=0), ConnectionClosed)
            await failure_of(partial(transport.notify, "notifications/x", None), ConnectionClosed)
            nothing_held(transport)

    async def test_whoever_wants_to_know_of_the_loss_is_told_once(self) -> None:
        """`when_lost` tells the reason when nothing can be asked any more, or at once where that is so already."""
        told: list[str] = []
        async with self._opener() as opener:
            async with opener(Caller()) as transport:
                for _ in range(2):
                    transport.when_lost(lambda reason: told.append(type(reason).__name__))
                await call(transport, "count", steps=0)
                check(told, [], "what was told while the connection was up")
            check(told, ["ConnectionClosed"] * 2, "what was told when it was closed")
            transport.when_lost(lambda reason: told.append(type(reason).__name__))
            check(told, ["ConnectionClosed"] * 3, "what was told in the end")

    async def test_the_exception_of_a_block_comes_out_as_it_is(self) -> None:
        """What is raised in the opener's block is not wrapped, replaced or swallowed."""
        async with self._opener() as opener:
            for error in (KeyError("mine"), ExceptionGroup("mine", [KeyError("mine")]), ConnectionLost("mine")):
                raised = await _raised_by(opener, error)
                check([id(each) for each in raised], [id(error)], f"what came out of a block that raised: {raised}")

    async def test_an_opener_connects_anew_each_time(self) -> None:
        """Opening twice connects twice: at once, and one after the other. Closing one leaves the other alone."""
        async with self._opener() as opener:
            async with opener(Caller()) as one:
                async with opener(Caller()) as other:
                    for transport in (one, other):
                        check(text_of(await call(transport, "count", steps=0)), "counted", "the answer")
                check(text_of(await call(one, "count", steps=0)), "counted", "the answer to the one still open")
            async with opener(Caller()) as again:
                check(text_of(await call(again, "count", steps=0)), "counted", "the answer to one opened later")

    async def test_no_task_outlives_its_connection(self) -> None:
        """When a block is left, all tasks of its connection end, also if it is cancelled while opening or inside."""
        async with self._opener() as opener:

            async def attempt() -> None:
                async with opener(Caller()) as transport:
                    await call(transport, "count", steps=0)

            async def none_left() -> bool:
                await trio.lowlevel.checkpoint()
                return not working_tasks() - before

            before, point, completed = working_tasks(), 1, False
            while not completed:
                with trio.CancelScope() as scope:
                    await cancelled_after(point, attempt, scope)
                await until(none_left, lambda: f"tasks are left: {working_tasks() - before}", self.seconds / 2)
                point, completed = 2 * point, not scope.cancelled_caught

    # What clients see.

    async def test_the_tap_sees_what_passes(self) -> None:
        """A client that has a tap is shown each message, as JSON without its newline, in order."""
        seen: list[tuple[Direction, Any]] = []
        async with (
            self._opened(Caller(lambda direction, line: seen.append((direction, json.loads(line))))) as transport,
            transport.ask("tools/call", params("count", steps=2), wants_updates=True) as asked,
        ):
            await asked.result()
        told = [(direction, message.get("method")) for direction, message in seen]
        progress = ("received", "notifications/progress")
        check(told, [("sent", "tools/call"), progress, progress, ("received", None)], "messages")

    async def test_a_client_works_over_it_in_every_revision(self) -> None:
        """A `Client` agrees on each revision and does its work: lists, calls, progress, errors, cancellation."""
        for revision in types.REVISIONS:
            async with self._opener() as opener, open_client(opener, revision=revision) as client:
                check(client.revision, revision, "the revision")
                names = [tool.name async for tool in client.tools()]
                check("echo" in names, True, "the tools are listed")
                async with client.open_call("count", {"steps": 3}) as counting:
                    check([update.progress async for update in counting.updates], [1, 2, 3], "progress")
                check(
                    (await failure_of(partial(client.call_tool, "refuse"), ErrorResponse)).code, -5, "the error's code"
                )
                async with client.open_call("hang", {"key": "k"}) as hanging:
                    await anext(hanging.updates)
                stopped = await client.call_tool("when_stopped", {"key": "k"})
                check(text_of(types.unstructure(stopped)), "stopped", "the handler")


async def _raised_by(opener: TransportOpener, error: Exception) -> list[Exception]:
    """Return what comes out of a block that raises *error*, if anything does."""
    raised: list[Exception] = []

    async def attempt() -> None:
        async with opener(Caller()) as transport:
            await call(transport, "count", steps=0)
            raise error

    try:
        await attempt()
    except Exception as exc:  # noqa: BLE001 # whatever comes is looked at
        raised.append(exc)
    return raised
