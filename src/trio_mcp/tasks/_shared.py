"""A store of tasks on a backend that the processes of one service share (`abc.Shared`), on one machine or on many.

An owner keeps its tasks under an internal name, its *keeper*. The backend has, by name:

- ``task/ID``: the record of a task, with its keeper and its seat; nothing but `_DELETED` for an hour after it was
  deleted.
- ``seats/PRINCIPAL/N``: a number, and the ids of some tasks of a principal. Each such value has a limited number of
  seats.
- ``kept/KEEPER``, a group: the ids of the tasks of a keeper, each with its seat. It is an index, in which ids may be
  stale.
- ``keepers``, a group: the latest beat of each keeper, and ``keeper/KEEPER``: the same as a value.
- ``changed/OWNER``, a group: the ids of the tasks of an owner that others are ending, or have ended; and an id with a
  random suffix for each time that others are answering questions of one, or have done so, with the keys of those
  questions.

Rules of this file:

1. The order of writes is: index, seat, record; and the other way round when a task is deleted. So a process that dies
   in between leaves at most an id in the index of its keeper: whoever takes the keeper over frees the seat.
2. A keeper is gone when another process has read the same beat of it for `_GONE_AFTER` seconds, and could read all that
   time: an interruption of the backend, which stops all beats, makes nobody gone. Being gone is written in place of the
   value of that beat, or of an older one, by a swap; so it is certain, and for ever. A keeper that leaves says so.
3. An owner whose keeper is gone, because its process was paused or cut off, learns it from its next beat, and goes on
   with a new keeper. The tasks of the old one are ended by others. Each of them ends once all the same (rule 2 of
   `_store`), and its handler is cancelled. Until then its handlers go on: while the backend cannot be reached, an owner
   cannot know whether others can reach it.
4. A new entry of an index counts only if its keeper has had a beat within the last `_FRESH` seconds, or has one now. So
   whoever finds that a keeper is gone, and reads its index afterwards, finds all of its tasks.
5. A call that was interrupted may have done its write, or may do it even later. So `put` takes a state that is there
   already as stored, and refuses a state of an owner that has lost its task. What `create`, `delete` and `swap` have
   left is cleared away after the next beat, by writes after which a late one of theirs fails.
6. A change of a task of another owner is announced in ``changed/OWNER`` before it is made, so that the owner learns it
   whoever dies in between. The owner leaves an announcement there until it has seen the change. An announcement of
   answers has a name of its own, so that the owner never removes one that it has not seen.
7. Each keeper sees to the expiry of the tasks in its index, and knows them in memory. Two keepers may have the same
   task; it expires once.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import math
import random
import secrets
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import trio
from attrs import Attribute, asdict, define, evolve, field, frozen

from .. import SharedUnavailable
from ..abc import Shared, SharedState
from ..lowlevel import owned_nursery
from ..wire import decode, encode
from ._record import TaskRecord
from ._store import too_many_tasks

__all__ = ["SharedTaskStore"]

_log = logging.getLogger("trio_mcp.tasks")

_VERSION: Final = 1
"""The version of what is written. It is a part of all names: processes that write otherwise have other tasks."""
_BEAT = 1.5
"""The seconds between two beats of a keeper."""
_GONE_AFTER = 10.0
"""The seconds without a beat after which a keeper is gone (rule 2)."""
_FRESH = _GONE_AFTER / 2
"""The seconds after a beat for which nobody can have taken its keeper for gone (rule 4)."""
_LONGEST_GAP = _GONE_AFTER / 2
"""The longest time between two looks at all keepers after which earlier ones still count (rule 2)."""
_SEATS = 250
"""The number of seats of one value; many small values are written at once more quickly than a large one."""
_MOST_AT_ONCE = 100
"""The number of expired tasks that are read at once."""
_HOUR, _DAY = 3600.0, 86_400.0
_GONE, _DELETED = b"gone", b""
_LONGEST_NAME = 60
_LONGEST_ID = 100


def _is_name(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and text.isascii() and text.isprintable() and " " not in text


def _checked_name(_: object, attribute: Attribute[Any], value: str) -> None:
    if not _is_name(value, _LONGEST_NAME):
        raise ValueError(
            f"SharedTaskStore({attribute.name}={value!r}): must be 1 to {_LONGEST_NAME} printable ASCII characters "
            "without spaces"
        )


@frozen(kw_only=True)
class _Stored:
    """The part of a task that is stored."""

    record: TaskRecord
    seat: str
    keeper: str
    """The keeper of the owner that runs its handler, or ran it last."""
    mark: int = 0
    """A number that differs after a change was undone, so that the change cannot be made late (rule 5)."""

    def encoded(self) -> bytes:
        """Return the value that is written."""
        return encode({**asdict(self, recurse=False), "record": self.record.to_stored()})

    @property
    def seconds(self) -> float:
        """The time after which the backend may drop it: well after its expiry, if no process has deleted it."""
        expiry = self.record.expires_at
        return math.inf if expiry is None else max(0.0, expiry - self.record.updated_at) + _HOUR


def _stored(value: bytes | None) -> _Stored | None:
    """Return what a value says of a task; None if there is no task."""
    if not value:
        return None
    members: dict[str, Any] = decode(value)
    members["record"] = TaskRecord.from_stored(members["record"])
    return _Stored(**members)


def _number(beat: bytes | None) -> int:
    return int(beat or b"0")


@define(eq=False)
class _Keeper:
    """The keeper of an owner of this process."""

    name: str
    tried: int = 0
    """The number of its latest beat; each attempt has another one."""
    beat: int = 0
    """The number of its latest beat that was written."""
    beaten_at: float = -math.inf
    """The time at which that beat began."""
    beating: trio.Lock = field(factory=trio.Lock)


@define
class _Kept:
    """A task in the index of a keeper of this process."""

    keeper: str
    seat: str
    expires_at: float | None = None
    """Its expiry; None for never, and before it is stored."""


@frozen
class _Undecided:
    """A change of a task of which nobody knows whether it was made, or will be."""

    values: tuple[bytes, bytes]
    """The old and the new value; one of them is there unless others have changed the task since."""
    undone: _Stored


@define(eq=False)
class SharedTaskStore:
    """Keeps tasks in a backend that the processes of a service share, so that each task is known to all of them.

    A task that one process has made can be read, answered and cancelled through any other. Its handler runs in one
    process at a time. If it is answered or cancelled through another process, the one with its handler learns that
    after one second, or `TaskSettings.poll_interval` if that is longer; up to 30 s later if the backend was
    interrupted. With ``Server(asking="replayed", keys=[...])``, the process that has taken the last answer runs the
    handler. If a process dies, or the backend hears nothing of it for another reason, its tasks are ended by another
    process after 10 to 20 s; those that wait for answers with ``asking="replayed"`` go on in any other.

    Args:
        shared: the backend. While it cannot be reached, requests about tasks fail, handlers go on, and their outcomes
            are stored afterwards.
        name: names the tasks in the backend. Services of one backend that shall not have the same tasks have
            different names.

    Use one object in a single `trio.run`. Entering a serving raises `SharedUnavailable` if the backend cannot be
    reached.

    Raises:
        ValueError: the name is not valid.
    """

    shared: Shared
    name: str = field(default="tasks", kw_only=True, validator=_checked_name)
    is_shared: bool = field(default=True, init=False)
    """True: other processes may use the same tasks."""
    _states: dict[str, SharedState] = field(factory=dict[str, SharedState], init=False)
    """The open states of the backend, by owner."""
    _keepers: dict[str, _Keeper] = field(factory=dict[str, _Keeper], init=False)
    """The keepers of this process, by owner."""
    _kept: dict[str, _Kept] = field(factory=dict[str, _Kept], init=False)
    """The tasks in their indexes, by id."""
    _expiries: list[tuple[float, str]] = field(factory=list[tuple[float, str]], init=False)
    """A heap of the expiries and ids; an entry whose task has another expiry, or is not kept, is stale."""
    _doomed: dict[str, str] = field(factory=dict[str, str], init=False)
    """The seats of tasks whose creation or deletion was interrupted, by id; they are to be deleted (rule 5)."""
    _undecided: dict[str, _Undecided] = field(factory=dict[str, "_Undecided"], init=False)
    """The change of a `swap` that was interrupted, by the id of the task; it is to be undone (rule 5)."""
    _seen: dict[str, tuple[bytes, float]] = field(factory=dict[str, tuple[bytes, float]], init=False)
    """The latest beat of each keeper, and the time at which it was read first (rule 2)."""
    _stuck: dict[str, tuple[bytes, float]] = field(factory=dict[str, tuple[bytes, float]], init=False)
    """The same of the values of keepers of which `_seen` has an older beat."""
    _seen_at: float = field(default=-math.inf, init=False)

    def _key(self, *parts: str) -> str:
        return "/".join((self.name, str(_VERSION), *parts))

    @property
    def _state(self) -> SharedState:
        assert self._states, "the store is used within `owner`"
        return next(reversed(self._states.values()))

    # --- Owners ---

    @asynccontextmanager
    async def owner(self) -> AsyncGenerator[str]:
        """Enter a new owner."""
        owner = secrets.token_hex(8)
        async with self.shared.open() as state:
            self._states[owner] = state
            try:
                await self._begin_keeper(owner)
                async with owned_nursery() as nursery:
                    nursery.start_soon(self._beat_for_ever, owner, name="beats of an owner of tasks")
                    yield owner
            finally:
                with trio.CancelScope(shield=True):
                    await self._leave(owner)

    async def _begin_keeper(self, owner: str) -> None:
        name = f"{owner}-{secrets.token_hex(4)}"
        await self._state.lease(self._key("keepers"), name, b"0", seconds=math.inf)
        await self._state.swap(self._key("keeper", name), None, b"0")
        self._keepers[owner] = _Keeper(name)
        await self._beat(owner)

    async def _leave(self, owner: str) -> None:
        """Let others take over the tasks that are left."""
        keeper = self._keepers.pop(owner, None)
        try:
            if keeper is not None and await self._is_made_gone(keeper.name, b"%d" % keeper.tried):
                if await self._state.leases(self._key("kept", keeper.name)):
                    await self._state.lease(self._key("keepers"), keeper.name, _GONE, seconds=math.inf)
                else:
                    await self._state.release(self._key("keepers"), keeper.name)
        except SharedUnavailable as error:
            _log.warning("an owner of tasks could not say that it leaves; others notice it soon: %s", error)
        finally:
            del self._states[owner]
            if not self._states:
                for memory in (self._kept, self._expiries, self._doomed, self._undecided, self._seen, self._stuck):
                    memory.clear()

    async def _beat_for_ever(self, owner: str) -> None:
        is_interrupted = False
        while True:
            await trio.sleep(_BEAT)
            try:
                await self._beat(owner)
                await self._look_at_keepers()
                await self._clear_away()
            except SharedUnavailable as error:
                if not is_interrupted:
                    _log.warning("tasks cannot be kept until their backend can be reached again: %s", error)
                is_interrupted = True
            except Exception:  # noqa: BLE001 # a backend of another author may raise anything
                _log.exception("a sign of life of this process has failed; it is given again in %g s", _BEAT)
            else:
                is_interrupted = False

    async def _beat(self, owner: str) -> None:
        """Give a sign of life; begin with a new keeper if the old one is gone (rule 3).

        The lease is written before the value, so that others read the index of a gone keeper once more: if a whole
        machine was paused, its clock was as well, and rule 4 may have let a task into an index that they had read.
        """
        keeper, is_beaten = self._keepers[owner], False
        key = self._key("keeper", keeper.name)
        async with keeper.beating:
            while not is_beaten:
                began, keeper.tried = trio.current_time(), keeper.tried + 1
                new = b"%d" % keeper.tried
                await self._state.lease(self._key("keepers"), keeper.name, new, seconds=math.inf)
                if await self._state.swap(key, b"%d" % keeper.beat, new):
                    keeper.beat, keeper.beaten_at, is_beaten = keeper.tried, began, True
                    continue
                value = await self._state.get(key)
                if value in {_GONE, None}:
                    break
                keeper.beat = _number(value)  # it was written by an interrupted call
        if not is_beaten and self._keepers.get(owner) is keeper:
            _log.warning("this process was paused or cut off for so long that others end the tasks that it had")
            await self._begin_keeper(owner)

    async def _look_at_keepers(self) -> None:
        beats = await self._state.leases(self._key("keepers"))
        now = trio.current_time()
        if now > self._seen_at + _LONGEST_GAP:
            self._seen.clear()
        seen, self._seen_at = self._seen, now
        self._seen = {
            keeper: seen[keeper] if keeper in seen and seen[keeper][0] == beat else (beat, now)
            for keeper, beat in beats.items()
        }

    async def _is_made_gone(self, keeper: str, beat: bytes) -> bool:
        """Write that a keeper is gone, if it has not had another beat than *beat*; return whether it is gone."""
        key = self._key("keeper", keeper)
        value = await self._state.get(key)
        if value == _GONE:
            return True
        if value is not None and _number(value) > _number(beat):  # *beat* is older: it was written late
            if self._stuck.get(keeper, (None, 0.0))[0] != value:
                self._stuck[keeper] = value, self._seen_at
            if self._seen_at < self._stuck[keeper][1] + _GONE_AFTER:
                return False
        return await self._state.swap(key, value, _GONE, seconds=_DAY)

    # --- Indexes and seats ---

    async def _keep(self, owner: str, id: str, seat: str) -> str:
        """Enter a task into the index of a keeper of this process, that of *owner* if it has one; return its name."""
        while True:
            owner = owner if owner in self._keepers else next(iter(self._keepers))
            keeper = self._keepers[owner]
            known = self._kept.get(id)
            self._kept[id] = _Kept(keeper.name, seat, None if known is None else known.expires_at)
            await self._state.lease(self._key("kept", keeper.name), id, seat.encode(), seconds=math.inf)
            if trio.current_time() < keeper.beaten_at + _FRESH:
                return keeper.name
            await self._beat(owner)

    async def _take_seat(self, record: TaskRecord, most: int) -> tuple[str, str] | None:
        """Return the seat of a new task and its keeper; None if all seats are taken."""
        principal = "-" if record.principal is None else hashlib.sha256(record.principal.encode()).hexdigest()
        values = math.ceil(most / _SEATS)
        first = random.randrange(values)  # noqa: S311 # it spreads writes, and protects nothing
        for number in (*range(first, values), *range(first)):
            seat, room = f"{principal}/{number}", min(_SEATS, most - number * _SEATS)
            while True:
                value, ids = await self._taken(seat)
                if len(ids) >= room:
                    break
                keeper = await self._keep(record.owner, record.id, seat)
                if await self._set_taken(seat, value, [*ids, record.id]):
                    return seat, keeper
        return None

    async def _free_seat(self, id: str, seat: str) -> None:
        """Free the seat of a task, so that it cannot be taken late either (rule 5)."""
        is_free = False
        while not is_free:
            value, ids = await self._taken(seat)
            is_free = await self._set_taken(seat, value, [each for each in ids if each != id])

    async def _taken(self, seat: str) -> tuple[bytes | None, Sequence[str]]:
        """Return a value of seats, and the ids of the tasks that have them."""
        value = await self._state.get(self._key("seats", seat))
        return value, (value or b"").decode().split()[1:]

    async def _set_taken(self, seat: str, value: bytes | None, ids: Sequence[str]) -> bool:
        """Change a value of seats, if it has not changed. It begins with a number, so that none ever returns."""
        number = 0 if value is None else int(value.split()[0])
        new = " ".join((str(number + 1), *ids)).encode()
        return await self._state.swap(self._key("seats", seat), value, new, seconds=math.inf if ids else _DAY)

    async def _remove_from_index(self, id: str) -> None:
        kept = self._kept.get(id)
        if kept is not None:
            await self._state.release(self._key("kept", kept.keeper), id)
            self._kept.pop(id, None)

    async def _clear(self, id: str, seat: str) -> None:
        """Let there be no task of this id, whatever was written of it (rule 1)."""
        try:
            while (value := await self._state.get(self._key("task", id))) != _DELETED:
                await self._state.swap(self._key("task", id), value, _DELETED, seconds=_HOUR)
            await self._free_seat(id, seat)
            await self._remove_from_index(id)
        except BaseException:
            self._doomed[id] = seat
            raise

    async def _clear_away(self) -> None:
        """Clear away what interrupted calls have left (rule 5)."""
        for id, seat in [*self._doomed.items()]:
            await self._clear(id, seat)
            self._doomed.pop(id, None)
        for id, undecided in [*self._undecided.items()]:
            is_decided = False
            while not is_decided:
                value, _ = await self._find(id)
                is_decided = value not in undecided.values or await self._write(value, undecided.undone)
            self._undecided.pop(id, None)

    # --- Tasks ---

    async def create(self, record: TaskRecord, most: int) -> None:
        """Keep the task *record*, which is new.

        Args:
            record: the task.
            most: the number of tasks that its principal may have.

        Raises:
            TooManyTasks: the principal has that many already.
            SharedUnavailable: the backend cannot be reached.
        """
        is_new = False
        try:
            taken = await self._take_seat(record, most)
            if taken is None:
                await self._remove_from_index(record.id)
            else:
                stored = _Stored(record=record, seat=taken[0], keeper=taken[1])
                is_new = await self._state.swap(
                    self._key("task", record.id), None, stored.encoded(), seconds=stored.seconds
                )
        finally:
            if not is_new and record.id in self._kept:
                self._doomed[record.id] = self._kept[record.id].seat
        if taken is None:
            raise too_many_tasks(most)
        if not is_new:
            raise SharedUnavailable(
                "SharedTaskStore: a new task could not be kept, because its process was paused or cut off meanwhile"
            )
        self._expect(record)

    async def _find(self, id: str) -> tuple[bytes | None, _Stored | None]:
        if not _is_name(id, _LONGEST_ID):  # no id of a task, but any text that a client has sent
            await trio.lowlevel.checkpoint()
            return None, None
        value = await self._state.get(self._key("task", id))
        return value, _stored(value)

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; see `tasks.TaskStore.get`."""
        _, stored = await self._find(id)
        return None if stored is None else stored.record

    async def put(self, records: Collection[TaskRecord]) -> Collection[str]:
        """Replace tasks, one by one; see `tasks.TaskStore.put`."""
        return {record.id for record in records if not await self._put(record)}

    async def _put(self, record: TaskRecord) -> bool:
        while True:
            value, stored = await self._find(record.id)
            if value is None or stored is None:
                return False
            changed = evolve(stored, record=record.keeping(stored.record))
            if changed.encoded() == value:  # by an interrupted call, perhaps (rule 5)
                return True
            is_others = record.owner != stored.record.owner
            if stored.record.is_final or (is_others and not record.is_final):
                return False
            if is_others:
                await self._announce(stored.record.owner, record.id, b"")
            if await self._write(value, changed):
                return True

    async def _announce(self, owner: str, name: str, keys: bytes) -> None:
        """Announce a change to the owner of a task (rule 6)."""
        await self._state.lease(self._key("changed", owner), name, keys, seconds=_HOUR)

    async def _write(self, value: bytes | None, changed: _Stored) -> bool:
        record = changed.record
        if not await self._state.swap(self._key("task", record.id), value, changed.encoded(), seconds=changed.seconds):
            return False
        self._expect(record)
        return True

    async def swap(self, record: TaskRecord, changed: TaskRecord) -> bool:
        """Replace a task that has not changed; see `tasks.TaskStore.swap`."""
        value, stored = await self._find(record.id)
        if value is None or stored is None or stored.record != record or record.is_final:
            return False
        keeper = stored.keeper
        if changed.owner != record.owner:
            keeper = await self._keep(changed.owner, record.id, stored.seat)
        if given := [*(changed.answers.keys() - record.answers.keys())]:
            await self._announce(record.owner, f"{record.id}/{secrets.token_hex(4)}", encode(given))
        new = evolve(stored, record=changed, keeper=keeper)
        try:
            return await self._write(value, new)
        except BaseException:
            self._undecided[record.id] = _Undecided((value, new.encoded()), evolve(stored, mark=stored.mark + 1))
            raise

    async def delete(self, id: str) -> None:
        """Delete a task, and free its seat; see `tasks.TaskStore.delete`."""
        _, stored = await self._find(id)
        kept = self._kept.get(id)
        if stored is not None:
            await self._clear(id, stored.seat)
        elif kept is not None:
            await self._clear(id, kept.seat)

    async def abandoned(self) -> Sequence[TaskRecord]:
        """Return the tasks whose handlers ran for owners that are gone; keep the others of those owners from now on.

        A task that waits to be replayed is not among them: its handler does not run, and any process can go on with it.
        """
        await self._look_at_keepers()
        own = {keeper.name for keeper in self._keepers.values()}
        found: list[TaskRecord] = []
        for keeper, (beat, since) in [*self._seen.items()]:
            is_late = self._seen_at >= since + _GONE_AFTER
            if beat == _GONE or (is_late and keeper not in own and await self._is_made_gone(keeper, beat)):
                found += await self._take_over(keeper)
        return found

    async def _take_over(self, keeper: str) -> Sequence[TaskRecord]:
        """Return the tasks that a keeper has abandoned, and keep its other ones.

        Those that are returned stay in its index, to be found again until they have ended.
        """
        found: list[TaskRecord] = []
        for id, seat in (await self._state.leases(self._key("kept", keeper))).items():
            _, stored = await self._find(id)
            if stored is None:
                await self._clear(id, seat.decode())
            elif stored.keeper == keeper and not stored.record.is_final and stored.record.replay is None:
                found.append(stored.record)
                continue
            else:
                await self._keep("", id, stored.seat)
                self._expect(stored.record)
            await self._state.release(self._key("kept", keeper), id)
        if not found:
            await self._state.release(self._key("keepers"), keeper)
        return found

    # --- Expiry, and what others have changed ---

    def _expect(self, record: TaskRecord) -> None:
        """Take note of the expiry of a task, if it is kept here (rule 7)."""
        kept = self._kept.get(record.id)
        if kept is None:
            return
        if record.expires_at is not None and record.expires_at != kept.expires_at:
            heapq.heappush(self._expiries, (record.expires_at, record.id))
        kept.expires_at = record.expires_at

    def _is_current(self, expiry: float, id: str) -> bool:
        kept = self._kept.get(id)
        return kept is not None and kept.expires_at == expiry

    async def due(self, now: float) -> Sequence[TaskRecord]:
        """Return tasks that expire, of those that a keeper of this process sees to; see `tasks.TaskStore.due`."""
        due: set[tuple[float, str]] = set()
        while self._expiries and self._expiries[0][0] <= now and len(due) < _MOST_AT_ONCE:
            earliest = heapq.heappop(self._expiries)
            if self._is_current(*earliest):
                due.add(earliest)
        for each in due:
            heapq.heappush(self._expiries, each)
        found: list[TaskRecord] = []
        for expiry, id in sorted(due):
            _, stored = await self._find(id)
            kept = self._kept.get(id)
            if kept is None or kept.expires_at != expiry:
                continue
            if stored is None:  # another process has deleted it
                await self._clear(id, kept.seat)
            elif stored.record.expires_at != expiry:
                self._expect(stored.record)
            else:
                found.append(stored.record)
        return found

    async def next_expiry(self) -> float | None:
        """Return the earliest expiry of those tasks, or an earlier time if another process has changed one."""
        await trio.lowlevel.checkpoint()
        while self._expiries and not self._is_current(*self._expiries[0]):
            heapq.heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else None

    async def changed_by_others(self, owner: str) -> Mapping[str, TaskRecord | None]:
        """Return the tasks that others have changed (rule 6); see `tasks.TaskStore.changed_by_others`."""
        group = self._key("changed", owner)
        changed: dict[str, TaskRecord | None] = {}
        seen: list[str] = []
        for name, keys in (await self._state.leases(group)).items():
            id = name.partition("/")[0]
            _, stored = await self._find(id)
            record = None if stored is None else stored.record
            if record is None or _is_made(record, keys):
                changed[id] = record
                seen.append(name)
        with suppress(SharedUnavailable):  # those that stay are returned again
            for name in seen:
                await self._state.release(group, name)
        return changed


def _is_made(record: TaskRecord, keys: bytes) -> bool:
    """Return True if the record shows the change that was announced: its end, or the answers to these questions."""
    return record.is_final or (keys != b"" and record.open_questions.keys().isdisjoint(decode(keys)))
