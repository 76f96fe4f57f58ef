"""Tasks of the servers behind a gateway, as its callers see them.

Rules of this file:

1. A modern caller that takes tasks gets those of modern servers as they are, apart from their ids. An id names the
   server, so that the gateway has nothing to remember. With authentication it is signed for the principal: for anybody
   else there is no such task. The signature holds for as long as the gateway has the key (``keys=``).
2. For every other caller, the gateway follows a task to its end, and answers the call with its result. It does so only
   if the tool runs in no other way. If the caller gives up, the task is cancelled.
3. The same holds for the experimental tasks of 2025-11-25, which no caller of a gateway gets.
4. A connection is not idle while a task on it goes on.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import quote, unquote

import trio
from attrs import define, field, frozen

from .. import Access, Client, Context, ErrorResponse, McpError, TaskHandle, TrioMcpError, types
from ..lowlevel import ClientExtensionPoints, ServerExtensionPoints
from ..wire import MISSING_CAPABILITY, JsonObject, is_object

__all__ = [
    "TASKS",
    "TASK_CHANGED",
    "TASK_IDS",
    "TASK_METHODS",
    "ServerTaskStates",
    "TaskIds",
    "check_takes_tasks",
    "follow_task",
    "needs_task",
    "run_as_legacy_task",
    "runs_only_as_task",
    "takes_tasks",
    "with_tasks",
]

TASKS: Final = "io.modelcontextprotocol/tasks"
TASK_IDS: Final = "taskIds"
"""The member of the filter of `subscriptions/listen` that names tasks."""
TASK_CHANGED: Final = "notifications/tasks"
TASK_METHODS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_DECLARED: Final[JsonObject] = {"extensions": {TASKS: {}}}
_FINAL: Final = frozenset({"completed", "failed", "cancelled"})
_LONGEST: Final = 24 * 3600.0
"""The seconds for which a task that never expires keeps its connection open, since it was last seen."""
_TIDY_AT: Final = 256
"""The number of tasks from which on expired ones are looked for."""
_SECONDS_TO_CANCEL: Final = 5.0


@frozen(eq=False)
class TaskIds:
    """The ids that callers see, and the servers and ids that they stand for (rule 1)."""

    _points: ServerExtensionPoints

    def public(self, server: str, id: str, access: Access | None) -> str:
        """Return the id that a caller sees."""
        signature = "" if access is None else self._points.signature(_signed(server, id, access))
        return f"{quote(server, safe='')}:{signature}:{id}"

    def resolve(self, public: str, access: Access | None) -> tuple[str, str] | None:
        """Return the server and its id; None if this gateway has not given the id to this caller."""
        server, first, rest = public.partition(":")
        signature, second, id = rest.partition(":")
        if not first or not second:
            return None
        name = unquote(server)
        valid = not signature if access is None else self._points.has_signed(_signed(name, id, access), signature)
        return (name, id) if valid else None


def _signed(server: str, id: str, access: Access) -> str:
    return f"{access.principal}\0{server}\0{id}"


@define(eq=False)
class ServerTaskStates:
    """The tasks on one connection to a server that go on, as far as their states have passed the gateway.

    Args:
        server: the name of the server.
        ids: makes the ids that callers see.
    """

    _server: str
    _ids: TaskIds
    _expiries: dict[str, float] = field(factory=dict[str, float], init=False)
    """The time of Trio's clock until which each task keeps the connection open, by its id on the server."""
    _tidy_at: int = field(default=_TIDY_AT, init=False)

    def passed(self, state: JsonObject, access: Access | None) -> JsonObject:
        """Return the state of a task as its caller gets it."""
        id: Any = state.get("taskId")
        if not isinstance(id, str):
            return state
        if state.get("status") in _FINAL:
            self._expiries.pop(id, None)
        else:
            self._keep(id, state.get("ttlMs"))
        return {**state, "taskId": self._ids.public(self._server, id, access)}

    def _keep(self, id: str, ttl: object) -> None:
        seconds = ttl / 1000 if isinstance(ttl, int | float) and ttl >= 0 else _LONGEST
        self._expiries[id] = trio.current_time() + min(seconds, _LONGEST)
        if len(self._expiries) >= self._tidy_at:
            self._forget_expired()
            self._tidy_at = max(_TIDY_AT, 2 * len(self._expiries))

    def _forget_expired(self) -> None:
        now = trio.current_time()
        self._expiries = {id: expiry for id, expiry in self._expiries.items() if expiry > now}

    @property
    def any_goes_on(self) -> bool:
        """True if a task goes on (rule 4)."""
        self._forget_expired()
        return bool(self._expiries)


