"""Stores of tasks: the interface, and the store in memory.

Rules of a store:

1. What a method has returned for is kept, also if the process is killed in the next moment (a store in memory: if its
   program goes on).
2. A final status never changes: `put` refuses it, and says so. So a task never ends twice, whoever ends it.
3. The owner of a task is a serving. A task that has not ended and whose owner is gone is abandoned; another serving
   finds it by `abandoned` and ends it. A store that cannot be certain may take an owner for gone that is not; then its
   tasks end all the same, and it learns that like any other end (rule 2).
4. An answer that another serving than the owner has taken is stored by `swap`, and stays until the owner stores a state
   without its question; see `TaskRecord.keeping`.
"""

from __future__ import annotations

import heapq
import secrets
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import trio
from attrs import define, field

from .. import TooManyTasks
from ._record import TaskRecord

__all__ = ["MemoryTaskStore", "TaskStore", "too_many_tasks"]


class TaskStore(Protocol):
    """Keeps the tasks of a server. The package has `MemoryTaskStore`, `SqliteTaskStore` and `SharedTaskStore`.

    The methods are called in tasks of the serving, several at once, and may be cancelled: then they have done either
    all or nothing, or soon undo what they have done. An exception of one is logged; it fails the request for which it
    was called. A store that can fail and have done its work all the same takes back what `create` and `swap` have done.
    """

    @property
    def is_shared(self) -> bool:
        """True if other processes may use the same tasks, so that they can be changed unnoticed."""
        ...

    def owner(self) -> AbstractAsyncContextManager[str]:
        """Enter a new owner: yield its name, which counts as alive until the block ends or the process does."""
        ...

    async def create(self, record: TaskRecord, most: int) -> None:
        """Keep a new task.

        Args:
            record: the state of the task.
            most: the number of tasks that its principal may have.

        Raises:
            TooManyTasks: the principal has that many already.
        """
        ...

    async def get(self, id: str) -> TaskRecord | None:
        """Return the task *id*; None if there is none."""
        ...

    async def put(self, records: Collection[TaskRecord]) -> Collection[str]:
        """Replace tasks by these records, each if it may be; return the ids of the others, which have not changed.

        The answers that are stored stay, as far as `TaskRecord.keeping` says (rule 4).
        A task may not be replaced if it has ended (rule 2) or is gone. A store may also refuse a state that is no end
        and names another owner than the task has by now. If this raises or is cancelled, any of the tasks may have been
        replaced; the caller puts all of them again, and those that are already as their record says count as replaced.
        """
        ...

    async def swap(self, record: TaskRecord, changed: TaskRecord) -> bool:
        """Replace a task by *changed*, if *record* is still its state; return whether it was.

        If *changed* has further answers, the owner learns it from `changed_by_others`.
        """
        ...

    async def delete(self, id: str) -> None:
        """Delete the task *id*, if it is there."""
        ...

    async def abandoned(self) -> Sequence[TaskRecord]:
        """Return the tasks that have not ended and whose owners are gone, each time until they have ended.

        Those with a `TaskRecord.replay` may be left out: no handler of theirs runs, and any serving can go on with it.
        """
        ...

    async def due(self, now: float) -> Sequence[TaskRecord]:
        """Return tasks whose expiry is not after *now*; not necessarily all of them at once.

        A store that several processes use may return some of the tasks to each, if each is returned to one of them.
        """
        ...

    async def next_expiry(self) -> float | None:
        """Return the earliest expiry of a task that `due` may return, or an earlier time; None if none expires."""
        ...

    async def changed_by_others(self, owner: str) -> Mapping[str, TaskRecord | None]:
        """Return the tasks of *owner* that others have ended or answered since, by id; None for one that is deleted.

        Each change is returned at least once. A task may be returned that nobody has changed.
        """
        ...


def too_many_tasks(most: int) -> TooManyTasks:
    """Return the exception of `TaskStore.create`."""
    return TooManyTasks(f"the caller has {most} tasks already (TaskSettings.max_tasks)")


