"""Tokens that are bound to a key, and attacks by clients without the key."""

from __future__ import annotations

from typing import Any

import pytest

from tests.auth.server.guard_client import GuardClient, access_of, challenges_of, guard_client, refusal_of
from tests.auth.signed_tokens import NOW, RESOURCE
from trio_mcp.auth._dpop import DpopKey, SeenProofs

KEY, FOREIGN = DpopKey.generate(), DpopKey.generate()


def bound(client: GuardClient, key: DpopKey = KEY, **claims: Any) -> str:
    return client.issuer.token(cnf={"jkt": key.thumbprint}, **claims)


def proof(token: str | None, *, key: DpopKey = KEY, method: str = "POST", url: str = RESOURCE, now: float = NOW) -> str:
    return key.proof(method, url, now=now, token=token)


@pytest.mark.parametrize("dpop", ["allowed", "required"])
async def test_the_holder_of_the_key_is_admitted_with_a_new_proof_for_each_request(dpop: str) -> None:
    client = guard_client(dpop=dpop)
    token = bound(client)

    for _ in range(3):
        assert access_of(await client(token, scheme="dpop", proof=proof(token))).principal == "ann"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_requests_with_every_method_can_have_proofs(method: str) -> None:
    client = guard_client()
    token = bound(client)

    access_of(await client(token, scheme="DPoP", proof=proof(token, method=method), method=method))


async def test_the_guard_compares_a_proof_with_the_url_that_the_client_uses() -> None:
    client = guard_client(resource="https://api.example/files/mcp")
    token = bound(client, aud="https://api.example/files/mcp")

    for url, path in [
        ("https://api.example/files/mcp", "/files/mcp"),
        ("https://api.example/files/mcp", "/mcp"),  # a proxy may have removed the prefix
        ("https://api.example/files/other%20one", "/files/other one"),
    ]:
        access_of(await client(token, scheme="DPoP", proof=proof(token, url=url), path=path))


async def test_a_repeated_proof_is_refused() -> None:
    client = guard_client()
    token = bound(client)
    once = proof(token)
    access_of(await client(token, scheme="DPoP", proof=once))

    refusal = refusal_of(await client(token, scheme="DPoP", proof=once), 401, "invalid_dpop_proof")

    assert [challenge.scheme for challenge in challenges_of(refusal)] == ["DPoP"]


async def test_a_proof_for_another_request_is_refused() -> None:
    client = guard_client()
    token = bound(client)

    for wrong in (
        proof(token, method="GET"),
        proof(token, url="https://api.example/other"),
        proof(token, url="https://evil.example/mcp"),
        proof(token, now=NOW - 301),
        proof(token, now=NOW + 301),
        proof("another token"),
        proof(None),
        proof(token, key=FOREIGN),
        f"{proof(token)}, {proof(token)}",
        token,
        "",
        "nonsense",
    ):
        refusal_of(await client(token, scheme="DPoP", proof=wrong), 401, "invalid_dpop_proof")
    refusal_of(await client(token, scheme="DPoP"), 401, "invalid_dpop_proof")


async def test_a_stolen_bound_token_is_refused_without_a_proof_of_its_key() -> None:
    client = guard_client()
    token = bound(client)

    refusal_of(await client(token), 401, "invalid_token")
    refusal_of(await client(token, proof=proof(token)), 401, "invalid_token")
    refusal_of(await client(token, scheme="DPoP", proof=proof(token, key=FOREIGN)), 401, "invalid_dpop_proof")


async def test_a_bearer_token_is_refused_with_a_proof() -> None:
    client = guard_client()
    token = client.issuer.token()

    refusal_of(await client(token, scheme="DPoP", proof=proof(token)), 401, "invalid_token")


async def test_bearer_tokens_are_refused_if_bound_tokens_are_required() -> None:
    client = guard_client(dpop="required")

    refusal = refusal_of(await client(client.issuer.token()), 401, "invalid_token")

    assert [challenge.scheme for challenge in challenges_of(refusal)] == ["DPoP"]


async def test_bound_tokens_are_refused_as_bearer_tokens_if_bound_tokens_are_off() -> None:
    client = guard_client(dpop="off")
    token = bound(client)

    refusal_of(await client(token), 401, "invalid_token")
    refusal_of(await client(token, scheme="DPoP", proof=proof(token)), 401)


async def test_proofs_of_invalid_tokens_are_not_remembered() -> None:
    client = guard_client()
    client.guard._replays = SeenProofs(max_kept=1)
    bad = bound(client, aud="https://other.example")
    for _ in range(3):
        refusal_of(await client(bad, scheme="DPoP", proof=proof(bad)), 401, "invalid_token")

    token = bound(client)
    access_of(await client(token, scheme="DPoP", proof=proof(token)))


async def test_bound_tokens_are_refused_while_the_memory_of_proofs_is_full() -> None:
    client = guard_client()
    client.guard._replays = SeenProofs(max_kept=1)
    token = bound(client)
    access_of(await client(token, scheme="DPoP", proof=proof(token)))

    refusal_of(await client(token, scheme="DPoP", proof=proof(token)), 503)
    assert access_of(await client(client.issuer.token())).principal == "ann"

    client.issuer.clock.now += 301
    token = bound(client)
    access_of(await client(token, scheme="DPoP", proof=proof(token, now=NOW + 301)))
