"""One set of tokens for many requests and connections: what is shared, what is waited for, and what survives whom."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.auth.client.scripted_network import (
    URL,
    Asking,
    Clock,
    MachineGrant,
    Network,
    Person,
    PersonGrant,
    connect,
    request,
)
from trio_mcp import AuthorizationFailed, ConnectionClosed
from trio_mcp.auth import MemoryTokenStorage, Registration
from trio_mcp.auth.client._source import GrantSource
from trio_mcp.auth.client._steps import Flow
from trio_mcp.auth.client._token_cache import TokenRequirement
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens
from trio_mcp.auth.client._token_storage import TokenRecord, read_record, write_record

OTHER_URL = "https://mcp.example.com/mcp/other"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def network(clock: Clock) -> Network:
    return Network(clock)


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def grant(clock: Clock) -> MachineGrant:
    return MachineGrant(clock=clock)


async def stored(source: GrantSource) -> TokenRecord | None:
    """What the storage holds."""
    return read_record(await source.cache.grant.storage.load(source.cache.key))


# One for all.


async def test_a_hundred_requests_that_meet_an_expired_token_cause_one_refresh(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    connections = [connect(grant, network, nursery) for _ in range(4)]
    await request(connections[0], network.judge)
    network.revoke()
    statuses: list[int] = []

    async def ask(source: GrantSource) -> None:
        statuses.append(await request(source, network.judge))

    async with trio.open_nursery() as requests:
        for number in range(100):
            requests.start_soon(ask, connections[number % 4])

    assert statuses == [200] * 100
    assert network.grants == ["client_credentials", "refresh_token"]


async def test_a_hundred_requests_that_foresee_the_end_of_a_token_cause_one_refresh(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    clock.now += 3600
    shown: set[str] = set()

    async def ask() -> None:
        shown.update((await source.attempt("POST", URL).fields()).values())

    async with trio.open_nursery() as requests:
        for _ in range(100):
            requests.start_soon(ask)

    assert shown == {"Bearer access-2"}
    assert network.grants == ["client_credentials", "refresh_token"]


async def test_a_hundred_requests_share_one_failure(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.thinking, person.refusal = trio.Event(), "access_denied"
    failures: list[AuthorizationFailed] = []

    async def ask() -> None:
        with pytest.raises(AuthorizationFailed) as caught:
            await request(source, network.judge)
        failures.append(caught.value)

    async with trio.open_nursery() as requests:
        for _ in range(100):
            requests.start_soon(ask)
        await wait_all_tasks_blocked()
        person.thinking.set()

    assert {failure.error for failure in failures} == {"access_denied"}
    assert len({id(failure) for failure in failures}) == 100  # each has a traceback of its own
    assert len(person.sign_ins) == 1


async def test_a_server_whose_tokens_are_all_the_same_is_asked_once_for_a_hundred_requests(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    network.same_token, network.refreshable = True, False
    source = connect(grant, network, nursery)
    await request(source, network.judge)

    def refuse(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        return 401, {}

    async with trio.open_nursery() as requests:
        for _ in range(100):
            requests.start_soon(request, source, refuse)

    assert network.grants == ["client_credentials"] * 2


async def test_a_request_with_a_valid_token_does_not_wait(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)
    person.thinking = trio.Event()
    network.scopes_needed = {"admin"}
    nursery.start_soon(request, source, network.judge)
    await wait_all_tasks_blocked()
    network.scopes_needed = set()

    assert await request(source, network.judge) == 200  # while a person thinks about more scopes

    person.thinking.set()


async def test_requests_that_need_other_things_get_them_one_after_the_other(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)

    def judge(scope: str, fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        token = fields["authorization"].partition(" ")[2]
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        return (200, {}) if scope in network.granted[token].split() else (403, {"www-authenticate": challenge})

    statuses: list[int] = []

    async def ask(scope: str) -> None:
        statuses.append(await request(source, lambda fields: judge(scope, fields)))

    async with trio.open_nursery() as requests:
        for scope in ("a", "b", "c"):
            requests.start_soon(ask, scope)

    assert statuses == [200] * 3
    assert {scope for form in network.asked[1:] for scope in form["scope"].split()} == {"a", "b", "c"}
    assert len(network.asked) == 4


async def test_what_went_wrong_for_others_does_not_concern_a_request_with_another_need(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)
    active = source.cache.active
    assert active is not None
    person.thinking, person.refusal = trio.Event(), "access_denied"

    async def fail() -> None:
        with pytest.raises(AuthorizationFailed):
            await source.cache.renewed(
                source.connection, TokenRequirement(shown=active.token, was_refused=True, scopes=("admin",))
            )

    nursery.start_soon(fail)
    await wait_all_tasks_blocked()
    async with trio.open_nursery() as requests:
        network.revoke()
        requests.start_soon(request, source, network.judge)
        await wait_all_tasks_blocked()
        person.thinking.set()

    assert network.grants == ["authorization_code", "refresh_token"]


# Who goes, and what stays.


async def test_a_refresh_goes_on_when_the_request_that_has_begun_it_is_cancelled(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    network.revoke()
    network.held_up = trio.Event()

    with trio.CancelScope() as leader:
        async with trio.open_nursery() as requests:
            requests.start_soon(request, source, network.judge)
            await wait_all_tasks_blocked()
            leader.cancel()
    network.held_up.set()

    assert await request(source, network.judge) == 200
    assert network.grants == ["client_credentials", "refresh_token"]


async def test_a_waiting_request_begins_anew_when_the_connection_of_the_first_closes(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    network.refreshable = False
    await request(connect(grant, network, nursery), network.judge)
    network.revoke()
    network.held_up = trio.Event()
    statuses: list[int] = []

    async def ask(source: GrantSource) -> None:
        statuses.append(await request(source, network.judge))

    async with trio.open_nursery() as requests:
        async with trio.open_nursery() as leader:
            leader.start_soon(ask, connect(grant, network, leader))
            await wait_all_tasks_blocked()
            requests.start_soon(ask, connect(grant, network, nursery))
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
        network.held_up.set()

    assert statuses == [200]
    assert network.grants == ["client_credentials"] * 3


async def test_a_refresh_that_a_closing_connection_has_begun_is_finished(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    network.revoke()
    network.held_up = trio.Event()

    async with trio.open_nursery() as leader:
        leader.start_soon(request, connect(grant, network, leader), network.judge)
        await wait_all_tasks_blocked()
        leader.cancel_scope.cancel()
        network.held_up.set()

    assert network.judge(await source.attempt("POST", URL).fields())[0] == 200
    record = await stored(source)
    assert record is not None
    assert record.lease is None
    assert record.tokens.refresh_token == "refresh-2"


async def test_a_refresh_that_takes_too_long_for_a_closing_connection_is_left_to_others(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    network.revoke()
    network.held_up = trio.Event()
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append(await request(source, network.judge))

    async with trio.open_nursery() as requests:
        async with trio.open_nursery() as leader:
            leader.start_soon(request, connect(grant, network, leader), network.judge)
            await wait_all_tasks_blocked()
            requests.start_soon(ask)
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
            began = trio.current_time()
        assert trio.current_time() - began == pytest.approx(5)
        network.held_up.set()

    assert statuses == [200]
    assert network.presented == ["refresh-1", "refresh-1"]  # nobody can tell whether the first one got through
    assert trio.current_time() - began == pytest.approx(5)  # the lease was given back


async def test_a_refresh_that_takes_too_long_fails_and_can_be_tried_again(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    network.revoke()
    network.held_up = trio.Event()

    with pytest.raises(AuthorizationFailed, match=r"auth\.example\.com took too long to refresh a token"):
        await request(source, network.judge)
    network.held_up = None

    assert await request(source, network.judge) == 200
    assert network.presented == ["refresh-1", "refresh-1"]


async def test_a_request_of_a_connection_that_has_closed_fails_with_that(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    network.held_up = trio.Event()

    async def ask(source: GrantSource) -> None:
        with pytest.raises(ConnectionClosed, match="while a token was requested"):
            await request(source, network.judge)

    async with trio.open_nursery() as requests, trio.open_nursery() as connection:
        requests.start_soon(ask, connect(grant, network, connection))
        await wait_all_tasks_blocked()
        connection.cancel_scope.cancel()


async def test_a_request_after_its_connection_has_closed_fails_and_blocks_no_other(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    async with trio.open_nursery() as connection:
        late = connect(grant, network, connection)

    with pytest.raises(ConnectionClosed, match="has closed the connection"):
        await request(late, network.judge)
    with trio.fail_after(5):
        assert await request(connect(grant, network, nursery), network.judge) == 200


async def test_a_sign_in_ends_when_no_request_waits(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.thinking = trio.Event()

    async with trio.open_nursery() as requests:
        requests.start_soon(request, source, network.judge)
        requests.start_soon(request, source, network.judge)
        await wait_all_tasks_blocked()
        assert person.at_once == 1
        requests.cancel_scope.cancel()
    await wait_all_tasks_blocked()

    assert person.at_once == 0
    person.thinking.set()
    assert await request(source, network.judge) == 200
    assert len(person.sign_ins) == 2


async def test_a_person_is_asked_on_as_long_as_one_request_waits(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.thinking = trio.Event()
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append(await request(source, network.judge))

    async with trio.open_nursery() as patient:
        async with trio.open_nursery() as leader:
            leader.start_soon(request, source, network.judge)
            await wait_all_tasks_blocked()
            patient.start_soon(ask)
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
        person.thinking.set()

    assert statuses == [200]
    assert len(person.sign_ins) == 1


async def test_a_request_that_comes_while_a_person_is_given_up_asks_anew(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.thinking = trio.Event()
    late = source.attempt("POST", URL)
    assert late.on_response(*network.judge(await late.fields()))

    async with trio.open_nursery() as both:
        async with trio.open_nursery() as leader:
            leader.start_soon(request, source, network.judge)
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
        person.thinking.set()
        both.start_soon(late.resolve)

    assert network.judge(await late.fields())[0] == 200
    assert len(person.sign_ins) == 2


async def test_a_refresh_without_waiting_requests_does_not_lead_to_a_sign_in(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)
    network.revoke()
    network.good_refresh.clear()
    network.held_up = trio.Event()

    async with trio.open_nursery() as requests:
        requests.start_soon(request, source, network.judge)
        await wait_all_tasks_blocked()
        requests.cancel_scope.cancel()
    network.held_up.set()
    await wait_all_tasks_blocked()

    assert network.grants == ["authorization_code", "refresh_token"]
    assert len(person.sign_ins) == 1


# Whom persons keep waiting.


async def test_all_connections_that_wait_for_a_person_say_so_and_no_others(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    first, second, third = Asking(), Asking(), Asking()
    person.thinking = trio.Event()

    async with trio.open_nursery() as requests:
        for asking in (first, second):
            requests.start_soon(request, connect(grant, network, nursery, asking=asking), network.judge)
            await wait_all_tasks_blocked()
        connect(grant, network, nursery, asking=third)
        assert (first.now, second.now, third.now) == (1, 1, 0)
        network.held_up = trio.Event()
        person.thinking.set()
        await wait_all_tasks_blocked()
        assert (first.now, second.now) == (0, 0)  # the authorization server is asked now, and that takes no person
        network.held_up.set()

    assert len(person.sign_ins) == 1


async def test_a_person_is_asked_about_one_server_of_an_issuer_at_a_time_and_time_stands_still_for_both(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    first, second = Asking(), Asking()
    person.thinking = trio.Event()

    async with trio.open_nursery() as requests:
        requests.start_soon(request, connect(grant, network, nursery, asking=first), network.judge)
        await wait_all_tasks_blocked()
        requests.start_soon(request, connect(grant, network, nursery, url=OTHER_URL, asking=second), network.judge)
        await wait_all_tasks_blocked()
        assert (first.now, second.now) == (1, 1)
        assert len(person.sign_ins) == 1
        person.thinking.set()

    assert len(person.sign_ins) == 2
    assert person.most_at_once == 1


async def test_a_refresh_does_not_wait_for_a_person(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    registered = connect(grant, network, nursery)
    await request(registered, network.judge)
    network.revoke()
    person.thinking = trio.Event()
    nursery.start_soon(request, connect(grant, network, nursery, url=OTHER_URL), network.judge)
    await wait_all_tasks_blocked()
    assert person.at_once == 1

    assert await request(registered, network.judge) == 200

    person.thinking.set()


async def test_of_all_servers_of_an_issuer_one_is_refreshed_at_a_time(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    sources = [connect(grant, network, nursery, url=url) for url in (URL, OTHER_URL)]
    for source in sources:
        await request(source, network.judge)
    network.revoke()
    network.held_up = trio.Event()

    async with trio.open_nursery() as requests:
        for source in sources:
            requests.start_soon(request, source, network.judge)
        await wait_all_tasks_blocked()
        assert len(network.presented) == 1
        network.held_up.set()

    assert sorted(network.presented) == ["refresh-1", "refresh-2"]


async def refuse_while_another_server_is_refreshed(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, meanwhile: str | None
) -> int:
    """Return the status of a request whose flight waits for its turn while something else is stored."""
    here, elsewhere = [connect(grant, network, nursery, url=url) for url in (URL, OTHER_URL)]
    for source in (elsewhere, here):
        await request(source, network.judge)
    network.revoke()
    if meanwhile is not None:
        network.accepted.add(meanwhile)
        network.granted[meanwhile] = ""
    network.held_up = trio.Event()
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append(await request(here, network.judge))

    async with trio.open_nursery() as requests:
        requests.start_soon(request, elsewhere, network.judge)
        await wait_all_tasks_blocked()
        requests.start_soon(ask)
        await wait_all_tasks_blocked()
        old = await grant.storage.load(here.cache.key)
        assert old is not None
        new = None if meanwhile is None else old.replace('"access-2"', f'"{meanwhile}"')
        assert await grant.storage.swap(here.cache.key, old, new)
        network.held_up.set()
    return statuses[0]


async def test_what_another_process_stores_while_a_refresh_waits_for_its_turn_is_used(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    assert await refuse_while_another_server_is_refreshed(network, grant, nursery, "theirs") == 200

    assert network.presented == ["refresh-1"]


async def test_what_is_deleted_while_a_refresh_waits_for_its_turn_is_not_refreshed(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    assert await refuse_while_another_server_is_refreshed(network, grant, nursery, None) == 200

    assert network.presented == ["refresh-1"]
    assert network.grants[-1] == "client_credentials"


# What ends soon.


async def test_a_token_is_replaced_before_it_ends(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)

    clock.now += 3600 - 31
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}
    clock.now += 2
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}


async def test_a_token_without_a_refresh_token_is_obtained_anew_where_that_needs_no_person(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(grant, network, nursery)
    await request(source, network.judge)

    clock.now += 3600

    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}


async def test_a_person_is_not_asked_before_the_server_wants_it(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)

    clock.now += 3599
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}
    clock.now += 1
    assert await source.attempt("POST", URL).fields() == {}

    assert len(person.sign_ins) == 1


async def test_a_refresh_token_that_is_of_no_use_is_not_presented_again(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)
    network.good_refresh.clear()

    clock.now += 3590
    shown = [await source.attempt("POST", URL).fields() for _ in range(2)]
    clock.now += 10
    shown.append(await source.attempt("POST", URL).fields())

    assert shown == [{"authorization": "Bearer access-1"}, {"authorization": "Bearer access-1"}, {}]
    assert network.presented == ["refresh-1"]
    assert await request(source, network.judge) == 200
    assert len(person.sign_ins) == 2


async def test_a_good_token_is_shown_while_the_authorization_server_is_out_of_reach(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    clock.now += 3575
    network.is_down = True
    asked = len(network.urls)

    with caplog.at_level(logging.INFO, "trio_mcp.auth"):
        shown = [await source.attempt("POST", URL).fields() for _ in range(3)]

    assert shown == [{"authorization": "Bearer access-1"}] * 3
    assert len(network.urls) == asked + 1  # not for each request
    assert "nobody is there" in caplog.text
    clock.now += 10
    network.is_down = False
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}


async def test_a_token_that_has_ended_and_cannot_be_replaced_fails_the_request_and_the_next_one_tries_again(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    clock.now += 3600
    network.is_down = True

    with pytest.raises(AuthorizationFailed, match="nobody is there"):
        await source.attempt("POST", URL).fields()
    network.is_down = False

    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}
    assert network.presented == ["refresh-1"]


async def test_a_refresh_that_confirms_its_token_keeps_it(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    network.rotates = False
    source = connect(grant, network, nursery)
    await request(source, network.judge)

    for _ in range(2):
        clock.now += 3600
        await request(source, network.judge)

    assert network.presented == ["refresh-1", "refresh-1"]


async def test_a_refresh_is_told_as_whom_the_tokens_were_obtained(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    client, told = Registration("me"), list[Registration | None]()

    class Remembering(MachineGrant):
        def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
            return evolve((yield from super().obtain(ask)), client=client)

        def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
            told.append(ask.client)
            return (yield from super().refresh(ask, refresh_token))

    source = connect(Remembering(clock=clock), network, nursery)
    for _ in range(3):
        assert await request(source, network.judge) == 200
        clock.now += 3600

    assert told == [client, client]


async def test_a_refresh_that_brings_the_same_token_with_a_longer_life_is_one(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    network.same_token = True
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)

    clock.now += 3600
    assert await request(source, network.judge) == 200

    assert network.grants == ["authorization_code", "refresh_token"]


async def test_a_refresh_that_brings_the_refused_token_again_is_none(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    network.same_token = True
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    replies = iter([(401, dict[str, str]()), (200, dict[str, str]())])

    assert await request(source, lambda _: next(replies)) == 200

    assert network.grants == ["client_credentials", "refresh_token", "client_credentials"]


async def test_a_token_of_unknown_expiry_is_used_until_it_is_refused(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    network.lifetime = None
    source = connect(grant, network, nursery)
    await request(source, network.judge)

    clock.now += 10 * 365 * 86400

    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}


# What was stored.


async def test_tokens_that_were_stored_are_shown_without_asking_anybody(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.judge)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), Network(clock), nursery)

    assert await later.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}


async def test_tokens_of_other_accounts_and_ways_are_not_shown(
    network: Network, grant: MachineGrant, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.judge)

    for other in (
        MachineGrant(clock=clock, storage=grant.storage, account="other"),
        MachineGrant(clock=clock, storage=grant.storage, dpop=True),
        PersonGrant(clock=clock, storage=grant.storage, person=person),
    ):
        assert await connect(other, network, nursery).attempt("POST", URL).fields() == {}


async def test_stored_tokens_that_have_ended_are_refreshed_before_they_are_shown(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.judge)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    clock.now += 3600

    assert await later.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}
    assert network.presented == ["refresh-1"]


async def test_what_another_process_has_stored_meanwhile_is_used_before_anybody_is_asked(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    here = connect(grant, network, nursery)
    await request(here, network.judge)
    other = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    network.revoke()
    await request(other, network.judge)
    asked = len(network.urls)

    assert await request(here, network.judge) == 200

    assert len(network.urls) == asked


async def test_where_another_process_has_used_the_refresh_token_up_new_tokens_are_obtained(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    here = connect(grant, network, nursery)
    await request(here, network.judge)
    other = connect(PersonGrant(clock=clock, person=person, storage=grant.storage), network, nursery)
    network.revoke()
    network.good_refresh.clear()
    person.refusal = "access_denied"
    with pytest.raises(AuthorizationFailed):
        await request(other, network.judge)
    person.refusal = None

    assert await request(here, network.judge) == 200

    assert network.presented == ["refresh-1"]


async def test_tokens_that_were_deleted_are_not_refreshed(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    storage, key = source.cache.grant.storage, source.cache.key
    assert await storage.swap(key, await storage.load(key), None)
    network.revoke()

    assert await request(source, network.judge) == 200

    assert network.grants == ["client_credentials", "client_credentials"]


async def test_tokens_that_were_deleted_are_not_replaced_before_the_server_has_spoken(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    storage, key = source.cache.grant.storage, source.cache.key
    assert await storage.swap(key, await storage.load(key), None)
    clock.now += 3600

    assert await source.attempt("POST", URL).fields() == {}
    assert network.grants == ["client_credentials"]


async def test_a_token_that_ended_is_not_replaced_at_a_place_that_the_server_has_not_named(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.judge)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    clock.now += 3600
    network.issuer = "https://other.example.com"

    assert await later.attempt("POST", URL).fields() == {}

    assert network.grants == ["client_credentials"]
    assert later.cache.token_issuer is None


async def test_where_a_token_comes_from_cannot_be_found_out_the_server_is_heard(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.judge)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    clock.now += 3600
    network.is_down = True

    assert await later.attempt("POST", URL).fields() == {}


async def test_a_lease_of_a_process_that_has_died_is_waited_for_until_it_ends(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    record = await stored(source)
    assert record is not None
    text = await grant.storage.load(source.cache.key)
    leased = write_record(record).replace('"lease":null', f'"lease":{{"holder":"gone","until":{clock.now + 3}}}')
    assert await grant.storage.swap(source.cache.key, text, leased)
    network.revoke()
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append(await request(source, network.judge))

    async with trio.open_nursery() as requests:
        requests.start_soon(ask)
        await wait_all_tasks_blocked()
        assert network.presented == []
        clock.now += 3

    assert statuses == [200]
    assert network.presented == ["refresh-1"]


# Scopes.


async def test_what_was_asked_for_earlier_is_asked_for_again_with_what_is_configured_and_wanted_now(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    grant = MachineGrant(clock=clock, scopes=["read"])
    await request(connect(grant, network, nursery), network.judge)
    network.revoke()
    later = connect(MachineGrant(clock=clock, storage=grant.storage, scopes=["more"]), network, nursery)
    challenge = {"www-authenticate": 'Bearer scope="now"'}

    await request(later, lambda fields: (401, challenge) if network.judge(fields)[0] == 401 else (200, {}))

    assert [form["scope"] for form in network.asked] == ["read", "read more now"]


async def test_scopes_of_earlier_that_are_not_known_any_more_are_left_out_the_next_time(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    grant = MachineGrant(clock=clock, scopes=["old"])
    await request(connect(grant, network, nursery), network.judge)
    network.revoke()
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    network.refusal = "invalid_scope"
    with pytest.raises(AuthorizationFailed):
        await request(later, network.judge)
    network.refusal = None

    assert await request(later, network.judge) == 200

    assert [form.get("scope") for form in network.asked] == ["old", "old", None]


async def test_scopes_without_a_challenge_are_those_that_were_asked_for(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(MachineGrant(clock=clock, scopes=["read"]), network, nursery)
    await request(source, network.judge)
    clock.now += 3600

    await source.attempt("POST", URL).fields()

    assert [form["scope"] for form in network.asked] == ["read", "read"]


# Storages that fail.


class FailingStorage(MemoryTokenStorage):
    """Raises what storages of applications raise."""

    fails = True

    async def load(self, key: str) -> str | None:
        if self.fails:
            raise KeyError("not-to-be-shown")
        return await super().load(key)


async def test_what_a_storage_raises_fails_the_request_that_needed_it_and_shows_nothing_of_it(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    storage = FailingStorage()
    source = connect(MachineGrant(clock=clock, storage=storage), network, nursery)

    with pytest.raises(AuthorizationFailed, match="KeyError") as caught:
        await source.attempt("POST", URL).fields()
    storage.fails = False
    attempt = source.attempt("POST", URL)
    assert attempt.on_response(*network.judge(await attempt.fields()))
    storage.fails = True
    with pytest.raises(AuthorizationFailed, match="KeyError"):
        await attempt.resolve()

    assert "not-to-be-shown" not in str(caught.value)


async def test_a_storage_that_takes_too_long_to_store_a_token_fails_the_request(
    network: Network, clock: Clock, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    class Hanging(MemoryTokenStorage):
        async def swap(self, key: str, old: str | None, new: str | None) -> bool:
            await trio.sleep_forever()
            raise AssertionError

    source = connect(MachineGrant(clock=clock, storage=Hanging()), network, nursery)

    with pytest.raises(AuthorizationFailed, match="the token storage took too long"):
        await request(source, network.judge)


async def test_no_token_is_in_the_repr_of_anything_that_keeps_it(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.judge)
    attempt = source.attempt("POST", URL)
    await attempt.fields()
    attempt.on_response(401, {})

    shown = repr((source, attempt, source.cache, source.cache.active, source.cache.grant))

    assert "access-1" not in shown
    assert "refresh-1" not in shown
    assert "kty" not in shown


async def test_a_storage_that_is_read_for_the_first_time_is_read_once_for_all(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    loads: list[str] = []

    class Counting(MemoryTokenStorage):
        async def load(self, key: str) -> str | None:
            loads.append(key)
            return await super().load(key)

    source = connect(MachineGrant(clock=clock, storage=Counting()), network, nursery)

    async with trio.open_nursery() as requests:
        for _ in range(10):
            requests.start_soon(source.attempt("POST", URL).fields)

    assert len(loads) == 1