@define(eq=False)
class MemoryTaskStore:
    """Keeps tasks in the memory of this process; they are lost when it ends.

    Several servers of one process may share it.
    """

    _records: dict[str, TaskRecord] = field(factory=dict[str, TaskRecord], init=False)
    _numbers: dict[str | None, int] = field(factory=dict["str | None", int], init=False)
    """The number of tasks of each principal."""
    _owners: set[str] = field(factory=set[str], init=False)
    _expiries: list[tuple[float, str]] = field(factory=list[tuple[float, str]], init=False)
    """A heap of the expiries and ids; an entry whose task has another expiry, or is gone, is stale."""
    _changed: dict[str, set[str]] = field(factory=dict[str, set[str]], init=False)
    """The ids for `changed_by_others`, by owner."""
    is_shared: bool = field(default=False, init=False)
    """False: other processes cannot use it."""

    @asynccontextmanager
    async def owner(self) -> AsyncGenerator[str]:
        """Enter a new owner."""
        name = secrets.token_hex(8)
        self._owners.add(name)
        try:
            yield name
        finally:
            self._owners.discard(name)
            self._changed.pop(name, None)

    async def create(self, record: TaskRecord, most: int) -> None:
        """Keep a new task; see `tasks.TaskStore.create`."""
        await trio.lowlevel.checkpoint()
        number = self._numbers.get(record.principal, 0)
        if number >= most:
            raise too_many_tasks(most)
        self._numbers[record.principal] = number + 1
        self._set(record)

    def _set(self, record: TaskRecord) -> None:
        known = self._records.get(record.id)
        self._records[record.id] = record
        if record.expires_at is not None and (known is None or known.expires_at != record.expires_at):
            heapq.heappush(self._expiries, (record.expires_at, record.id))

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; see `tasks.TaskStore.get`."""
        await trio.lowlevel.checkpoint()
        return self._records.get(id)

    async def put(self, records: Collection[TaskRecord]) -> Collection[str]:
        """Replace tasks; see `tasks.TaskStore.put`."""
        await trio.lowlevel.checkpoint()
        return {record.id for record in records if not self._replace(record)}

    def _replace(self, record: TaskRecord) -> bool:
        known = self._records.get(record.id)
        if known is None or known.is_final:
            return False
        record = record.keeping(known)
        if record.is_change_by_other(known):
            self._changed.setdefault(known.owner, set()).add(record.id)
        self._set(record)
        return True

    async def swap(self, record: TaskRecord, changed: TaskRecord) -> bool:
        """Replace a task that has not changed; see `tasks.TaskStore.swap`."""
        await trio.lowlevel.checkpoint()
        return self._records.get(record.id) == record and self._replace(changed)

    async def delete(self, id: str) -> None:
        """Delete a task; see `tasks.TaskStore.delete`."""
        await trio.lowlevel.checkpoint()
        record = self._records.pop(id, None)
        if record is not None:
            self._numbers[record.principal] -= 1
            if not self._numbers[record.principal]:
                del self._numbers[record.principal]

    async def abandoned(self) -> Sequence[TaskRecord]:
        """Return the tasks whose owners are gone."""
        await trio.lowlevel.checkpoint()
        return [each for each in self._records.values() if not each.is_final and each.owner not in self._owners]

    async def due(self, now: float) -> Sequence[TaskRecord]:
        """Return the tasks that expire; see `tasks.TaskStore.due`."""
        await trio.lowlevel.checkpoint()
        due: Iterable[tuple[float, str]] = [each for each in self._expiries if each[0] <= now]
        return [self._records[id] for expiry, id in due if self._is_current(expiry, id)]

    async def next_expiry(self) -> float | None:
        """Return the earliest expiry."""
        await trio.lowlevel.checkpoint()
        while self._expiries and not self._is_current(*self._expiries[0]):
            heapq.heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else None

    def _is_current(self, expiry: float, id: str) -> bool:
        record = self._records.get(id)
        return record is not None and record.expires_at == expiry

    async def changed_by_others(self, owner: str) -> Mapping[str, TaskRecord | None]:
        """Return the tasks that others have changed; see `tasks.TaskStore.changed_by_others`."""
        await trio.lowlevel.checkpoint()
        return {id: self._records.get(id) for id in self._changed.pop(owner, ())}
