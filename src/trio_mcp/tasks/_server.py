"""The tasks of a server: which calls become tasks, and the methods by which clients follow them.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from .. import Context, McpError, MissingCapability, Server, StructureError, TooManyTasks
from ..lowlevel import BUSY, ServerExtensionPoints, ServingPart, run_of
from ..types import structure
from ..wire import INTERNAL_ERROR, INVALID_PARAMS, JsonObject, is_modern, is_object
from . import types
from ._exchange import TaskExchange
from ._record import EXTENSION, LISTENED, TaskRecord
from ._runner import TaskRunner, open_runner
from ._settings import TaskSettings

if TYPE_CHECKING:
    from ..lowlevel import Around, TaskMode

__all__ = ["ServerTasks"]

_log = logging.getLogger("trio_mcp.tasks")


@define(eq=False)
class ServerTasks:
    """The tasks of one server, which it makes for `Server(tasks=...)` or its first tool with `task=`.

    Args:
        server: the server, which declares the extension from now on.
        settings: the settings of its tasks.
    """

    server: Server
    settings: TaskSettings
    _part: ServingPart[TaskRunner] = field(init=False)

    def __attrs_post_init__(self) -> None:
        server, points = self.server, ServerExtensionPoints(self.server)
        self._part = points.add_part(partial(open_runner, settings=self.settings))
        server.declare_extension(EXTENSION)
        server.method("tasks/get", extension=EXTENSION)(self._get)
        server.method("tasks/update", extension=EXTENSION)(self._update)
        server.method("tasks/cancel", extension=EXTENSION)(self._cancel)
        points.listen_filter(LISTENED, extension=EXTENSION)(self._listened)

    def around(self, mode: TaskMode, inner: Around | None) -> Around:
        """Return the function around a tool whose calls may become tasks, or must.

        Args:
            mode: ``"required"`` if every call becomes a task; otherwise a call becomes one if its client can take it.
            inner: another function around the tool, which is called within the task.
        """
        become = self._required if mode == "required" else self._optional

        async def around(context: Context, call: Callable[[], Awaitable[Any]]) -> Any:
            work = call if inner is None else partial(inner, context, call)
            if isinstance(run_of(context).exchange, TaskExchange):  # a replayed handler of a task
                return await work()
            return await become(context, work)

        return around

    async def _required(self, context: Context, work: Callable[[], Awaitable[Any]]) -> Any:
        context.require_extension(EXTENSION)
        if not is_modern(context.revision):
            raise MissingCapability(
                f"this tool runs as a task, which revision {context.revision} does not have",
                {"extensions": {EXTENSION: {}}},
            )
        runner = self._runner(context)
        try:
            await runner.begin(context)
        except TooManyTasks as refusal:
            raise McpError(BUSY, f"too busy: {refusal}; try again later") from None
        except Exception:  # noqa: BLE001 # a store of another author may raise anything
            _log.exception("a call could not become a task")
            raise McpError(INTERNAL_ERROR, "the call could not become a task; the server's log says why") from None
        return await work()

    async def _optional(self, context: Context, work: Callable[[], Awaitable[Any]]) -> Any:
        runner = self._part.of(context)
        if runner is None or not _takes_tasks(context):
            return await work()
        scope = trio.CancelScope()
        run_of(context).pool.nursery.start_soon(self._become_later, runner, context, scope, name="call to task")
        try:
            return await work()
        finally:
            scope.cancel()

    async def _become_later(self, runner: TaskRunner, context: Context, scope: trio.CancelScope) -> None:
        """Make a task of a call when it takes longer than `TaskSettings.after`."""
        run = run_of(context)
        with scope:
            while (exchange := await run.tied()) is not None:
                await trio.sleep(self.settings.after)
                if exchange is not run.exchange:  # it was answered with questions, and perhaps continues
                    continue
                if not _takes_tasks(context):
                    return
                try:
                    if await runner.begin(context) is not None:
                        return
                except TooManyTasks as refusal:
                    _log.debug("a call of %r goes on as an ordinary call: %s", run.method, refusal)
                    return
                except Exception:  # noqa: BLE001 # a store of another author may raise anything
                    _log.exception("a call could not become a task, and goes on as an ordinary call")
                    return

    def _runner(self, context: Context) -> TaskRunner:
        runner = self._part.of(context)
        if runner is None:
            raise McpError(INTERNAL_ERROR, "tasks need a server that is being served; start its lifespan")
        return runner

    async def _find(self, context: Context, id: str) -> tuple[TaskRunner, TaskRecord]:
        runner = self._runner(context)
        record = await runner.find(id, context.principal)
        if record is None:
            raise McpError(INVALID_PARAMS, f"there is no task {id!r}, or it has expired")
        return runner, record

    async def _get(self, params: types.GetTaskRequestParams, context: Context) -> JsonObject:
        _, record = await self._find(context, params.task_id)
        return record.to_wire_in_detail()

    async def _update(self, params: dict[str, Any], context: Context) -> None:
        answers = params.get("inputResponses")
        # Each answer is checked against its question; those to no open question are ignored, whatever they are.
        known: JsonObject = {**params, "inputResponses": {}} if is_object(answers) else params
        try:
            read = structure(known, types.UpdateTaskRequestParams, revision=context.revision)
        except StructureError as error:
            fault = f"the params of 'tasks/update' do not fit: {'; '.join(error.faults)}"
            raise McpError(INVALID_PARAMS, fault) from None
        runner, record = await self._find(context, read.task_id)
        await runner.answer(record, answers or {}, context)

    async def _cancel(self, params: types.CancelTaskRequestParams, context: Context) -> None:
        runner, record = await self._find(context, params.task_id)
        await runner.cancel(record)

    async def _listened(self, wanted: Sequence[str], context: Context) -> Sequence[str]:
        """Return the ids of those tasks that the caller may listen for."""
        runner = self._runner(context)
        return [id for id in wanted if await runner.find(id, context.principal) is not None]


def _takes_tasks(context: Context) -> bool:
    return is_modern(context.revision) and context.extension(EXTENSION) is not None
