"""The command `task`, for tasks that were started before, and `call --detach`, which starts one.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ..client import ClientExtensionPoints
from ..types import JSONObject
from ._commands import Job, arguments_of, find_tool, print_result
from ._errors import UsageError
from ._output import json_line
from ._questions import can_ask
from ._terminal import visible_line

if TYPE_CHECKING:
    from ..tasks import TaskHandle, TaskState

__all__ = ["refuse_to_answer", "start", "task"]


async def refuse_to_answer(_: object) -> NoReturn:
    """End a detached call whose server asks before it has made a task: a callback of its client.

    The client has it, so that the server may ask in the task: `trio-mcp task answer` answers then.
    """
    raise UsageError("the server asks before it has made a task of the call: use --answer FILE, or a terminal")


async def start(job: Job) -> None:
    """Call a tool as a task, and print the id of the task; print the result if the server answers at once.

    Raises:
        UsageError: the server has no such tool, or the arguments do not fit its schema.
        ToolFailed: the tool reports a failure.
    """
    tool = await find_tool(job, job.options.name)
    handle = await job.client.start_task(tool.name, arguments_of(job, tool))
    if handle.id is None or handle.state is None:
        job.notes.say("the server has answered at once, without a task")
        print_result(job, tool.name, await handle.result())
    elif job.options.json:
        job.output.document(_document(handle.state))
    else:
        job.output.text(handle.id)
        job.notes.say(f"the task is {_line(handle.state)}; trio-mcp task watch ID prints its result")


async def task(job: Job) -> None:
    """Show a task, follow it to its end, answer its questions, or cancel it.

    Raises:
        UsageError: the questions cannot be answered here, or there are none.
        ErrorResponse: the server does not know the task, or the task has failed.
        TaskCancelled: the task was cancelled.
        ToolFailed: the tool reports a failure.
    """
    handle = job.client.task(job.options.id)
    match job.options.action:
        case "get":
            _show(job, await handle.refresh())
        case "watch":
            await _watch(job, handle)
        case "answer":
            await _answer(job, handle)
        case _:
            await handle.cancel()
            _show(job, await handle.refresh())


async def _watch(job: Job, handle: TaskHandle) -> None:
    """Show each state on standard error, and print the result as `call` does; with ``--json`` print each state."""
    may_answer = _may_answer(job)
    async for state in handle.states(answering=may_answer):
        if job.options.json:
            job.output.line(json_line(_document(state)))
            job.output.flush()
        else:
            job.notes.say(_line(state))
            if state.questions and not may_answer:
                job.notes.say("answer with trio-mcp task answer ID, in a terminal or with --answer FILE")
    result = await handle.result(raise_on_error=job.options.json)
    if not job.options.json:
        print_result(job, None, result)


async def _answer(job: Job, handle: TaskHandle) -> None:
    state = await handle.refresh()
    if not state.questions:
        raise UsageError(f"the task has no open question: it is {state.status}")
    if not _may_answer(job):
        raise UsageError(f"the task asks {_line(state)!r}: use --answer FILE, or a terminal")
    answers = await ClientExtensionPoints(job.client).answer_questions(state.questions, "tasks/get")
    await handle.answer(answers)
    _show(job, await handle.refresh())


def _may_answer(job: Job) -> bool:
    return job.options.answer is not None or can_ask()


def _show(job: Job, state: TaskState) -> None:
    if job.options.json:
        job.output.document(_document(state))
    else:
        job.output.table(("", ""), _facts(state))


def _facts(state: TaskState) -> Iterator[tuple[str, str]]:
    yield "task", state.id
    yield "status", state.status
    if state.message is not None:
        yield "message", state.message
    yield "created", state.created_at
    yield "updated", state.updated_at
    yield "kept for", "ever" if state.ttl is None else f"{state.ttl:g} s"
    for message in _messages(state):
        yield "question", message
    if state.outcome is not None:
        yield (
            ("error", str(state.outcome.get("message")))
            if state.status == "failed"
            else (
                "result",
                json_line(state.outcome),
            )
        )


def _line(state: TaskState) -> str:
    """Return the state on one line."""
    return visible_line(": ".join([state.status, *([state.message] if state.message else _messages(state))]))


def _messages(state: TaskState) -> list[str]:
    """Return the text of each open question, or its method if it has none."""
    return [str(each.get("params", {}).get("message", each.get("method"))) for each in state.questions.values()]


def _document(state: TaskState) -> JSONObject:
    """Return the state as the protocol writes it."""
    members: dict[str, Any] = {
        "taskId": state.id,
        "status": state.status,
        "statusMessage": state.message,
        "createdAt": state.created_at,
        "lastUpdatedAt": state.updated_at,
        "inputRequests": state.questions or None,
        "error" if state.status == "failed" else "result": state.outcome,
        "pollIntervalMs": round(state.poll_interval * 1000),
    }
    ttl = {"ttlMs": None if state.ttl is None else round(state.ttl * 1000)}
    return {name: value for name, value in members.items() if value is not None} | ttl
