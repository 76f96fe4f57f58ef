"""What one connection shows with its requests, and what it does about the server's refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import trio

from tests.auth.client.scripted_network import (
    ISSUER,
    URL,
    Clock,
    MachineGrant,
    Network,
    Person,
    PersonGrant,
    connect,
    nonce_in,
    request,
)
from trio_mcp import AuthorizationFailed
from trio_mcp.auth._dpop import NONCE_FIELD
from trio_mcp.auth.client._source import GrantSource
from trio_mcp.auth.client._token_endpoint import Tokens
from trio_mcp.auth.client._token_storage import TokenRecord, write_record


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def network(clock: Clock) -> Network:
    return Network(clock)


async def test_the_first_request_shows_nothing_and_a_refusal_brings_a_token(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    attempt = source.attempt("POST", URL)
    assert await attempt.fields() == {}
    assert attempt.on_response(*network.judge({}))
    await attempt.resolve()
    fields = await attempt.fields()

    assert fields == {"authorization": "Bearer access-1"}
    assert not attempt.on_response(*network.judge(fields))


async def test_a_token_is_shown_again_without_asking_anybody(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert [await request(source, network.judge) for _ in range(3)] == [200, 200, 200]

    assert network.grants == ["client_credentials"]


async def test_other_connections_of_the_same_grant_show_the_same_token_for_all_spellings_of_the_url(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    grant = MachineGrant(clock=clock)
    await request(connect(grant, network, nursery), network.judge)

    other = connect(grant, network, nursery, url="HTTPS://MCP.example.com:443/mcp")

    assert await other.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}


async def test_a_server_that_asks_for_nothing_is_shown_nothing(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda _: (200, {})) == 200

    assert network.urls == []


async def test_a_refused_token_is_replaced_once_and_a_new_one_that_is_refused_ends_it(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda _: (401, {})) == 401
    assert await request(source, lambda _: (401, {})) == 401

    assert network.grants == ["client_credentials"]


async def test_a_new_token_that_was_refused_is_given_another_chance_after_a_minute(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, lambda _: (401, {}))

    clock.now += 61
    network.revoke()

    assert await request(source, network.judge) == 200
    assert network.grants == ["client_credentials", "client_credentials"]


async def test_a_refreshed_token_that_was_never_taken_is_not_refreshed_but_obtained_anew(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.judge)

    assert await request(source, lambda _: (401, {})) == 401
    network.revoke()
    assert await request(source, network.judge) == 200

    assert network.grants == ["client_credentials", "refresh_token", "client_credentials"]


async def test_an_error_of_the_server_is_no_sign_that_it_took_the_token(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(MachineGrant(clock=clock), network, nursery)
    replies = iter([401, 503, 401])

    statuses = [await request(source, lambda _: (next(replies), {})) for _ in range(2)]

    assert statuses == [503, 401]
    assert network.grants == ["client_credentials"]


async def test_where_a_token_is_to_be_had_is_looked_up_anew_after_a_refusal_and_kept_from_other_issuers(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.judge)

    network.issuer = "https://other.example.com"
    network.revoke()
    assert await request(source, network.judge) == 200

    assert network.grants == ["client_credentials", "client_credentials"]  # the refresh token is another issuer's
    assert network.urls[-1] == "https://other.example.com/token"


@pytest.mark.requirement("C.2-9")
async def test_credentials_of_one_authorization_server_are_not_shown_to_another(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    class Staying(MachineGrant):
        @property
        def stays_with_issuer(self) -> bool:
            return True

    source = connect(Staying(clock=clock), network, nursery)
    await request(source, network.judge)

    network.issuer = "https://other.example.com"
    network.revoke()
    with pytest.raises(AuthorizationFailed, match=r"the tokens so far came from https://auth\.example\.com, "):
        await request(source, network.judge)

    assert network.grants == ["client_credentials"]
    assert "https://other.example.com/token" not in network.urls


async def test_the_challenge_that_says_most_is_followed(network: Network, clock: Clock, nursery: trio.Nursery) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    token_issuer = "https://mcp.example.com/elsewhere/oauth-protected-resource"
    challenges = f'Basic realm="x", DPoP algs="ES256", Bearer scope="a b", resource_metadata="{token_issuer}"'

    attempt = source.attempt("POST", URL)
    await attempt.fields()
    assert attempt.on_response(401, {"www-authenticate": challenges})
    await attempt.resolve()

    assert network.urls[0] == token_issuer
    assert network.asked == [{"grant_type": "client_credentials", "scope": "a b"}]


# More scopes.


def wants(*scopes: str) -> dict[str, str]:
    return {"www-authenticate": f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'}


async def test_more_scopes_are_asked_for_together_with_those_there_are(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, scopes=["read"]), network, nursery)
    await request(source, network.judge)

    network.scopes_needed = {"write"}

    assert await request(source, network.judge) == 200
    assert [form["scope"] for form in network.asked] == ["read", "read write"]


async def test_what_was_granted_counts_where_nothing_was_asked_for(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    grant = MachineGrant(clock=clock)
    given = TokenRecord(
        issuer=ISSUER,
        resource=URL,
        tokens=Tokens(
            access_token="given", token_type="Bearer", expires_at=None, refresh_token=None, scopes=("basic", "profile")
        ),
        obtained_at=clock.now,
        requested=None,
        dpop_key=None,
    )
    source = connect(grant, network, nursery)
    assert await grant.storage.swap(source.cache.key, None, write_record(given))
    network.accepted.add("given")
    network.granted["given"] = "basic profile"
    network.scopes_needed = {"write"}

    assert await request(source, network.judge) == 200

    assert [form["scope"] for form in network.asked] == ["basic profile write"]


async def test_a_person_is_asked_for_more_scopes(network: Network, clock: Clock, nursery: trio.Nursery) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)
    network.scopes_needed = {"write"}

    assert await request(source, network.judge) == 200

    assert len(person.sign_ins) == 2
    assert person.sign_ins[1].endswith("scope=write")


async def test_a_server_that_is_never_content_costs_one_request_for_the_same_scopes(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)

    def judge(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        return (403, wants("more")) if fields else (401, {})

    assert [await request(source, judge) for _ in range(5)] == [403] * 5

    assert len(person.sign_ins) == 2


async def test_a_server_that_wants_other_scopes_each_time_costs_two_requests_for_them(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    serial = iter(range(100))

    def judge(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        return (403, wants(f"scope-{next(serial)}")) if fields else (401, {})

    assert [await request(source, judge) for _ in range(5)] == [403] * 5

    assert len(person.sign_ins) == 3


async def test_scopes_that_were_of_use_are_not_held_against_later_ones(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.judge)

    for scope in ("a", "b", "c", "d"):
        network.scopes_needed = {scope}
        assert await request(source, network.judge) == 200

    assert [form.get("scope") for form in network.asked] == [None, "a", "a b", "a b c", "a b c d"]


async def test_a_request_that_meets_a_token_with_the_scopes_by_then_shows_that(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.judge)
    network.scopes_needed = {"write"}
    late = source.attempt("POST", URL)
    refused = network.judge(await late.fields())

    assert await request(source, network.judge) == 200
    assert late.on_response(*refused)
    await late.resolve()

    assert network.judge(await late.fields())[0] == 200
    assert len(network.asked) == 2


async def test_after_a_denial_the_same_scopes_are_not_requested_again(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.judge)
    network.scopes_needed, person.refusal = {"write"}, "access_denied"

    with pytest.raises(AuthorizationFailed, match="said no") as caught:
        await request(source, network.judge)
    assert await request(source, network.judge) == 403

    assert caught.value.error == "access_denied"
    assert len(person.sign_ins) == 2


async def test_scopes_that_could_not_be_asked_for_are_asked_for_by_the_next_request(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.judge)
    network.scopes_needed, network.is_down = {"write"}, True

    with pytest.raises(AuthorizationFailed, match="nobody is there"):
        await request(source, network.judge)
    network.is_down = False

    assert await request(source, network.judge) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"www-authenticate": 'Bearer error="insufficient_scope"'},
        {"www-authenticate": 'Bearer error="invalid_token", scope="a"'},
        {"www-authenticate": 'Basic error="insufficient_scope", scope="a"'},
    ],
)
async def test_a_refusal_that_names_no_scopes_to_have_is_final(
    network: Network, clock: Clock, nursery: trio.Nursery, headers: dict[str, str]
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda _: (403, headers)) == 403

    assert network.asked == []


def wants_more_than(scope: str, network: Network) -> Callable[[Mapping[str, str]], tuple[int, dict[str, str]]]:
    """Return a server that does not say which scopes it needs besides *scope*."""

    def judge(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        status, headers = network.judge(fields)
        token = fields.get("authorization", "").removeprefix("Bearer ")
        if status == 200 and network.granted[token] == scope:
            return 403, {"www-authenticate": 'Bearer error="insufficient_scope"'}
        return status, headers

    return judge


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_server_that_does_not_name_the_scopes_it_needs_means_those_of_its_metadata(
    network: Network, clock: Clock, nursery: trio.Nursery, is_stored: bool
) -> None:
    grant = MachineGrant(clock=clock, scopes=["read"])
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    if is_stored:
        source = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    network.scopes_supported = ["read", "write"]

    assert await request(source, wants_more_than("read", network)) == 200

    assert [form["scope"] for form in network.asked] == ["read", "read write"]


async def test_a_server_that_does_not_name_the_scopes_it_needs_is_asked_about_them_once(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.scopes_supported = ["read"]
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert [await request(source, wants_more_than("read", network)) for _ in range(3)] == [403] * 3

    assert [form["scope"] for form in network.asked] == ["read"]
    assert len([url for url in network.urls if "protected-resource" in url]) == 2


async def test_scopes_of_the_metadata_are_asked_for_where_the_token_that_lacked_them_was_deleted(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.scopes_supported = ["read", "write"]
    grant = MachineGrant(clock=clock, scopes=["read"])
    source = connect(grant, network, nursery)
    await request(source, network.judge)
    assert await grant.storage.swap(source.cache.key, await grant.storage.load(source.cache.key), None)

    assert await request(source, wants_more_than("read", network)) == 200

    assert [form["scope"] for form in network.asked] == ["read", "read write"]


async def test_scopes_may_be_wanted_before_anything_was_shown(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda fields: (200, {}) if fields else (403, wants("a"))) == 200

    assert network.asked == [{"grant_type": "client_credentials", "scope": "a"}]


# Proofs of possession.


async def test_a_bound_token_is_shown_with_a_new_proof_for_each_request(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.judge)

    first, second = [await source.attempt("POST", URL).fields() for _ in range(2)]

    assert first["authorization"] == second["authorization"] == "DPoP access-1"
    assert first["dpop"] != second["dpop"]


async def test_the_nonce_that_a_server_wants_is_in_the_next_proofs(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    network.nonce = "n-1"

    assert await request(source, network.judge) == 200
    fields = await source.attempt("POST", URL).fields()

    assert nonce_in(fields["dpop"]) == "n-1"
    assert network.grants == ["client_credentials"]


async def test_many_requests_that_meet_a_new_nonce_are_each_repeated(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.judge)
    network.nonce = "n-1"
    attempts = [source.attempt("POST", URL) for _ in range(5)]
    refusals = [network.judge(await attempt.fields()) for attempt in attempts]

    assert [attempt.on_response(*refusal) for attempt, refusal in zip(attempts, refusals, strict=True)] == [True] * 5
    for attempt in attempts:
        await attempt.resolve()

    assert [network.judge(await attempt.fields())[0] for attempt in attempts] == [200] * 5


async def test_a_server_whose_nonce_is_never_right_is_given_up(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.judge)
    serial, sent = iter(range(100)), list[str | None]()

    def judge(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        sent.append(nonce_in(fields["dpop"]))
        return 401, {"www-authenticate": 'DPoP error="use_dpop_nonce"', NONCE_FIELD: f"n-{next(serial)}"}

    assert await request(source, judge) == 401

    assert sent == [None, "n-0", "n-1", "n-2"]  # as it was, with a nonce, with another token, and that with a nonce


async def test_a_key_outlives_the_process_with_the_tokens_that_are_bound_to_it(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    grant = MachineGrant(clock=clock, dpop=True)
    await request(connect(grant, network, nursery), network.judge)
    later = connect(MachineGrant(clock=clock, dpop=True, storage=grant.storage), network, nursery)

    fields = await later.attempt("POST", URL).fields()

    assert fields["authorization"] == "DPoP access-1"
    assert thumbprint(later) == thumbprint(connect(grant, network, nursery))


def thumbprint(source: GrantSource) -> str:
    assert source.cache.active is not None
    assert source.cache.active.proofs is not None
    return source.cache.active.proofs.key.thumbprint


async def test_a_server_that_takes_bound_tokens_alone_is_not_asked_for_others(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.needs_dpop = True
    source = connect(MachineGrant(clock=clock), network, nursery)

    with pytest.raises(AuthorizationFailed, match="dpop=True"):
        await request(source, network.judge)

    assert network.asked == []
    assert network.urls[-1].startswith(ISSUER)
