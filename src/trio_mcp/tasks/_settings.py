"""The settings of the tasks of a server."""

from __future__ import annotations

import math
from typing import Any

from attrs import Attribute, field, frozen

from ._store import MemoryTaskStore, TaskStore

__all__ = ["TaskSettings"]


def _not_negative(_: object, attribute: Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or math.isnan(value) or value < 0:
        raise ValueError(f"TaskSettings({attribute.name}={value!r}): must be a number of seconds, at least 0")


def _positive(_: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and (isinstance(value, bool) or not 0 < value < math.inf):
        raise ValueError(f"TaskSettings({attribute.name}={value!r}): must be a number above 0")


@frozen(kw_only=True)
class TaskSettings:
    """The settings of the tasks of a server, for `Server(tasks=...)`.

    Raises:
        ValueError: a number is out of its range.
    """

    after: float = field(default=2.0, validator=_not_negative)
    """The seconds for which the call of a tool with ``task="optional"`` is answered like any call. A longer one becomes
    a task. A call that waits for the answer to a question has its seconds again when the answer arrives."""
    ttl: float | None = field(default=3600.0, validator=_positive)
    """The seconds for which a task is kept, from its creation; None for ever. A handler that still works then is
    cancelled, and its task fails."""
    poll_interval: float = field(default=1.0, validator=_positive)
    """The seconds that clients shall wait between two requests for the state of a task."""
    max_tasks: int = field(default=1000, validator=_positive)
    """The number of tasks that one caller may have: an authenticated principal, or all callers without authentication
    together. Tasks that have ended count until they are deleted. Beyond it, tools with ``task="optional"`` are called
    like any tool, and those with ``task="required"`` are refused as busy."""
    store: TaskStore = field(factory=MemoryTaskStore)
    """Keeps the tasks: in memory by default."""
