"""A handler pool with a scripted client that starts handlers which ask questions, and retries with answers."""

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
MAX_PARKED = 3


def question(key: str, capability: str | None = None) -> Question:
    """Return a question that accepts any JSON value but None; the client needs *capability* for it, if given."""

    def read(answer: Any) -> Any:
        if answer is None:
            raise McpError(-32602, f"{key}: null is not an answer")
        return answer

    def lacking(context: ExchangeContext) -> MissingCapability | None:
        if capability is None or capability in context.capabilities:
            return None
        return MissingCapability(f"no {capability}", {capability: {}})

    return Question(key, {"ask": key}, read, lacking)


async def ask(run: HandlerRun, *questions: Question | str) -> list[Any]:
    """Ask *questions* as a handler does; a string stands for a question with that key."""
    await trio.lowlevel.checkpoint_if_cancelled()
    if run.pending is None:
        run.pending = run.pool.parking.waiting(run, interim)
    given = [each if isinstance(each, Question) else question(each) for each in questions]
    return await run.pending.ask(given)


def interim(token: str, requests: Any) -> JsonObject:
    return {"token": token, "questions": dict(requests)}


async def one_question(run: HandlerRun) -> JsonObject:
    """Ask `a`, and return the answer."""
    (answer,) = await ask(run, "a")
    return {"answer": answer}


async def forever(_: HandlerRun) -> JsonObject:
    """Work until stopped."""
    await trio.sleep_forever()
    return {}


def report_progress(run: HandlerRun, value: float) -> None:
    """Send a progress notification to the exchange that waits for *run*."""
    if run.exchange is not None:
        run.exchange.notify("progress", {"value": value})


@define(eq=False)
class Bench:
    """One connection of a pool."""

    pool: HandlerPool
    slots: HandlerSlots = field(factory=lambda: HandlerSlots(10, 10))

    def begin(self, handler: Handler, **capabilities: Any) -> FakeExchange:
        incoming = exchange(self.slots, capabilities=capabilities)
        self.pool.begin(incoming, handler, explain)
        return incoming

    def retry(self, first: FakeExchange | str, answers: JsonObject, **capabilities: Any) -> FakeExchange:
        """Retry with *answers* to the questions of the exchange *first*, which may be named by its token."""
        incoming = exchange(self.slots, capabilities=capabilities)
        token = first if isinstance(first, str) else token_of(first)
        if not self.pool.parking.resume(token, incoming, answers):
            raise LookupError(token)
        return incoming

    async def holds_nothing(self) -> bool:
        """Wait until every task is blocked, and return True if no handler is running, parked or queued."""
        await wait_all_tasks_blocked()
        idle = (self.pool.running, self.pool.parking.parked, self.pool.limiter.taken) == (0, 0, 0)
        return idle and (self.slots.running, self.slots.waiting) == (0, 0)


def explain(failure: Exception) -> McpError:
    return McpError(-1, repr(failure))


def token_of(incoming: FakeExchange) -> str:
    return str(answer_of(incoming)["token"])


def questions_in(incoming: FakeExchange) -> set[str]:
    """Return the keys of the questions that an exchange was answered with."""
    return set(answer_of(incoming)["questions"])


def answer_of(incoming: FakeExchange) -> Any:
    """Return the only response of an exchange, which is a result."""
    (answer,) = incoming.sent
    assert not isinstance(answer, McpError), answer
    return answer


def error_of(incoming: FakeExchange) -> str:
    """Return the message of the error that an exchange was answered with."""
    (answer,) = incoming.sent
    assert isinstance(answer, McpError), answer
    return answer.message


def make_pool(nursery: trio.Nursery, ask_seconds: float = EXPIRY) -> HandlerPool:
    return HandlerPool(nursery, Limits(max_parked=MAX_PARKED, ask_seconds=ask_seconds))