def takes_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Return True if the capabilities of a modern caller, or of a server, declare tasks."""
    extensions: Any = capabilities.get("extensions")
    return is_object(extensions) and TASKS in extensions


def with_tasks(capabilities: JsonObject) -> JsonObject:
    """Return capabilities that declare tasks as well."""
    extensions: Any = capabilities.get("extensions") or {}
    return {**capabilities, "extensions": {**extensions, TASKS: {}}}


def check_takes_tasks(capabilities: Mapping[str, Any]) -> None:
    """Raise `McpError` if a caller that names a task does not declare tasks."""
    if not takes_tasks(capabilities):
        fault = f"the client must declare the extension {TASKS!r}"
        raise McpError(MISSING_CAPABILITY, fault, {"requiredCapabilities": _DECLARED})


def needs_task(refusal: ErrorResponse) -> bool:
    """Return True if a server has refused a call because the call can only be a task."""
    data: Any = refusal.data
    needed: Any = data.get("requiredCapabilities") if is_object(data) else None
    return refusal.code == MISSING_CAPABILITY and is_object(needed) and takes_tasks(needed)


async def follow_task(client: Client, created: JsonObject, context: Context[Any]) -> JsonObject:
    """Follow a task to its end, and return the result of its call (rule 2).

    The client's callbacks answer its questions, and its messages become progress of the call.

    Args:
        created: the result that stands for the task.

    Raises what `TaskHandle.result` raises.
    """
    handle = client.task(created["taskId"])
    async with _cancelled_if_left(handle):
        told, number = None, 0
        async for state in handle.states():
            if state.message not in (None, told) and not state.is_final:
                told, number = state.message, number + 1
                await context.report_progress(number, message=told)
        final = handle.state
        if final is not None and final.status == "completed" and final.outcome is not None:
            return final.outcome
        return _json_of(await handle.result(), client)  # it raises why there is none


async def run_as_legacy_task(client: Client, params: JsonObject) -> JsonObject:
    """Call a tool of 2025-11-25 that runs only as a task, and return the result when the task has ended (rule 3)."""
    created = await ClientExtensionPoints(client).request_json("tools/call", {**params, "task": {}})
    task: Any = created.get("task")
    if not is_object(task) or not isinstance(task.get("taskId"), str):
        return created
    handle = client.task(task["taskId"])
    async with _cancelled_if_left(handle):
        return _json_of(await handle.result(), client)


def _json_of(result: types.CallToolResult, client: Client) -> JsonObject:
    json: JsonObject = types.unstructure(result, revision=client.revision)
    return json


@asynccontextmanager
async def _cancelled_if_left(handle: TaskHandle) -> AsyncGenerator[None]:
    """Cancel the task if the block is left by an exception while the task goes on, within a bounded time."""
    try:
        yield
    except BaseException:
        if handle.state is None or not handle.state.is_final:
            with trio.move_on_after(_SECONDS_TO_CANCEL, shield=True), suppress(TrioMcpError):
                await handle.cancel()
        raise


def runs_only_as_task(tool: types.Tool) -> bool:
    """Return True if the definition of a tool says so, which those of 2025-11-25 may."""
    return tool.execution is not None and tool.execution.task_support == "required"
