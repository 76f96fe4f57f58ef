"""Tasks: calls that go on after their request was answered, for servers and clients.

Specification: https://modelcontextprotocol.io/extensions/tasks/overview
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from . import types as types
    from ._client import FollowedTask as FollowedTask
    from ._client import TaskHandle as TaskHandle
    from ._client import TaskStates as TaskStates
    from ._client import open_task as open_task
    from ._client import start_task as start_task
    from ._record import TaskRecord as TaskRecord
    from ._record import TaskReplay as TaskReplay
    from ._record import TaskStatus as TaskStatus
    from ._server import ServerTasks as ServerTasks
    from ._settings import TaskSettings as TaskSettings
    from ._shared import SharedTaskStore as SharedTaskStore
    from ._sqlite import SqliteTaskStore as SqliteTaskStore
    from ._store import MemoryTaskStore as MemoryTaskStore
    from ._store import TaskStore as TaskStore
    from ._watch import TaskState as TaskState
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "": ("types",),
            "_client": ("FollowedTask", "TaskHandle", "TaskStates", "open_task", "start_task"),
            "_record": ("TaskRecord", "TaskReplay", "TaskStatus"),
            "_server": ("ServerTasks",),
            "_settings": ("TaskSettings",),
            "_shared": ("SharedTaskStore",),
            "_sqlite": ("SqliteTaskStore",),
            "_store": ("MemoryTaskStore", "TaskStore"),
            "_watch": ("TaskState",),
        },
    )  # fmt: skip
