"""TEMPORARY"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class GetTaskRequestParams:
    taskId: str

    @property
    def task_id(self) -> str:
        return self.taskId


CancelTaskRequestParams = GetTaskRequestParams


@dataclass
class UpdateTaskRequestParams:
    taskId: str
    inputResponses: dict[str, Any]

    @property
    def task_id(self) -> str:
        return self.taskId

    @property
    def input_responses(self) -> dict[str, Any]:
        return self.inputResponses


from collections.abc import Mapping

from attrs import frozen

from trio_mcp.types._model import NO_EXTRA, Model


@frozen(kw_only=True, repr=False, eq=False)
class Task(Model):
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    status_message: str | None = None
    extra: Mapping[str, Any] = NO_EXTRA


DetailedTask = Task
