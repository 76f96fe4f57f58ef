"""Clauses about exchanges: results, errors, updates, notifications, many at once, cancellation."""

from __future__ import annotations

import json
from collections.abc import Sized
from functools import partial
from typing import Any

import trio

from .._errors import ErrorResponse, LocalProtocolError
from ._cancel import cancel_everywhere
from ._contract_base import Clauses, updates_of
from ._contract_checks import Caller, call, check, failure_of, nothing_held, params, text_of, until

__all__ = ["ExchangeClauses"]


class ExchangeClauses(Clauses):
    """What holds of each exchange, while the connection is up."""

    # One exchange.

    async def test_a_request_is_answered_with_its_result(self) -> None:
        """Who asks gets the result, and nothing is left of the request."""
        async with self._opened() as transport:
            check(text_of(await call(transport, "count", steps=3)), "counted", "the result")
            nothing_held(transport)

    async def test_values_cross_as_they_are(self) -> None:
        """A JSON value arrives as the same value of the same type: `1`, `1.0`, `"1"` and `true` are four values."""
        values: list[Any] = [
            0,
            1,
            1.0,
            "1",
            True,
            None,
            -1.5,
            2**53,
            "",
            "é\u2028\U0001f600\n\0",
            [],
            {},
            [[]],
            {"": {"a": [None]}},
        ]
        async with self._opened() as transport:
            for value in (*values, values):
                check((await call(transport, "echo", value=value))["_meta"]["value"], value, "the value came back")

    async def test_a_large_message_crosses_both_ways(self) -> None:
        """Messages have no size but the one that `Limits` allows."""
        async with self._opened() as transport:
            text = "x" * self.large
            check((await call(transport, "echo", value=text))["_meta"]["value"] == text, True, "it came back whole")

    async def test_an_error_is_raised_with_its_code_message_and_data(self) -> None:
        """An error of the server is an `ErrorResponse`, and the connection goes on."""
        async with self._opened() as transport:
            error = await failure_of(partial(call, transport, "refuse"), ErrorResponse)
            check((error.code, error.message, error.data), (-5, "not today", {"until": "tomorrow"}), "the error")
            check((await failure_of(partial(call, transport, "nothing"), ErrorResponse)).code, -32602, "its code")
            check(text_of(await call(transport, "count", steps=0)), "counted", "the next call")

    async def test_what_is_no_json_is_refused_before_it_is_sent(self) -> None:
        """Params that JSON cannot say are a `LocalProtocolError`, and the connection goes on."""
        async with self._opened() as transport:
            for value in (float("nan"), object(), "\ud800"):
                await failure_of(partial(call, transport, "echo", value=value), LocalProtocolError)
            nothing_held(transport)
            check(text_of(await call(transport, "count", steps=0)), "counted", "the next call")

    # Updates.

    async def test_updates_come_in_order_and_before_the_result(self) -> None:
        """Each update arrives once, in the order it was sent in, and all of them before the result."""
        async with self._opened() as transport:
            for steps in (1, 30):
                async with transport.ask("tools/call", params("count", steps=steps), wants_updates=True) as asked:
                    got = [update[1]["progress"] async for update in updates_of(asked)]
                    check(got, list(range(1, steps + 1)), "progress")
                    check(text_of(await asked.result()), "counted", "the result")
            nothing_held(transport)

    async def test_updates_reach_the_request_they_belong_to(self) -> None:
        """Requests under way at once do not get each other's updates."""
        async with self._opened() as transport:
            got: dict[int, list[Any]] = {}

            async def count(steps: int) -> None:
                async with transport.ask("tools/call", params("count", steps=steps), wants_updates=True) as asked:
                    got[steps] = [update[1]["total"] async for update in updates_of(asked)]

            async with trio.open_nursery() as nursery:
                for steps in (3, 5, 7):
                    nursery.start_soon(count, steps)
            check(dict(sorted(got.items())), {steps: [steps] * steps for steps in (3, 5, 7)}, "totals")

    async def test_no_updates_come_where_none_are_wanted(self) -> None:
        """Who does not ask for updates gets none, and the server is not asked to send any."""
        async with self._opened() as transport, transport.ask("tools/call", params("count", steps=3)) as asked:
            check([update async for update in updates_of(asked)], [], "updates")

    # Notifications.

    async def test_notifications_reach_the_server_in_order(self) -> None:
        """What is notified before a request is known to the server when it answers that."""
        async with self._opened() as transport:
            methods = [f"notifications/{number}" for number in range(5)]
            for number, method in enumerate(methods):
                await transport.notify(method, {"number": number} if number else None)
            result = await call(transport, "notified")
            check(json.loads(text_of(result)), methods, "what the server was notified of")

    async def test_notifications_of_the_server_reach_the_client_in_order(self) -> None:
        """What the server notifies before its result has arrived when the result has."""
        caller = Caller()
        async with self._opened(caller) as transport:
            for text in ("one", "two"):
                await call(transport, "say", text=text)
                check([params["data"] for _, params in caller.notifications][-1:], [text], "the latest message")
            check([method for method, _ in caller.notifications], ["notifications/message"] * 2, "notifications")

    # Many at once.

    async def test_requests_run_side_by_side_and_answers_may_overtake(self) -> None:
        """No request waits for one that was sent before it."""
        async with self._opened() as transport:
            order: list[str] = []

            async def wait(key: str) -> None:
                order.append(text_of(await call(transport, "wait", key=key)))

            async with trio.open_nursery() as nursery:
                for key in ("first", "second", "third"):
                    nursery.start_soon(wait, key)
                await self._until_waiting(transport, 3)
                for done, key in enumerate(("third", "first", "second"), 1):
                    await call(transport, "release", key=key)
                    await until(partial(_as_long_as, order, done), lambda: f"answered: {order}", self.seconds / 2)
            check(order, ["third", "first", "second"], "the order of the answers")

    async def test_many_requests_at_once_get_each_its_own_answer(self) -> None:
        """Two hundred requests under way at once do not get mixed up."""
        async with self._opened() as transport:
            got: dict[int, Any] = {}

            async def echo(number: int) -> None:
                got[number] = (await call(transport, "echo", value=number))["_meta"]["value"]

            async with trio.open_nursery() as nursery:
                for number in range(200):
                    nursery.start_soon(echo, number)
            check(sorted(got.items()), [(number, number) for number in range(200)], "answers")
            nothing_held(transport)

    async def test_what_is_under_way_is_counted(self) -> None:
        """`statistics` counts the requests that wait for an answer."""
        async with self._opened() as transport, trio.open_nursery() as nursery:
            for key in ("a", "b"):
                nursery.start_soon(partial(call, transport, "wait", key=key))
            await self._until_waiting(transport, 2)
            check(transport.statistics().asked, 2, "requests that wait")
            for key in ("a", "b"):
                await call(transport, "release", key=key)

    # Cancellation.

    async def test_leaving_a_request_stops_its_handler_and_nothing_comes_after(self) -> None:
        """Who leaves before the outcome has arrived stops the handler; the server sends neither result nor error."""
        caller = Caller()
        async with self._opened(caller) as transport:
            async with transport.ask("tools/call", params("hang", key="k"), wants_updates=True) as asked:
                await asked.next_update()
            nothing_held(transport)
            check(text_of(await call(transport, "when_stopped", key="k")), "stopped", "the handler")
            check(transport.statistics().unmatched_responses, 0, "responses to the request that was left")
            check(caller.notifications, [], "notifications")

    async def test_a_cancelled_caller_stops_its_handler_and_no_other(self) -> None:
        """Cancelling a task that waits ends its request, and leaves those of others alone."""
        async with self._opened() as transport, trio.open_nursery() as nursery:
            nursery.start_soon(partial(call, transport, "wait", key="other"))
            with trio.CancelScope() as scope:
                async with transport.ask("tools/call", params("hang", key="k"), wants_updates=True) as asked:
                    await asked.next_update()
                    scope.cancel()
                    await asked.result()
            check(scope.cancelled_caught, True, "the caller was cancelled")
            check(text_of(await call(transport, "when_stopped", key="k")), "stopped", "the handler")
            await self._until_waiting(transport, 1)
            await call(transport, "release", key="other")

    async def test_a_call_may_be_cancelled_at_every_step(self) -> None:
        """Wherever a call is cancelled, neither end keeps anything of it, and the next one is answered."""
        async with self._opened() as transport:

            async def attempt() -> None:
                async with transport.ask("tools/call", params("count", steps=3), wants_updates=True) as asked:
                    async for _ in updates_of(asked):
                        pass
                    await asked.result()

            async def check_after() -> None:
                nothing_held(transport)
                await self._until_waiting(transport, 0)

            await cancel_everywhere(attempt, check_after)


async def _as_long_as(what: Sized, length: int) -> bool:
    await trio.lowlevel.checkpoint()
    return len(what) == length
