"""The token source of one connection: the credentials of its requests, and its reactions to refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import trio

from tests.auth.client.scripted_network import (
    ISSUER,
    URL,
    MachineGrant,
    Network,
    Person,
    PersonGrant,
    connect,
    nonce_in,
    request,
)
from tests.auth.signed_tokens import Clock
from trio_mcp import AuthorizationFailed
from trio_mcp.auth._dpop import NONCE_FIELD
from trio_mcp.auth.client._source import GrantSource
from trio_mcp.auth.client._token_endpoint import Tokens
from trio_mcp.auth.client._token_records import TokenRecord, write_record


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def network(clock: Clock) -> Network:
    return Network(clock)


async def test_the_first_request_carries_no_token_and_its_refusal_leads_to_one(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    attempt = source.attempt("POST", URL)
    assert await attempt.fields() == {}
    assert attempt.on_response(*network.respond({}))
    await attempt.resolve()
    fields = await attempt.fields()

    assert fields == {"authorization": "Bearer access-1"}
    assert not attempt.on_response(*network.respond(fields))


async def test_a_token_is_reused_without_another_token_request(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert [await request(source, network.respond) for _ in range(3)] == [200, 200, 200]

    assert network.grants == ["client_credentials"]


async def test_connections_of_the_same_grant_share_a_token_for_all_spellings_of_the_url(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    grant = MachineGrant(clock=clock)
    await request(connect(grant, network, nursery), network.respond)

    other = connect(grant, network, nursery, url="HTTPS://MCP.example.com:443/mcp")

    assert await other.attempt("POST", URL).fields() == {"authorization": "Bearer access-1"}


async def test_no_token_is_obtained_for_a_server_that_does_not_require_one(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda _: (200, {})) == 200

    assert network.urls == []


async def test_a_refused_token_is_replaced_once_and_a_second_refusal_is_final(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda _: (401, {})) == 401
    assert await request(source, lambda _: (401, {})) == 401

    assert network.grants == ["client_credentials"]


async def test_after_a_minute_a_refused_new_token_may_be_replaced(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, lambda _: (401, {}))

    clock.now += 61
    network.revoke()

    assert await request(source, network.respond) == 200
    assert network.grants == ["client_credentials", "client_credentials"]


async def test_a_refused_refreshed_token_that_was_never_accepted_is_replaced_without_a_refresh(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.respond)

    assert await request(source, lambda _: (401, {})) == 401
    network.revoke()
    assert await request(source, network.respond) == 200

    assert network.grants == ["client_credentials", "refresh_token", "client_credentials"]


async def test_a_server_error_does_not_count_as_acceptance_of_the_token(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.refreshable = False
    source = connect(MachineGrant(clock=clock), network, nursery)
    replies = iter([401, 503, 401])

    statuses = [await request(source, lambda _: (next(replies), {})) for _ in range(2)]

    assert statuses == [503, 401]
    assert network.grants == ["client_credentials"]


async def test_after_a_refusal_the_issuer_is_looked_up_again_and_gets_no_tokens_of_other_issuers(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.respond)

    network.issuer = "https://other.example.com"
    network.revoke()
    assert await request(source, network.respond) == 200

    assert network.grants == ["client_credentials", "client_credentials"]  # the refresh token belongs to another issuer
    assert network.urls[-1] == "https://other.example.com/token"


@pytest.mark.requirement("C.2-9")
async def test_credentials_of_one_authorization_server_are_not_sent_to_another(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    class BoundToIssuer(MachineGrant):
        @property
        def stays_with_issuer(self) -> bool:
            return True

    source = connect(BoundToIssuer(clock=clock), network, nursery)
    await request(source, network.respond)

    network.issuer = "https://other.example.com"
    network.revoke()
    with pytest.raises(AuthorizationFailed, match=r"the tokens so far came from https://auth\.example\.com, "):
        await request(source, network.respond)

    assert network.grants == ["client_credentials"]
    assert "https://other.example.com/token" not in network.urls


async def test_the_most_specific_challenge_is_used(network: Network, clock: Clock, nursery: trio.Nursery) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    metadata_url = "https://mcp.example.com/elsewhere/oauth-protected-resource"
    challenges = f'Basic realm="x", DPoP algs="ES256", Bearer scope="a b", resource_metadata="{metadata_url}"'

    attempt = source.attempt("POST", URL)
    await attempt.fields()
    assert attempt.on_response(401, {"www-authenticate": challenges})
    await attempt.resolve()

    assert network.urls[0] == metadata_url
    assert network.token_requests == [{"grant_type": "client_credentials", "scope": "a b"}]


# More scopes.


def challenge_for(*scopes: str) -> dict[str, str]:
    return {"www-authenticate": f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'}


async def test_more_scopes_are_requested_together_with_the_present_ones(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, scopes=["read"]), network, nursery)
    await request(source, network.respond)

    network.scopes_needed = {"write"}

    assert await request(source, network.respond) == 200
    assert [form["scope"] for form in network.token_requests] == ["read", "read write"]


async def test_the_granted_scopes_are_requested_again_if_none_were_requested_before(
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

    assert await request(source, network.respond) == 200

    assert [form["scope"] for form in network.token_requests] == ["basic profile write"]


async def test_the_user_is_asked_for_more_scopes(network: Network, clock: Clock, nursery: trio.Nursery) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.respond)
    network.scopes_needed = {"write"}

    assert await request(source, network.respond) == 200

    assert len(person.sign_ins) == 2
    assert person.sign_ins[1].endswith("scope=write")


async def test_a_server_that_keeps_requiring_the_same_scopes_causes_one_request_for_them(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)

    def respond(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        return (403, challenge_for("more")) if fields else (401, {})

    assert [await request(source, respond) for _ in range(5)] == [403] * 5

    assert len(person.sign_ins) == 2


async def test_a_server_that_requires_new_scopes_each_time_causes_two_requests_for_them(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    serial = iter(range(100))

    def respond(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        return (403, challenge_for(f"scope-{next(serial)}")) if fields else (401, {})

    assert [await request(source, respond) for _ in range(5)] == [403] * 5

    assert len(person.sign_ins) == 3


async def test_scopes_that_were_useful_do_not_limit_requests_for_further_scopes(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.respond)

    for scope in ("a", "b", "c", "d"):
        network.scopes_needed = {scope}
        assert await request(source, network.respond) == 200

    assert [form.get("scope") for form in network.token_requests] == [None, "a", "a b", "a b c", "a b c d"]


async def test_a_refused_request_uses_a_token_that_has_the_scopes_by_now(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.respond)
    network.scopes_needed = {"write"}
    late = source.attempt("POST", URL)
    refused = network.respond(await late.fields())

    assert await request(source, network.respond) == 200
    assert late.on_response(*refused)
    await late.resolve()

    assert network.respond(await late.fields())[0] == 200
    assert len(network.token_requests) == 2


async def test_after_a_denial_the_same_scopes_are_not_requested_again(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    person = Person()
    source = connect(PersonGrant(clock=clock, person=person), network, nursery)
    await request(source, network.respond)
    network.scopes_needed, person.refusal = {"write"}, "access_denied"

    with pytest.raises(AuthorizationFailed, match="denied access") as caught:
        await request(source, network.respond)
    assert await request(source, network.respond) == 403

    assert caught.value.error == "access_denied"
    assert len(person.sign_ins) == 2


async def test_scopes_are_requested_by_the_next_request_if_the_authorization_server_was_unreachable(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)
    await request(source, network.respond)
    network.scopes_needed, network.is_down = {"write"}, True

    with pytest.raises(AuthorizationFailed, match="unreachable"):
        await request(source, network.respond)
    network.is_down = False

    assert await request(source, network.respond) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"www-authenticate": 'Bearer error="insufficient_scope"'},
        {"www-authenticate": 'Bearer error="invalid_token", scope="a"'},
        {"www-authenticate": 'Basic error="insufficient_scope", scope="a"'},
    ],
)
async def test_a_refusal_that_names_no_required_scopes_is_final(
    network: Network, clock: Clock, nursery: trio.Nursery, headers: dict[str, str]
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda _: (403, headers)) == 403

    assert network.token_requests == []


def requiring_more_than(scope: str, network: Network) -> Callable[[Mapping[str, str]], tuple[int, dict[str, str]]]:
    """Return a server that requires more scopes than *scope* without naming them."""

    def respond(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        status, headers = network.respond(fields)
        token = fields.get("authorization", "").removeprefix("Bearer ")
        if status == 200 and network.granted[token] == scope:
            return 403, {"www-authenticate": 'Bearer error="insufficient_scope"'}
        return status, headers

    return respond


@pytest.mark.parametrize("is_stored", [False, True])
async def test_if_a_refusal_names_no_scopes_the_scopes_of_the_metadata_are_requested(
    network: Network, clock: Clock, nursery: trio.Nursery, is_stored: bool
) -> None:
    grant = MachineGrant(clock=clock, scopes=["read"])
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    if is_stored:
        source = connect(MachineGrant(clock=clock, storage=grant.storage), network, nursery)
    network.scopes_supported = ["read", "write"]

    assert await request(source, requiring_more_than("read", network)) == 200

    assert [form["scope"] for form in network.token_requests] == ["read", "read write"]


async def test_if_a_refusal_names_no_scopes_the_metadata_are_read_once(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.scopes_supported = ["read"]
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert [await request(source, requiring_more_than("read", network)) for _ in range(3)] == [403] * 3

    assert [form["scope"] for form in network.token_requests] == ["read"]
    assert len([url for url in network.urls if "protected-resource" in url]) == 2


async def test_scopes_of_the_metadata_are_requested_even_if_the_insufficient_token_was_deleted(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.scopes_supported = ["read", "write"]
    grant = MachineGrant(clock=clock, scopes=["read"])
    source = connect(grant, network, nursery)
    await request(source, network.respond)
    assert await grant.storage.swap(source.cache.key, await grant.storage.load(source.cache.key), None)

    assert await request(source, requiring_more_than("read", network)) == 200

    assert [form["scope"] for form in network.token_requests] == ["read", "read write"]


async def test_scopes_may_be_required_before_any_token_was_sent(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock), network, nursery)

    assert await request(source, lambda fields: (200, {}) if fields else (403, challenge_for("a"))) == 200

    assert network.token_requests == [{"grant_type": "client_credentials", "scope": "a"}]


# Proofs of possession.


async def test_a_bound_token_is_sent_with_a_new_proof_for_each_request(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.respond)

    first, second = [await source.attempt("POST", URL).fields() for _ in range(2)]

    assert first["authorization"] == second["authorization"] == "DPoP access-1"
    assert first["dpop"] != second["dpop"]


async def test_the_nonce_that_a_server_requires_is_in_the_next_proofs(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    network.nonce = "n-1"

    assert await request(source, network.respond) == 200
    fields = await source.attempt("POST", URL).fields()

    assert nonce_in(fields["dpop"]) == "n-1"
    assert network.grants == ["client_credentials"]


async def test_many_requests_that_are_refused_for_a_new_nonce_are_each_repeated(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.respond)
    network.nonce = "n-1"
    attempts = [source.attempt("POST", URL) for _ in range(5)]
    refusals = [network.respond(await attempt.fields()) for attempt in attempts]

    assert [attempt.on_response(*refusal) for attempt, refusal in zip(attempts, refusals, strict=True)] == [True] * 5
    for attempt in attempts:
        await attempt.resolve()

    assert [network.respond(await attempt.fields())[0] for attempt in attempts] == [200] * 5


async def test_a_server_that_refuses_every_nonce_gets_a_bounded_number_of_requests(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    source = connect(MachineGrant(clock=clock, dpop=True), network, nursery)
    await request(source, network.respond)
    serial, sent = iter(range(100)), list[str | None]()

    def respond(fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        sent.append(nonce_in(fields["dpop"]))
        return 401, {"www-authenticate": 'DPoP error="use_dpop_nonce"', NONCE_FIELD: f"n-{next(serial)}"}

    assert await request(source, respond) == 401

    assert sent == [None, "n-0", "n-1", "n-2"]  # two requests with each of two tokens


async def test_the_key_of_bound_tokens_is_stored_with_them(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    grant = MachineGrant(clock=clock, dpop=True)
    await request(connect(grant, network, nursery), network.respond)
    later = connect(MachineGrant(clock=clock, dpop=True, storage=grant.storage), network, nursery)

    fields = await later.attempt("POST", URL).fields()

    assert fields["authorization"] == "DPoP access-1"
    assert thumbprint(later) == thumbprint(connect(grant, network, nursery))


def thumbprint(source: GrantSource) -> str:
    assert source.cache.active is not None
    assert source.cache.active.proofs is not None
    return source.cache.active.proofs.key.thumbprint


async def test_a_server_that_requires_bound_tokens_gets_no_request_for_bearer_tokens(
    network: Network, clock: Clock, nursery: trio.Nursery
) -> None:
    network.needs_dpop = True
    source = connect(MachineGrant(clock=clock), network, nursery)

    with pytest.raises(AuthorizationFailed, match="dpop=True"):
        await request(source, network.respond)

    assert network.token_requests == []
    assert network.urls[-1].startswith(ISSUER)
