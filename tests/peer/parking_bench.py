"""A handler pool and a scripted client: it starts handlers that ask questions, and retries with answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio
from attrs import define, field
from trio.testing import wait_all_tasks_blocked

from trio_mcp import McpError, MissingCapability
from trio_mcp.peer import ExchangeContext, HandlerPool, HandlerRun, HandlerSlots, Limits, Question
from trio_mcp.wire import JsonObject

from .fake_exchange import FakeExchange, exchange

Handler: TypeAlias = Callable[[HandlerRun], Awaitable[JsonObject]]

EXPIRY = 60.0
MOST = 3


def question(key: str, capability: str | None = None) -> Question:
    """Return a question whose answer is any JSON value but None; the other side may need a capability for it."""

    def read(answer: Any) -> Any:
        if answer is None:
            raise McpError(-32602, f"{key}: null is no answer")
        return answer

    def lacking(context: ExchangeContext) -> MissingCapability | None:
        if capability is None or capability in context.capabilities:
            return None
        return MissingCapability(f"no {capability}", {capability: {}})

    return Question(key, {"ask": key}, read, lacking)


async def ask(run: HandlerRun, *questions: Question | str) -> list[Any]:
    """Ask as a handler does; a text stands for a question with that key."""
    await trio.lowlevel.checkpoint_if_cancelled()
    if run.pending is None:
        run.pending = run.pool.parking.waiting(run, interim)
    given = [each if isinstance(each, Question) else question(each) for each in questions]
    return await run.pending.ask(given)


def interim(token: str, requests: Any) -> JsonObject:
    return {"token": token, "asked": dict(requests)}


async def one_question(run: HandlerRun) -> JsonObject:
    """Ask `a`, and return the answer."""
    (answer,) = await ask(run, "a")
    return {"answer": answer}


async def forever(_: HandlerRun) -> JsonObject:
    """Work until stopped."""
    await trio.sleep_forever()
    return {}


def notify_nowait(run: HandlerRun, value: float) -> None:
    """Tell whoever waits for *run*."""
    if run.exchange is not None:
        run.exchange.notify("progress", {"value": value})


@define(eq=False)
class Bench:
    """One connection of a pool."""

    pool: HandlerPool
    slots: HandlerSlots = field(factory=lambda: HandlerSlots(10, 10))

    def begin(self, handler: Handler, **capabilities: Any) -> FakeExchange:
        asked = exchange(self.slots, capabilities=capabilities)
        self.pool.begin(asked, handler, explain)
        return asked

    def retry(self, first: FakeExchange | str, answers: JsonObject, **capabilities: Any) -> FakeExchange:
        """Come back with *answers* to what the exchange *first* was answered with, or to a token."""
        asked = exchange(self.slots, capabilities=capabilities)
        token = first if isinstance(first, str) else token_of(first)
        if not self.pool.parking.resume(token, asked, answers):
            raise LookupError(token)
        return asked

    async def holds_nothing(self) -> bool:
        """Wait until nothing goes on, and say whether nothing is left."""
        await wait_all_tasks_blocked()
        idle = (self.pool.running, self.pool.parking.parked, self.pool.limiter.taken) == (0, 0, 0)
        return idle and (self.slots.running, self.slots.waiting) == (0, 0)


def explain(failure: Exception) -> McpError:
    return McpError(-1, repr(failure))


def token_of(asked: FakeExchange) -> str:
    return str(answer_of(asked)["token"])


def asked_in(asked: FakeExchange) -> set[str]:
    """Return what an exchange was answered with: the keys of the questions."""
    return set(answer_of(asked)["asked"])


def answer_of(asked: FakeExchange) -> Any:
    """Return the one answer of an exchange."""
    (answer,) = asked.sent
    assert not isinstance(answer, McpError), answer
    return answer


def error_of(asked: FakeExchange) -> str:
    """Return what an exchange failed with."""
    (answer,) = asked.sent
    assert isinstance(answer, McpError), answer
    return answer.message


def make_pool(nursery: trio.Nursery, ask_seconds: float = EXPIRY) -> HandlerPool:
    return HandlerPool(nursery, Limits(max_parked=MOST, ask_seconds=ask_seconds))
