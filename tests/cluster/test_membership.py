"""The processes of a service as one of them sees them: agreement on keys, leases, and a backend that fails.

Each test asks for the clock that jumps, because pytest-trio does not use the one that only a fixture asks for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
import trio
from attrs import define, field

from tests.cluster.interrupted_backend import InterruptedShared
from trio_mcp import SharedUnavailable
from trio_mcp.cluster._keys import ClusterKeys
from trio_mcp.cluster._links import Address
from trio_mcp.cluster._membership import HEARTBEAT_SECONDS, Membership

GIVEN = (b"g" * 32, b"h" * 32)
GONE_SECONDS = 20.013
"""The time after which a process that gives no sign of life is known to be gone. It never passes at the moment of a
heartbeat, nor do those below."""
BEAT_SECONDS = HEARTBEAT_SECONDS + 0.317
"""The time after which each process has read the backend once more."""
SETTLED_SECONDS = 9.171
"""The time after which all processes have told the backend again that they are there."""
DAY = 86400.0


@define(eq=False)
class Process:
    """A process of the service."""

    membership: Membership
    address: Address
    used: list[Sequence[bytes]]
    """The keys that its server was told to use, each time."""
    _nursery: trio.Nursery

    @property
    def keys(self) -> Sequence[bytes]:
        """The keys that it uses now."""
        return [*self.membership.keys.all]

    async def find(self, other: Process) -> Address | None:
        return await self.membership.find(self.name_of(other))

    @staticmethod
    def name_of(process: Process) -> str:
        return f"node{process.address.port}"

    def stop(self) -> None:
        """Stop without a word, as a process that is killed."""
        self._nursery.cancel_scope.cancel()


@define(eq=False)
class Service:
    """A service whose processes share a backend."""

    nursery: trio.Nursery
    backend: InterruptedShared = field(factory=InterruptedShared)
    numbers: count[int] = field(factory=lambda: count(1))

    async def start(self, given: Sequence[bytes] = ()) -> Process:
        """Start a process; return it when it has joined."""
        process: Process = await self.nursery.start(self._run, given)
        return process

    async def _run(self, given: Sequence[bytes], *, task_status: trio.TaskStatus[Process]) -> None:
        number, used = next(self.numbers), list[Sequence[bytes]]()
        address = Address("127.0.0.1", number, "")
        async with self.backend.open() as state, trio.open_nursery() as nursery:
            membership = Membership(state, f"node{number}", given, used.append)
            await membership.open()
            await membership.join(address)
            nursery.start_soon(membership.run)
            task_status.started(Process(membership, address, used, nursery))

    async def record(self) -> dict[str, Any]:
        """Return what the processes have agreed on."""
        async with self.backend.shared.open() as state:
            stored = await state.get("service")
        assert stored is not None
        record: dict[str, Any] = json.loads(stored)
        return record

    async def store(self, value: bytes | None) -> None:
        """Store something in the place of what the processes have agreed on."""
        async with self.backend.shared.open() as state:
            assert await state.swap("service", await state.get("service"), value)

    async def leases(self) -> dict[str, Address | None]:
        """Return the addresses of the processes that have a lease, as a process with given keys reads them."""
        keys = ClusterKeys([bytes.fromhex(each) for each in (await self.record())["keys"]] or GIVEN)
        async with self.backend.shared.open() as state:
            leases = await state.leases("nodes")
        return {name: Address.of_bytes(data, name, keys) for name, data in leases.items()}

    def lose_data(self) -> None:
        """Let the backend lose its data."""
        self.backend.shared = type(self.backend.shared)()


@pytest.fixture
async def service() -> AsyncGenerator[Service]:
    async with open_service() as opened:
        yield opened


@asynccontextmanager
async def open_service() -> AsyncGenerator[Service]:
    async with trio.open_nursery() as nursery:
        yield Service(nursery)
        nursery.cancel_scope.cancel()


@define
class Calendar:
    """The clock of the machines, in the place of `time`."""

    now: float = 1_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> Calendar:
    clock = Calendar()
    monkeypatch.setattr("trio_mcp.cluster._membership.time", clock)
    return clock


def ignore(keys: Sequence[bytes]) -> None:
    """Use the keys for nothing."""


# --- Keys ---


async def test_the_first_process_makes_a_key_that_all_use(service: Service, autojump_clock: object) -> None:
    processes = [await service.start() for _ in range(3)]

    (key,) = processes[0].keys
    assert len(key) == 32
    assert [each.used for each in processes] == [[[key]]] * 3
    assert [each.keys for each in processes] == [[key]] * 3


async def test_processes_that_start_at_the_same_time_agree_on_a_key(service: Service, autojump_clock: object) -> None:
    processes: list[Process] = []

    async def start() -> None:
        processes.append(await service.start())

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(start)

    assert len({tuple(each.keys) for each in processes}) == 1
    assert {len(each.used) for each in processes} == {1}


async def test_services_with_their_own_backends_have_their_own_keys(autojump_clock: object) -> None:
    async with open_service() as one, open_service() as other:
        assert (await one.start()).keys != (await other.start()).keys


async def test_a_process_tries_again_if_what_was_in_the_way_of_its_record_is_gone(
    service: Service, autojump_clock: object
) -> None:
    calls = list[str]()

    async def interfere(method: str, name: str) -> None:
        if name != "service":
            return
        calls.append(method)
        if calls == ["get", "swap"]:
            await service.store(b"in the way")
        elif calls == ["get", "swap", "get"]:
            await service.store(None)

    service.backend.before = interfere
    process = await service.start()
    assert calls[:4] == ["get", "swap", "get", "swap"]
    assert [bytes.fromhex(each) for each in (await service.record())["keys"]] == process.keys


async def test_given_keys_are_used_and_not_put_into_the_backend(service: Service, autojump_clock: object) -> None:
    one, two = await service.start(GIVEN), await service.start(GIVEN)
    await trio.sleep(60)

    assert one.keys == two.keys == [*GIVEN]
    assert one.used == two.used == []
    assert (await service.record())["keys"] == []
    assert await one.find(two) == two.address


async def test_given_keys_may_be_replaced_one_process_after_the_other(service: Service, autojump_clock: object) -> None:
    one, two = await service.start(GIVEN[:1]), await service.start(GIVEN[::-1])
    assert await two.find(one) == one.address
    await trio.sleep(SETTLED_SECONDS)
    assert await one.find(two) is None  # until it gets the new key, too

    three = await service.start(GIVEN)
    assert await one.find(three) == three.address
    assert await three.find(two) == two.address


@pytest.mark.parametrize(("first", "second"), [(GIVEN, ()), ((), GIVEN)])
async def test_a_process_that_was_given_keys_does_not_start_beside_one_that_was_not(
    first: Sequence[bytes], second: Sequence[bytes], service: Service, autojump_clock: object
) -> None:
    await service.start(first)
    ours, theirs = ("given", "not given") if second else ("not given", "given")
    async with service.backend.open() as state:
        with pytest.raises(ValueError, match=f"this server was {ours} keys, and another process .* was {theirs} any"):
            await Membership(state, "late", second, ignore).open()


async def test_a_process_does_not_start_if_the_backend_cannot_be_reached(
    service: Service, autojump_clock: object
) -> None:
    async with service.backend.open() as state:
        service.backend.is_down = True
        membership = Membership(state, "one", (), ignore)
        with pytest.raises(SharedUnavailable):
            await membership.open()
        service.backend.is_down = False
        await membership.open()
        service.backend.is_down = True
        with pytest.raises(SharedUnavailable):
            await membership.join(Address("127.0.0.1", 1, ""))


FOREIGN = {
    "no JSON": b"{",
    "a word": b"master",
    "a number": b"5",
    "null": b"null",
    "an array": b"[1, 2]",
    "other members": b'{"key": "value"}',
    "no time": b'{"epoch": "e", "keys": [], "nextKey": null}',
    "a time of another kind": b'{"epoch": "e", "keys": [], "nextKey": null, "since": []}',
    "no keys": b'{"epoch": "e", "keys": null, "nextKey": null, "since": 0}',
    "keys of another kind": b'{"epoch": "e", "keys": ["no key"], "nextKey": null, "since": 0}',
    "a next key of another kind": b'{"epoch": "e", "keys": ["00"], "nextKey": 5, "since": 0}',
}


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_process_does_not_start_if_another_program_uses_its_place_in_the_backend(
    foreign: str, service: Service, autojump_clock: object
) -> None:
    await service.store(FOREIGN[foreign])
    async with service.backend.open() as state:
        with pytest.raises(SharedUnavailable, match="'service' of the shared backend was written by another program"):
            await Membership(state, "one", (), ignore).open()


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_a_process_goes_on_if_another_program_has_taken_its_place_in_the_backend(
    foreign: str, service: Service, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    one, two = await service.start(), await service.start()
    keys = one.keys
    await trio.sleep(BEAT_SECONDS)

    await service.store(FOREIGN[foreign])
    await trio.sleep(GONE_SECONDS)
    assert await one.find(two) == two.address
    assert one.keys == two.keys == keys
    assert len([each for each in caplog.messages if "written by another program; this process goes on" in each]) == 2

    await service.store(None)
    await trio.sleep(SETTLED_SECONDS)
    assert await service.leases() == {"node1": one.address, "node2": two.address}


# --- Leases ---


async def test_processes_find_each_other_for_as_long_as_they_live(service: Service, autojump_clock: object) -> None:
    one, two = await service.start(), await service.start()
    for _ in range(3):
        await trio.sleep(100)
        assert await one.find(two) == two.address
        assert await two.find(one) == one.address
    assert await service.leases() == {"node1": one.address, "node2": two.address}


async def test_a_process_that_has_just_started_is_found(service: Service, autojump_clock: object) -> None:
    one = await service.start()
    two = await service.start()
    assert await one.find(two) == two.address


async def test_a_process_that_was_killed_is_gone_after_a_while(service: Service, autojump_clock: object) -> None:
    one, two = await service.start(), await service.start()
    await trio.sleep(SETTLED_SECONDS)

    two.stop()
    await trio.sleep(10)
    assert await one.find(two) == two.address
    await trio.sleep(10)
    assert await one.find(two) is None
    assert await service.leases() == {"node1": one.address}


async def test_a_process_that_leaves_is_gone_at_once(service: Service, autojump_clock: object) -> None:
    one, two = await service.start(), await service.start()
    await trio.sleep(SETTLED_SECONDS)

    await two.membership.leave()
    assert await service.leases() == {"node1": one.address}
    await trio.sleep(BEAT_SECONDS)
    assert await one.find(two) is None
    await trio.sleep(100)  # it lives on for a while, to end what it has begun
    assert await one.find(two) is None
    assert await two.find(one) == one.address


async def test_a_process_that_leaves_again_or_has_never_joined_has_left(
    service: Service, autojump_clock: object
) -> None:
    one = await service.start()
    async with service.backend.open() as state:
        other = Membership(state, "other", (), ignore)
        await other.open()
        await other.leave()
    await one.membership.leave()
    await one.membership.leave()
    assert await service.leases() == {}


@pytest.mark.parametrize("held", ["get", "lease", "leases"])
async def test_a_renewal_on_its_way_does_not_come_after_the_end(
    held: str, service: Service, autojump_clock: object
) -> None:
    one = await service.start()
    waiting, go_on = trio.Event(), trio.Event()

    async def hold(method: str, name: str) -> None:
        if method == held and not waiting.is_set():
            waiting.set()
            await go_on.wait()

    service.backend.before = hold
    await waiting.wait()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.membership.leave)
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
    await trio.sleep(SETTLED_SECONDS)
    assert await service.leases() == {}


async def test_a_process_that_never_was_is_gone_when_the_service_has_existed_for_a_while(
    service: Service, autojump_clock: object
) -> None:
    one = await service.start()
    with pytest.raises(SharedUnavailable, match="not all processes have renewed their leases"):
        await one.membership.find("never")  # the backend may have lost its data just now

    await trio.sleep(SETTLED_SECONDS)
    assert await one.membership.find("never") is None
    assert await (await service.start()).membership.find("never") is None


async def test_an_address_that_no_process_of_the_service_has_signed_is_none(
    service: Service, autojump_clock: object
) -> None:
    one = await service.start()
    await trio.sleep(SETTLED_SECONDS)
    async with service.backend.shared.open() as state:
        forged = Address("192.0.2.1", 1, "").to_bytes("forged", ClusterKeys(GIVEN))
        await state.lease("nodes", "forged", forged, seconds=1000)
        await state.lease("nodes", "garbage", b"\xff", seconds=1000)

    await trio.sleep(SETTLED_SECONDS)
    assert await one.membership.find("forged") is None
    assert await one.membership.find("garbage") is None


# --- A backend that cannot be reached ---

DOWN = "the backend 'test' cannot be reached; this process goes on with what it knows"
UP = "the shared backend can be reached again"


async def test_addresses_count_while_the_backend_cannot_be_reached(
    service: Service, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.cluster")
    one = await service.start()
    two = await service.start()
    await trio.sleep(SETTLED_SECONDS)

    service.backend.is_down = True
    two.stop()
    for _ in range(3):
        await trio.sleep(100)
        assert await one.find(two) == two.address
        with pytest.raises(SharedUnavailable, match="cannot be reached"):
            await one.membership.find("never")
    assert caplog.messages == [DOWN]

    service.backend.is_down = False
    await trio.sleep(BEAT_SECONDS)
    assert await one.find(two) is None
    assert await service.leases() == {"node1": one.address}
    await trio.sleep(100)
    assert caplog.messages == [DOWN, UP]


async def test_each_interruption_is_logged(
    service: Service, caplog: pytest.LogCaptureFixture, autojump_clock: object
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.cluster")
    await service.start()
    for _ in range(2):
        service.backend.is_down = True
        await trio.sleep(SETTLED_SECONDS)
        service.backend.is_down = False
        await trio.sleep(SETTLED_SECONDS)
    assert caplog.messages == [DOWN, UP, DOWN, UP]
    assert [each.levelname for each in caplog.records[:2]] == ["WARNING", "INFO"]


async def test_a_process_whose_lease_has_expired_may_be_there_if_the_backend_cannot_be_asked(
    service: Service, autojump_clock: object
) -> None:
    one, two, three = [await service.start() for _ in range(3)]
    await trio.sleep(SETTLED_SECONDS)
    two.stop()
    three.stop()
    await trio.sleep(GONE_SECONDS)
    assert await one.find(three) is None

    service.backend.is_down = True
    assert await one.find(two) == two.address
    with pytest.raises(SharedUnavailable):
        await one.find(three)  # which is known to be gone

    service.backend.is_down = False
    assert await one.find(two) is None


async def test_only_so_many_processes_of_earlier_times_are_remembered(
    service: Service, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    monkeypatch.setattr("trio_mcp.cluster._membership._MOST_REMEMBERED", 3)
    one, two, three, four, five = [await service.start() for _ in range(5)]
    await trio.sleep(SETTLED_SECONDS)
    assert await one.find(two) == two.address

    for each in (two, three, four, five):
        await each.membership.leave()
    await trio.sleep(BEAT_SECONDS)
    service.backend.is_down = True
    with pytest.raises(SharedUnavailable):
        await one.find(two)
    assert await one.find(five) == five.address


async def test_a_process_that_leaves_while_the_backend_cannot_be_reached_is_told_so(
    service: Service, autojump_clock: object
) -> None:
    one = await service.start()
    service.backend.is_down = True
    with pytest.raises(SharedUnavailable):
        await one.membership.leave()


# --- A backend that has lost its data ---


@pytest.mark.parametrize("given", [(), GIVEN])
async def test_what_the_processes_have_agreed_on_is_put_back(
    given: Sequence[bytes], service: Service, autojump_clock: object
) -> None:
    one, two = await service.start(given), await service.start(given)
    before, keys = await service.record(), one.keys
    await trio.sleep(SETTLED_SECONDS)

    service.lose_data()
    await trio.sleep(BEAT_SECONDS)
    assert await service.record() == before | {"epoch": (await service.record())["epoch"]}
    assert (await service.start(given)).keys == one.keys == two.keys == keys
    assert await service.leases() == {f"node{each}": Address("127.0.0.1", each, "") for each in (1, 2, 3)}
    assert one.used == two.used == [keys] * (not given)


async def test_nobody_is_taken_for_gone_until_all_had_time_to_renew_their_leases(
    service: Service, autojump_clock: object
) -> None:
    one, two = await service.start(), await service.start()
    await trio.sleep(SETTLED_SECONDS)
    assert await one.find(two) == two.address

    service.lose_data()
    two.stop()
    await trio.sleep(BEAT_SECONDS)
    assert await service.leases() == {"node1": one.address}
    assert await one.find(two) == two.address  # although it has no lease
    with pytest.raises(SharedUnavailable, match="not all processes have renewed their leases"):
        await one.membership.find("never")

    await trio.sleep(SETTLED_SECONDS)
    assert await one.find(two) is None
    assert await one.membership.find("never") is None


async def test_processes_that_did_not_see_a_loss_of_data_themselves_learn_of_it(
    service: Service, autojump_clock: object
) -> None:
    one = await service.start()
    await trio.sleep(1)  # the next ones have their heartbeats later
    two, three = await service.start(), await service.start()
    await trio.sleep(SETTLED_SECONDS)
    for each in (one, two):
        assert await each.find(three) == three.address
        assert await each.membership.find("never") is None

    service.lose_data()
    three.stop()
    with pytest.raises(SharedUnavailable, match="not all processes have renewed their leases"):
        await one.membership.find("never")
    await trio.sleep(BEAT_SECONDS)
    assert await service.leases() == {"node1": one.address, "node2": two.address}
    for each in (one, two):
        assert await each.find(three) == three.address
        with pytest.raises(SharedUnavailable, match="not all processes have renewed their leases"):
            await each.membership.find("never")
    await trio.sleep(SETTLED_SECONDS)
    for each in (one, two):
        assert await each.find(three) is None


async def test_a_process_that_starts_after_a_loss_of_data_takes_nobody_for_gone_too_early(
    service: Service, autojump_clock: object
) -> None:
    one = await service.start()
    await trio.sleep(1)  # the next one has its heartbeats later
    two = await service.start()
    await trio.sleep(SETTLED_SECONDS)

    service.lose_data()
    await trio.sleep(1)
    assert await service.leases() == {"node2": two.address}
    three = await service.start()  # which finds what another process has put back
    with pytest.raises(SharedUnavailable, match="not all processes have renewed their leases"):
        await three.find(one)
    await trio.sleep(BEAT_SECONDS)
    assert await three.find(one) == one.address

    await trio.sleep(SETTLED_SECONDS)
    assert await three.membership.find("never") is None


async def test_keys_of_before_are_added_to_those_of_a_process_that_has_started_too_early(
    service: Service, autojump_clock: object
) -> None:
    processes = [await service.start() for _ in range(3)]
    before, old = await service.record(), processes[0].keys
    await trio.sleep(SETTLED_SECONDS)
    codes = [processes[0].membership.keys.sign("purpose", "old")]

    service.lose_data()
    early = await service.start()
    new = early.keys
    assert new != old
    codes.append(early.membership.keys.sign("purpose", "new"))
    with pytest.raises(SharedUnavailable, match="not all processes have renewed"):
        await early.find(processes[0])

    await trio.sleep(2 * BEAT_SECONDS)
    processes += [early, await service.start()]
    assert [each.keys for each in processes] == [[*old, *new]] * 5
    assert early.used == [new, [*old, *new]]
    for each in processes:
        assert each.membership.keys.verify(codes[0], "purpose", "old")
        assert each.membership.keys.verify(codes[1], "purpose", "new")
        assert [await each.find(other) for other in processes] == [other.address for other in processes]
    after = await service.record()
    assert after["epoch"] != before["epoch"]
    assert [bytes.fromhex(each) for each in after["keys"]] == [*old, *new]


async def test_nobody_is_taken_for_gone_if_a_process_has_started_too_early(
    service: Service, autojump_clock: object
) -> None:
    one, two = await service.start(), await service.start()
    await trio.sleep(SETTLED_SECONDS)
    assert await one.find(two) == two.address

    service.lose_data()
    await service.start()
    two.stop()
    await trio.sleep(BEAT_SECONDS)
    assert await one.find(two) == two.address
    await trio.sleep(SETTLED_SECONDS)
    assert await one.find(two) is None


@pytest.mark.parametrize(("first", "second"), [(GIVEN, ()), ((), GIVEN)])
async def test_a_process_keeps_its_keys_if_one_of_the_other_kind_was_the_first_after_a_loss(
    first: Sequence[bytes], second: Sequence[bytes], service: Service, autojump_clock: object
) -> None:
    one = await service.start(first)
    keys = one.keys
    service.lose_data()
    two = await service.start(second)
    record = await service.record()

    await trio.sleep(SETTLED_SECONDS)
    assert one.keys == keys
    assert len(two.keys) == max(1, len(second))
    assert await service.record() == record


# --- The replacement of the first key ---


async def test_the_first_key_is_replaced_in_two_steps(
    service: Service, calendar: Calendar, autojump_clock: object
) -> None:
    one, two = await service.start(), await service.start()
    (old,) = one.keys

    calendar.now += 29 * DAY
    await trio.sleep(SETTLED_SECONDS)
    assert one.keys == two.keys == [old]

    calendar.now += 2 * DAY
    await trio.sleep(2 * BEAT_SECONDS)
    assert one.keys == two.keys
    first, new = one.keys
    assert first == old
    assert (await service.start()).keys == [old, new]

    calendar.now += 50
    await trio.sleep(SETTLED_SECONDS)
    assert one.keys == two.keys == [old, new]

    calendar.now += 20
    await trio.sleep(2 * BEAT_SECONDS)
    assert one.keys == two.keys == (await service.start()).keys == [new, old]
    assert one.used == [[old], [old, new], [new, old]]

    calendar.now += 29 * DAY
    await trio.sleep(SETTLED_SECONDS)
    assert one.keys == two.keys == [new, old]


async def test_processes_that_make_the_same_step_at_once_make_it_once(
    service: Service, calendar: Calendar, autojump_clock: object
) -> None:
    processes = [await service.start() for _ in range(6)]
    calendar.now += 31 * DAY
    await trio.sleep(2 * BEAT_SECONDS)
    assert len({tuple(each.keys) for each in processes}) == 1
    calendar.now += 61
    await trio.sleep(2 * BEAT_SECONDS)
    assert len({tuple(each.keys) for each in processes}) == 1
    assert {len(each.used) for each in processes} == {3}


async def test_the_service_keeps_its_latest_keys_only(
    service: Service, calendar: Calendar, autojump_clock: object
) -> None:
    one = await service.start()
    first = one.keys[0]
    for _ in range(5):
        for seconds in (31 * DAY, 61):
            calendar.now += seconds
            await trio.sleep(BEAT_SECONDS)

    assert len(one.keys) == 6
    assert one.keys[-1] == first
    assert (await service.start()).keys == one.keys[:3]


async def test_given_keys_are_not_replaced(service: Service, calendar: Calendar, autojump_clock: object) -> None:
    one = await service.start(GIVEN)
    record = await service.record()
    calendar.now += 1000 * DAY
    await trio.sleep(100)
    assert one.keys == [*GIVEN]
    assert await service.record() == record


async def test_a_key_that_was_announced_survives_a_loss_of_data(
    service: Service, calendar: Calendar, autojump_clock: object
) -> None:
    one = await service.start()
    calendar.now += 31 * DAY
    await trio.sleep(BEAT_SECONDS)
    old, new = one.keys

    service.lose_data()
    await trio.sleep(BEAT_SECONDS)
    calendar.now += 61
    await trio.sleep(BEAT_SECONDS)
    assert one.keys == (await service.start()).keys == [new, old]


@pytest.mark.parametrize("put_back", ["an older record", "a newer record"])
async def test_a_replacement_is_not_undone_by_what_another_process_puts_back(
    put_back: str, service: Service, calendar: Calendar, autojump_clock: object
) -> None:
    one = await service.start()
    (old,) = one.keys
    calendar.now += 31 * DAY
    await trio.sleep(BEAT_SECONDS)
    new, before = one.keys[1], await service.record()
    if put_back == "an older record":
        calendar.now += 61
        await trio.sleep(BEAT_SECONDS)
        assert one.keys == [new, old]
        lost = before | {"epoch": "new"}
    else:
        lost = before | {"epoch": "new", "keys": [new.hex(), old.hex()], "nextKey": None}

    await service.store(json.dumps(lost).encode())
    await trio.sleep(BEAT_SECONDS)
    assert sorted(one.keys) == sorted([old, new])
    calendar.now += 61
    await trio.sleep(BEAT_SECONDS)
    assert one.keys == (await service.start()).keys == [new, old]
    assert (await service.record())["keys"] == [new.hex(), old.hex()]


async def test_an_old_key_that_is_added_again_does_not_sign(
    service: Service, calendar: Calendar, autojump_clock: object
) -> None:
    one = await service.start()
    for seconds in (31 * DAY, 61, 31 * DAY):
        calendar.now += seconds
        await trio.sleep(BEAT_SECONDS)
    middle, old, new = one.keys

    lost = await service.record() | {"epoch": "new", "keys": [new.hex(), middle.hex()], "nextKey": None}
    await service.store(json.dumps(lost).encode())
    await trio.sleep(BEAT_SECONDS)
    assert (await service.start()).keys == [new, middle, old]
    assert one.keys == [new, middle, old]
