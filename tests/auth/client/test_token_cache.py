"""The token cache: shared refreshes and sign-ins, cancellation, expiry, storage and scopes."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.auth.client.scripted_network import (
    URL,
    MachineGrant,
    Network,
    Person,
    PersonGrant,
    WaitCounter,
    connect,
    request,
)
from tests.auth.signed_tokens import Clock
from trio_mcp import AuthorizationFailed, ConnectionClosed
from trio_mcp.auth import MemoryTokenStorage, Registration
from trio_mcp.auth.client._source import GrantSource
from trio_mcp.auth.client._steps import Flow
from trio_mcp.auth.client._token_cache import TokenRequirement
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens
from trio_mcp.auth.client._token_records import TokenRecord, read_record, write_record

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
    """Return the record in the storage."""
    return read_record(await source.cache.grant.storage.load(source.cache.key))


# Sharing.


async def test_a_hundred_requests_with_a_refused_token_cause_one_refresh(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    connections = [connect(grant, network, nursery) for _ in range(4)]
    await request(connections[0], network.respond)
    network.revoke()
    statuses: list[int] = []

    async def send(source: GrantSource) -> None:
        statuses.append(await request(source, network.respond))

    async with trio.open_nursery() as requests:
        for number in range(100):
            requests.start_soon(send, connections[number % 4])

    assert statuses == [200] * 100
    assert network.grants == ["client_credentials", "refresh_token"]


async def test_a_hundred_requests_with_a_token_about_to_expire_cause_one_refresh(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    clock.now += 3600
    shown: set[str] = set()

    async def send() -> None:
        shown.update((await source.attempt("POST", URL).fields()).values())

    async with trio.open_nursery() as requests:
        for _ in range(100):
            requests.start_soon(send)

    assert shown == {"Bearer access-2"}
    assert network.grants == ["client_credentials", "refresh_token"]


async def test_a_hundred_requests_share_one_failure(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.decision, person.refusal = trio.Event(), "access_denied"
    failures: list[AuthorizationFailed] = []

    async def send() -> None:
        with pytest.raises(AuthorizationFailed) as caught:
            await request(source, network.respond)
        failures.append(caught.value)

    async with trio.open_nursery() as requests:
        for _ in range(100):
            requests.start_soon(send)
        await wait_all_tasks_blocked()
        person.decision.set()

    assert {failure.error for failure in failures} == {"access_denied"}
    assert len({id(failure) for failure in failures}) == 100  # each exception has a separate traceback
    assert len(person.sign_ins) == 1


async def test_a_server_that_always_issues_the_same_token_gets_one_request_for_a_hundred_refusals(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    network.same_token, network.refreshable = True, False
    source = connect(grant, network, nursery)
    await request(source, network.respond)

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
    await request(source, network.respond)
    person.decision = trio.Event()
    network.scopes_needed = {"admin"}
    nursery.start_soon(request, source, network.respond)
    await wait_all_tasks_blocked()
    network.scopes_needed = set()

    assert await request(source, network.respond) == 200  # while the user decides about more scopes

    person.decision.set()


async def test_requests_that_need_different_scopes_get_them_one_after_the_other(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)

    def respond(scope: str, fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        token = fields["authorization"].partition(" ")[2]
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        return (200, {}) if scope in network.granted[token].split() else (403, {"www-authenticate": challenge})

    statuses: list[int] = []

    async def send(scope: str) -> None:
        statuses.append(await request(source, lambda fields: respond(scope, fields)))

    async with trio.open_nursery() as requests:
        for scope in ("a", "b", "c"):
            requests.start_soon(send, scope)

    assert statuses == [200] * 3
    assert {scope for form in network.token_requests[1:] for scope in form["scope"].split()} == {"a", "b", "c"}
    assert len(network.token_requests) == 4


async def test_a_failure_of_other_requests_does_not_affect_a_request_with_another_requirement(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.respond)
    active = source.cache.active
    assert active is not None
    person.decision, person.refusal = trio.Event(), "access_denied"

    async def fail() -> None:
        with pytest.raises(AuthorizationFailed):
            await source.cache.renewed(
                source.connection, TokenRequirement(shown=active.token, was_refused=True, scopes=("admin",))
            )

    nursery.start_soon(fail)
    await wait_all_tasks_blocked()
    async with trio.open_nursery() as requests:
        network.revoke()
        requests.start_soon(request, source, network.respond)
        await wait_all_tasks_blocked()
        person.decision.set()

    assert network.grants == ["authorization_code", "refresh_token"]


# Cancellation and closing.


async def test_a_refresh_continues_if_the_request_that_started_it_is_cancelled(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    network.revoke()
    network.barrier = trio.Event()

    with trio.CancelScope() as leader:
        async with trio.open_nursery() as requests:
            requests.start_soon(request, source, network.respond)
            await wait_all_tasks_blocked()
            leader.cancel()
    network.barrier.set()

    assert await request(source, network.respond) == 200
    assert network.grants == ["client_credentials", "refresh_token"]


async def test_a_waiting_request_starts_again_if_the_connection_of_the_first_request_closes(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    network.refreshable = False
    await request(connect(grant, network, nursery), network.respond)
    network.revoke()
    network.barrier = trio.Event()
    statuses: list[int] = []

    async def send(source: GrantSource) -> None:
        statuses.append(await request(source, network.respond))

    async with trio.open_nursery() as requests:
        async with trio.open_nursery() as leader:
            leader.start_soon(send, connect(grant, network, leader))
            await wait_all_tasks_blocked()
            requests.start_soon(send, connect(grant, network, nursery))
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
        network.barrier.set()

    assert statuses == [200]
    assert network.grants == ["client_credentials"] * 3


async def test_a_refresh_of_a_closing_connection_is_completed(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    network.revoke()
    network.barrier = trio.Event()

    async with trio.open_nursery() as leader:
        leader.start_soon(request, connect(grant, network, leader), network.respond)
        await wait_all_tasks_blocked()
        leader.cancel_scope.cancel()
        network.barrier.set()

    assert network.respond(await source.attempt("POST", URL).fields())[0] == 200
    record = await stored(source)
    assert record is not None
    assert record.lease is None
    assert record.tokens.refresh_token == "refresh-2"


async def test_a_refresh_that_exceeds_the_grace_of_a_closing_connection_is_left_to_other_connections(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    network.revoke()
    network.barrier = trio.Event()
    statuses: list[int] = []

    async def send() -> None:
        statuses.append(await request(source, network.respond))

    async with trio.open_nursery() as requests:
        async with trio.open_nursery() as leader:
            leader.start_soon(request, connect(grant, network, leader), network.respond)
            await wait_all_tasks_blocked()
            requests.start_soon(send)
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
            began = trio.current_time()
        assert trio.current_time() - began == pytest.approx(5)
        network.barrier.set()

    assert statuses == [200]
    assert network.presented == ["refresh-1", "refresh-1"]  # the server may have received both
    assert trio.current_time() - began == pytest.approx(5)  # the lease was released


async def test_a_refresh_that_times_out_fails_and_can_be_repeated(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    network.revoke()
    network.barrier = trio.Event()

    with pytest.raises(AuthorizationFailed, match=r"auth\.example\.com took too long to refresh a token"):
        await request(source, network.respond)
    network.barrier = None

    assert await request(source, network.respond) == 200
    assert network.presented == ["refresh-1", "refresh-1"]


async def test_a_waiting_request_fails_with_connection_closed_if_its_connection_closes(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    network.barrier = trio.Event()

    async def send(source: GrantSource) -> None:
        with pytest.raises(ConnectionClosed, match="while a token was requested"):
            await request(source, network.respond)

    async with trio.open_nursery() as requests, trio.open_nursery() as connection:
        requests.start_soon(send, connect(grant, network, connection))
        await wait_all_tasks_blocked()
        connection.cancel_scope.cancel()


async def test_a_request_on_a_closed_connection_fails_and_does_not_block_other_connections(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    async with trio.open_nursery() as connection:
        late = connect(grant, network, connection)

    with pytest.raises(ConnectionClosed, match="has closed the connection"):
        await request(late, network.respond)
    with trio.fail_after(60):
        assert await request(connect(grant, network, nursery), network.respond) == 200


async def test_a_sign_in_is_cancelled_if_no_request_waits_for_it(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.decision = trio.Event()

    async with trio.open_nursery() as requests:
        requests.start_soon(request, source, network.respond)
        requests.start_soon(request, source, network.respond)
        await wait_all_tasks_blocked()
        assert person.active_flows == 1
        requests.cancel_scope.cancel()
    await wait_all_tasks_blocked()

    assert person.active_flows == 0
    person.decision.set()
    assert await request(source, network.respond) == 200
    assert len(person.sign_ins) == 2


async def test_a_sign_in_continues_while_one_request_waits_for_it(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.decision = trio.Event()
    statuses: list[int] = []

    async def send() -> None:
        statuses.append(await request(source, network.respond))

    async with trio.open_nursery() as others:
        async with trio.open_nursery() as leader:
            leader.start_soon(request, source, network.respond)
            await wait_all_tasks_blocked()
            others.start_soon(send)
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
        person.decision.set()

    assert statuses == [200]
    assert len(person.sign_ins) == 1


async def test_a_request_during_the_cancellation_of_a_sign_in_starts_a_new_sign_in(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    person.decision = trio.Event()
    late = source.attempt("POST", URL)
    assert late.on_response(*network.respond(await late.fields()))

    async with trio.open_nursery() as both:
        async with trio.open_nursery() as leader:
            leader.start_soon(request, source, network.respond)
            await wait_all_tasks_blocked()
            leader.cancel_scope.cancel()
        person.decision.set()
        both.start_soon(late.resolve)

    assert network.respond(await late.fields())[0] == 200
    assert len(person.sign_ins) == 2


async def test_a_refresh_without_waiting_requests_does_not_lead_to_a_sign_in(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.respond)
    network.revoke()
    network.good_refresh.clear()
    network.barrier = trio.Event()

    async with trio.open_nursery() as requests:
        requests.start_soon(request, source, network.respond)
        await wait_all_tasks_blocked()
        requests.cancel_scope.cancel()
    network.barrier.set()
    await wait_all_tasks_blocked()

    assert network.grants == ["authorization_code", "refresh_token"]
    assert len(person.sign_ins) == 1


# Waiting for the user.


async def test_exactly_the_connections_that_wait_for_the_user_are_counted(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    first, second, third = WaitCounter(), WaitCounter(), WaitCounter()
    person.decision = trio.Event()

    async with trio.open_nursery() as requests:
        for counter in (first, second):
            requests.start_soon(request, connect(grant, network, nursery, asking=counter), network.respond)
            await wait_all_tasks_blocked()
        connect(grant, network, nursery, asking=third)
        assert (first.count, second.count, third.count) == (1, 1, 0)
        network.barrier = trio.Event()
        person.decision.set()
        await wait_all_tasks_blocked()
        assert (first.count, second.count) == (0, 0)  # the token request does not wait for the user
        network.barrier.set()

    assert len(person.sign_ins) == 1


async def test_the_user_signs_in_for_one_server_of_an_issuer_at_a_time_and_both_connections_wait(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    first, second = WaitCounter(), WaitCounter()
    person.decision = trio.Event()

    async with trio.open_nursery() as requests:
        requests.start_soon(request, connect(grant, network, nursery, asking=first), network.respond)
        await wait_all_tasks_blocked()
        requests.start_soon(request, connect(grant, network, nursery, url=OTHER_URL, asking=second), network.respond)
        await wait_all_tasks_blocked()
        assert (first.count, second.count) == (1, 1)
        assert len(person.sign_ins) == 1
        person.decision.set()

    assert len(person.sign_ins) == 2
    assert person.most_active_flows == 1


async def test_a_refresh_does_not_wait_for_the_user(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    registered = connect(grant, network, nursery)
    await request(registered, network.respond)
    network.revoke()
    person.decision = trio.Event()
    nursery.start_soon(request, connect(grant, network, nursery, url=OTHER_URL), network.respond)
    await wait_all_tasks_blocked()
    assert person.active_flows == 1

    assert await request(registered, network.respond) == 200

    person.decision.set()


async def test_the_tokens_of_several_servers_of_an_issuer_are_refreshed_one_at_a_time(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    sources = [connect(grant, network, nursery, url=url) for url in (URL, OTHER_URL)]
    for source in sources:
        await request(source, network.respond)
    network.revoke()
    network.barrier = trio.Event()

    async with trio.open_nursery() as requests:
        for source in sources:
            requests.start_soon(request, source, network.respond)
        await wait_all_tasks_blocked()
        assert len(network.presented) == 1
        network.barrier.set()

    assert sorted(network.presented) == ["refresh-1", "refresh-2"]


async def refuse_while_another_server_is_refreshed(
    network: Network, grant: MachineGrant, nursery: trio.Nursery, new_token: str | None
) -> int:
    """Return the status of a request that waits for the refresh of another server while its record is changed."""
    here, elsewhere = [connect(grant, network, nursery, url=url) for url in (URL, OTHER_URL)]
    for source in (elsewhere, here):
        await request(source, network.respond)
    network.revoke()
    if new_token is not None:
        network.accepted.add(new_token)
        network.granted[new_token] = ""
    network.barrier = trio.Event()
    statuses: list[int] = []

    async def send() -> None:
        statuses.append(await request(here, network.respond))

    async with trio.open_nursery() as requests:
        requests.start_soon(request, elsewhere, network.respond)
        await wait_all_tasks_blocked()
        requests.start_soon(send)
        await wait_all_tasks_blocked()
        old = await grant.storage.load(here.cache.key)
        assert old is not None
        new = None if new_token is None else old.replace('"access-2"', f'"{new_token}"')
        assert await grant.storage.swap(here.cache.key, old, new)
        network.barrier.set()
    return statuses[0]


async def test_a_token_that_another_process_stores_while_a_refresh_is_queued_is_used(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    assert await refuse_while_another_server_is_refreshed(network, grant, nursery, "theirs") == 200

    assert network.presented == ["refresh-1"]


async def test_a_token_that_is_deleted_while_its_refresh_is_queued_is_not_refreshed(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    assert await refuse_while_another_server_is_refreshed(network, grant, nursery, None) == 200

    assert network.presented == ["refresh-1"]
    assert network.grants[-1] == "client_credentials"


# Expiry.


async def test_a_token_is_replaced_before_it_expires(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)

    clock.now += 3600 - 31
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}
    clock.now += 2
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}


async def test_a_token_without_a_refresh_token_is_obtained_again_if_that_needs_no_user(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(grant, network, nursery)
    await request(source, network.respond)

    clock.now += 3600

    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}


async def test_a_user_is_not_asked_before_the_server_refuses_a_request(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.respond)

    clock.now += 3599
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}
    clock.now += 1
    assert await source.attempt("POST", URL).fields() == {}

    assert len(person.sign_ins) == 1


async def test_a_refused_refresh_token_is_not_sent_again(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.respond)
    network.good_refresh.clear()

    clock.now += 3590
    shown = [await source.attempt("POST", URL).fields() for _ in range(2)]
    clock.now += 10
    shown.append(await source.attempt("POST", URL).fields())

    assert shown == [{"authorization": "Bearer access-1"}, {"authorization": "Bearer access-1"}, {}]
    assert network.presented == ["refresh-1"]
    assert await request(source, network.respond) == 200
    assert len(person.sign_ins) == 2


async def test_a_valid_token_is_used_while_the_authorization_server_is_unreachable(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    clock.now += 3575
    network.is_down = True
    before = len(network.urls)

    with caplog.at_level(logging.INFO, "trio_mcp.auth"):
        shown = [await source.attempt("POST", URL).fields() for _ in range(3)]

    assert shown == [{"authorization": "Bearer access-1"}] * 3
    assert len(network.urls) == before + 1  # not once for each request
    assert "unreachable" in caplog.text
    clock.now += 10
    network.is_down = False
    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}


async def test_an_expired_token_that_cannot_be_replaced_fails_the_request_and_the_next_one_tries_again(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    clock.now += 3600
    network.is_down = True

    with pytest.raises(AuthorizationFailed, match="unreachable"):
        await source.attempt("POST", URL).fields()
    network.is_down = False

    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}
    assert network.presented == ["refresh-1"]


async def test_a_refresh_token_that_is_not_replaced_is_used_again(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    network.rotates = False
    source = connect(grant, network, nursery)
    await request(source, network.respond)

    for _ in range(2):
        clock.now += 3600
        await request(source, network.respond)

    assert network.presented == ["refresh-1", "refresh-1"]


async def test_a_refresh_receives_the_client_that_obtained_the_tokens(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    client, clients = Registration("me"), list[Registration | None]()

    class ClientGrant(MachineGrant):
        def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
            return evolve((yield from super().obtain(ask)), client=client)

        def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
            clients.append(ask.client)
            return (yield from super().refresh(ask, refresh_token))

    source = connect(ClientGrant(clock=clock), network, nursery)
    for _ in range(3):
        assert await request(source, network.respond) == 200
        clock.now += 3600

    assert clients == [client, client]


async def test_a_refresh_that_returns_the_expired_token_with_a_new_expiry_succeeds(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    network.same_token = True
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.respond)

    clock.now += 3600
    assert await request(source, network.respond) == 200

    assert network.grants == ["authorization_code", "refresh_token"]


async def test_a_refresh_that_returns_the_refused_token_leads_to_a_new_authorization(
    network: Network, grant: MachineGrant, nursery: trio.Nursery
) -> None:
    network.same_token = True
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    replies = iter([(401, dict[str, str]()), (200, dict[str, str]())])

    assert await request(source, lambda _: next(replies)) == 200

    assert network.grants == ["client_credentials", "refresh_token", "client_credentials"]


async def test_a_token_of_unknown_expiry_is_used_until_it_is_refused(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    network.lifetime = None
    source = connect(grant, network, nursery)
    await request(source, network.respond)

    clock.now += 10 * 365 * 86400

    assert await source.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}


# Stored tokens.


async def test_stored_tokens_are_sent_without_any_request_to_the_authorization_server(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.respond)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), Network(clock), nursery)

    assert await later.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}


async def test_stored_tokens_of_other_accounts_and_grants_are_not_sent(
    network: Network, grant: MachineGrant, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.respond)

    for other in (
        MachineGrant(clock=clock, storage=grant.storage, account="other"),
        MachineGrant(clock=clock, storage=grant.storage, dpop=True),
        PersonGrant(clock=clock, storage=grant.storage, person=person),
    ):
        assert await connect(other, network, nursery).attempt("POST", URL).fields() == {}


async def test_expired_stored_tokens_are_refreshed_before_they_are_sent(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.respond)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    clock.now += 3600

    assert await later.attempt("POST", URL).fields() == {"authorization": "Bearer access-2"}
    assert network.presented == ["refresh-1"]


async def test_a_token_that_another_process_has_stored_is_used_without_a_request(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    here = connect(grant, network, nursery)
    await request(here, network.respond)
    other = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    network.revoke()
    await request(other, network.respond)
    before = len(network.urls)

    assert await request(here, network.respond) == 200

    assert len(network.urls) == before


async def test_new_tokens_are_obtained_if_another_process_has_used_up_the_refresh_token(
    network: Network, clock: Clock, person: Person, nursery: trio.Nursery
) -> None:
    grant = PersonGrant(clock=clock, person=person)
    here = connect(grant, network, nursery)
    await request(here, network.respond)
    other = connect(PersonGrant(clock=clock, person=person, storage=grant.storage), network, nursery)
    network.revoke()
    network.good_refresh.clear()
    person.refusal = "access_denied"
    with pytest.raises(AuthorizationFailed):
        await request(other, network.respond)
    person.refusal = None

    assert await request(here, network.respond) == 200

    assert network.presented == ["refresh-1"]


async def test_deleted_tokens_are_not_refreshed(network: Network, grant: MachineGrant, nursery: trio.Nursery) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    storage, key = source.cache.grant.storage, source.cache.key
    assert await storage.swap(key, await storage.load(key), None)
    network.revoke()

    assert await request(source, network.respond) == 200

    assert network.grants == ["client_credentials", "client_credentials"]


async def test_deleted_tokens_are_not_replaced_before_the_server_refuses_a_request(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    storage, key = source.cache.grant.storage, source.cache.key
    assert await storage.swap(key, await storage.load(key), None)
    clock.now += 3600

    assert await source.attempt("POST", URL).fields() == {}
    assert network.grants == ["client_credentials"]


async def test_an_expired_token_is_not_refreshed_at_an_issuer_that_the_server_no_longer_names(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.respond)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    clock.now += 3600
    network.issuer = "https://other.example.com"

    assert await later.attempt("POST", URL).fields() == {}

    assert network.grants == ["client_credentials"]
    assert later.cache.token_issuer is None


async def test_if_the_issuer_of_an_expired_token_is_unreachable_the_request_is_sent_without_a_token(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    await request(connect(grant, network, nursery), network.respond)
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    clock.now += 3600
    network.is_down = True

    assert await later.attempt("POST", URL).fields() == {}


async def test_a_lease_of_a_terminated_process_is_respected_until_it_expires(
    network: Network, grant: MachineGrant, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    record = await stored(source)
    assert record is not None
    text = await grant.storage.load(source.cache.key)
    leased = write_record(record).replace('"lease":null', f'"lease":{{"holder":"gone","until":{clock.now + 3}}}')
    assert await grant.storage.swap(source.cache.key, text, leased)
    network.revoke()
    statuses: list[int] = []

    async def send() -> None:
        statuses.append(await request(source, network.respond))

    async with trio.open_nursery() as requests:
        requests.start_soon(send)
        await wait_all_tasks_blocked()
        assert network.presented == []
        clock.now += 3

    assert statuses == [200]
    assert network.presented == ["refresh-1"]


# Scopes.


async def test_previously_requested_scopes_are_requested_again_with_configured_and_required_ones(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    grant = MachineGrant(clock=clock, scopes=["read"])
    await request(connect(grant, network, nursery), network.respond)
    network.revoke()
    later = connect(MachineGrant(clock=clock, storage=grant.storage, scopes=["more"]), network, nursery)
    challenge = {"www-authenticate": 'Bearer scope="now"'}

    await request(later, lambda fields: (401, challenge) if network.respond(fields)[0] == 401 else (200, {}))

    assert [form["scope"] for form in network.token_requests] == ["read", "read more now"]


async def test_previously_requested_scopes_that_are_refused_are_omitted_the_next_time(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    grant = MachineGrant(clock=clock, scopes=["old"])
    await request(connect(grant, network, nursery), network.respond)
    network.revoke()
    later = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    network.refusal = "invalid_scope"
    with pytest.raises(AuthorizationFailed):
        await request(later, network.respond)
    network.refusal = None

    assert await request(later, network.respond) == 200

    assert [form.get("scope") for form in network.token_requests] == ["old", "old", None]


async def test_without_a_challenge_the_previously_requested_scopes_are_requested(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(MachineGrant(clock=clock, scopes=["read"]), network, nursery)
    await request(source, network.respond)
    clock.now += 3600

    await source.attempt("POST", URL).fields()

    assert [form["scope"] for form in network.token_requests] == ["read", "read"]


# Storage failures.


class FailingStorage(MemoryTokenStorage):
    """A storage that raises an exception of the application."""

    fails = True

    async def load(self, key: str) -> str | None:
        if self.fails:
            raise KeyError("not-to-be-shown")
        return await super().load(key)


async def test_an_exception_of_the_storage_fails_the_request_without_showing_its_message(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    storage = FailingStorage()
    source = connect(MachineGrant(clock=clock, storage=storage), network, nursery)

    with pytest.raises(AuthorizationFailed, match="KeyError") as caught:
        await source.attempt("POST", URL).fields()
    storage.fails = False
    attempt = source.attempt("POST", URL)
    assert attempt.on_response(*network.respond(await attempt.fields()))
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
        await request(source, network.respond)


async def test_the_repr_of_no_object_contains_a_token(network: Network, clock: Clock, nursery: trio.Nursery) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.respond)
    attempt = source.attempt("POST", URL)
    await attempt.fields()
    attempt.on_response(401, {})

    shown = repr((source, attempt, source.cache, source.cache.active, source.cache.grant))

    assert "access-1" not in shown
    assert "refresh-1" not in shown
    assert "kty" not in shown


async def test_the_first_read_of_the_storage_is_shared_by_all_requests(
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
