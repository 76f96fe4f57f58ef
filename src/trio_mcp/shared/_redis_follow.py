"""The scripts that run inside Redis, and the task that follows a stream.

Rules of this file:

1. Each structure is one key, so that a script on it is atomic also in a cluster: a value is a string, a stream is a
   stream, a group of leases is a hash of the time of expiry, a colon and the value.
2. The entry of a stream has the id *generation*-*number*. The generation is the time at which the stream was made, in
   microseconds; so the entries of a later stream of the same name come after those of an earlier one, and who waits for
   entries after an id gets them.
3. The member of an entry is named by its append, at random. So a follower notices after an interruption that the entry
   which it has seen last is another one now: Redis had lost the end of the stream, and others have appended since.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import trio
from attrs import define, evolve

from ..abc import StreamPart
from ._parts import StreamPlace
from ._redis_connection import LONGEST_CALL, Members, RedisLogin, open_commands

if TYPE_CHECKING:
    from ._redis_connection import Commands

__all__ = ["SCRIPTS", "RedisFollower", "StreamEnd", "end_of"]

SCRIPTS: Mapping[str, str] = {
    # The first is also run on a missing key, when a client connects.
    # KEYS: a stream. ARGV: perhaps an id. Returns the generation, the last number and the names of the last entry and
    # of that of the id; empty if there is none.
    "end": """
        local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
        if #last == 0 then return {'0', '0', '', ''} end
        local generation, number = string.match(last[1][1], '^(%d+)-(%d+)$')
        local asked = ARGV[1] and redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) or {}
        return {generation, number, last[1][2][1], #asked == 1 and asked[1][2][1] or ''}
    """,
    # ARGV: the name of the members, at_most, milliseconds or 0, the entries. Returns the last number.
    "append": """
        local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
        local generation, number
        if #last == 0 then
            local time = redis.call('TIME')
            generation, number = time[1] .. string.format('%06d', time[2]), 0
        else
            generation, number = string.match(last[1][1], '^(%d+)-(%d+)$')
            number = tonumber(number)
        end
        for i = 4, #ARGV do
            number = number + 1
            local id = generation .. '-' .. string.format('%.0f', number)
            redis.call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[2], id, ARGV[1], ARGV[i])
        end
        if ARGV[3] ~= '0' then
            redis.call('PEXPIRE', KEYS[1], ARGV[3])
        else
            redis.call('PERSIST', KEYS[1])
        end
        return number
    """,
    # ARGV: a number, the most entries, the most bytes. Returns the last number, that of the first entry, and entries.
    "read": """
        local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
        if #last == 0 then return {0, 1} end
        local generation, number = string.match(last[1][1], '^(%d+)-(%d+)$')
        local found, size, after = {tonumber(number), 0}, 0, tonumber(ARGV[1])
        while #found - 2 < tonumber(ARGV[2]) and size < tonumber(ARGV[3]) do
            local from = generation .. '-' .. string.format('%.0f', after + 1)
            local some = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 20)
            if #some == 0 then break end
            for _, entry in ipairs(some) do
                if size >= tonumber(ARGV[3]) then break end
                after = tonumber(string.match(entry[1], '-(%d+)$'))
                if #found == 2 then found[2] = after end
                found[#found + 1] = entry[2][2]
                size = size + #entry[2][2]
            end
        end
        return found
    """,
    # KEYS: a value. ARGV: the old and the new value, each with a byte before it or empty; milliseconds or 0.
    "swap": """
        local value = redis.call('GET', KEYS[1])
        if (value and '+' .. value or '') ~= ARGV[1] then return 0 end
        if ARGV[2] == '' then
            redis.call('DEL', KEYS[1])
        elseif ARGV[3] == '0' then
            redis.call('SET', KEYS[1], string.sub(ARGV[2], 2))
        else
            redis.call('SET', KEYS[1], string.sub(ARGV[2], 2), 'PX', ARGV[3])
        end
        return 1
    """,
    # KEYS: a group. ARGV: a name, a value, milliseconds or 0. Also drops some leases that have expired.
    "lease": """
        local time = redis.call('TIME')
        local now, lasting = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[3])
        for _, name in ipairs(redis.call('HRANDFIELD', KEYS[1], 3)) do
            local expiry = tonumber(string.match(redis.call('HGET', KEYS[1], name), '^(%d+):'))
            if expiry > 0 and expiry <= now then redis.call('HDEL', KEYS[1], name) end
        end
        local left = redis.call('PTTL', KEYS[1])
        local expiry = lasting == 0 and '0' or string.format('%.0f', now + lasting)
        redis.call('HSET', KEYS[1], ARGV[1], expiry .. ':' .. ARGV[2])
        if lasting == 0 then
            redis.call('PERSIST', KEYS[1])
        elseif left == -2 or (left >= 0 and left < lasting) then
            redis.call('PEXPIRE', KEYS[1], ARGV[3])
        end
        return 1
    """,
    # ARGV: a name.
    "release": "return redis.call('HDEL', KEYS[1], ARGV[1])",
    # Returns names and values.
    "leases": """
        local time = redis.call('TIME')
        local now, found = time[1] * 1000 + math.floor(time[2] / 1000), {}
        local all = redis.call('HGETALL', KEYS[1])
        for i = 1, #all, 2 do
            local expiry, value = string.match(all[i + 1], '^(%d+):(.*)$')
            if expiry == '0' or tonumber(expiry) > now then
                found[#found + 1] = all[i]
                found[#found + 1] = value
            end
        end
        return found
    """,
}
_MOST_FOLLOWED = 50
"""The number of entries that a follower gets at once."""
_LONGEST_BLOCK = 2.0
"""The time for which a follower waits for one answer of Redis, in seconds."""
_GRACE = 0.5
"""The time by which the answer may be late, in seconds, before the connection counts as broken."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""The time between attempts of a follower to connect, in seconds."""


_log = logging.getLogger(__name__)


@define
class StreamEnd(StreamPlace):
    """The end of a stream, or the place of a follower."""

    name: bytes
    """The name of the member of the entry (rule 3); empty if there is none."""
    name_of_asked: bytes = b""
    """The same of the entry that was asked for."""

    @property
    def id(self) -> str:
        """The id of the entry (rule 2); that before all ids if there is none."""
        return f"{self.generation}-{self.number}"


async def end_of(commands: Commands, key: str, *asked: str) -> StreamEnd:
    """Return the end of a stream, and look at the entry of an id that is asked for."""
    generation, number, name, name_of_asked = cast("Sequence[bytes]", await commands.run("end", key, *asked))
    return StreamEnd(int(generation), int(number), name, name_of_asked)


@define(eq=False)
class RedisFollower:
    """A task that waits for what is appended to a stream, and passes it on.

    Args:
        login: all that is needed to connect; the task has a connection of its own.
        key: the key of the stream.
        place: the place after which it begins.
        parts: takes what is passed on.
    """

    _login: RedisLogin
    _key: str
    _place: StreamEnd
    _parts: trio.MemorySendChannel[StreamPart]
    _is_gap: bool = False
    """True if entries before the next ones may have been lost."""

    async def run(self) -> None:
        """Follow the stream, and connect again after each interruption; never ends."""
        pause, was_interrupted = _SHORTEST_PAUSE, False
        while True:
            cause: Exception | None = None
            scope = trio.CancelScope(deadline=trio.current_time() + LONGEST_CALL)
            try:
                with scope:
                    async with open_commands(self._login, SCRIPTS, self._key) as commands:
                        if was_interrupted:
                            await self._check(commands, scope, was_interrupted=True)
                        pause = _SHORTEST_PAUSE
                        await self._pass_on(commands, scope)
            except Exception as error:  # noqa: BLE001 # coredis raises also exceptions of anyio, and groups
                cause = error
            except BaseExceptionGroup as group:  # coredis has failed while it was cancelled
                raise group.split(trio.Cancelled)[0] or group from None
            _log.debug("following %r was interrupted", self._key, exc_info=cause)
            was_interrupted = True
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _pass_on(self, commands: Commands, scope: trio.CancelScope) -> None:
        """Pass on entries, until the connection fails. The scope is cancelled if Redis does not answer in time."""
        while True:
            scope.deadline = trio.current_time() + _LONGEST_BLOCK + _GRACE
            found = await commands.entries_after(self._key, self._place.id, most=_MOST_FOLLOWED, seconds=_LONGEST_BLOCK)
            for generation, first, entries, name in _runs(found):
                part = self._place.move(generation, first, entries)
                self._place.name = name
                await self._send(part, scope)
            if not found:
                await self._check(commands, scope, was_interrupted=False)

    async def _check(self, commands: Commands, scope: trio.CancelScope, *, was_interrupted: bool) -> None:
        """Compare the place with the stream: if Redis has lost entries, say so, and move to where it goes on."""
        scope.deadline = trio.current_time() + LONGEST_CALL
        place = self._place
        end = await end_of(commands, self._key, place.id)
        if end.generation == place.generation == 0:
            return  # there has never been a stream
        if end.generation == 0:
            # Without an interruption it has expired, which is no loss. The next one begins with a gap in any case.
            if was_interrupted:
                await self._move(end, scope)
        elif end.generation < place.generation:
            await self._move(StreamEnd(end.generation, 0, b""), scope)  # lost, and the clock of Redis was set back
        elif end.generation == place.generation:
            if end.number < place.number:
                await self._move(end, scope)
            elif was_interrupted and not end.name_of_asked:
                self._is_gap = True  # the entry was dropped, so there are others
            elif was_interrupted and end.name_of_asked != place.name:
                await self._move(StreamEnd(place.generation, place.number, end.name_of_asked), scope)

    async def _move(self, place: StreamEnd, scope: trio.CancelScope) -> None:
        self._place = place
        await self._send(StreamPart(place.number + 1, (), is_gap=True), scope)

    async def _send(self, part: StreamPart, scope: trio.CancelScope) -> None:
        scope.deadline = math.inf  # the reader may take its time
        part, self._is_gap = evolve(part, is_gap=part.is_gap or self._is_gap), False
        await self._parts.send(part)


def _runs(found: Sequence[tuple[bytes, Members]]) -> Iterator[tuple[int, int, Sequence[bytes], bytes]]:
    """Divide entries by their generation: yield it, the first number, the entries, and the name of the last member."""
    for generation, group in itertools.groupby(found, key=lambda entry: int(entry[0].partition(b"-")[0])):
        entries = [*group]
        members = [next(iter(members.items())) for _, members in entries]
        yield generation, int(entries[0][0].partition(b"-")[2]), [entry for _, entry in members], members[-1][0]
