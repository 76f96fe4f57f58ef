"""Tokens that are bound to a key, and everything that somebody without the key may try."""

from __future__ import annotations

from typing import Any

import pytest

from tests.auth.server.guards import Post, access_of, challenges_of, posting, refusal_of
from tests.auth.signed_tokens import NOW, RESOURCE
from trio_mcp.auth._dpop import DpopKey, SeenProofs

KEY, FOREIGN = DpopKey.generate(), DpopKey.generate()


def bound(post: Post, key: DpopKey = KEY, **claims: Any) -> str:
    return post.issuer.token(cnf={"jkt": key.thumbprint}, **claims)


def proof(token: str | None, *, key: DpopKey = KEY, method: str = "POST", url: str = RESOURCE, now: float = NOW) -> str:
    return key.proof(method, url, now=now, token=token)


@pytest.mark.parametrize("dpop", ["allowed", "required"])
async def test_the_holder_of_the_key_is_admitted_each_time_with_a_new_proof(dpop: str) -> None:
    post = posting(dpop=dpop)
    token = bound(post)

    for _ in range(3):
        assert access_of(await post(token, scheme="dpop", proof=proof(token))).principal == "ann"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_every_kind_of_request_can_be_proved(method: str) -> None:
    post = posting()
    token = bound(post)

    access_of(await post(token, scheme="DPoP", proof=proof(token, method=method), method=method))


async def test_a_proof_is_for_the_url_that_the_client_knows() -> None:
    post = posting(resource="https://api.example/files/mcp")
    token = bound(post, aud="https://api.example/files/mcp")

    for url, path in [
        ("https://api.example/files/mcp", "/files/mcp"),
        ("https://api.example/files/mcp", "/mcp"),  # as a proxy may have cut it
        ("https://api.example/files/other%20one", "/files/other one"),
    ]:
        access_of(await post(token, scheme="DPoP", proof=proof(token, url=url), path=path))


async def test_a_proof_that_was_shown_before_is_refused() -> None:
    post = posting()
    token = bound(post)
    once = proof(token)
    access_of(await post(token, scheme="DPoP", proof=once))

    refusal = refusal_of(await post(token, scheme="DPoP", proof=once), 401, "invalid_dpop_proof")

    assert [challenge.scheme for challenge in challenges_of(refusal)] == ["DPoP"]


async def test_each_request_needs_a_proof_of_itself() -> None:
    post = posting()
    token = bound(post)

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
        refusal_of(await post(token, scheme="DPoP", proof=wrong), 401, "invalid_dpop_proof")
    refusal_of(await post(token, scheme="DPoP"), 401, "invalid_dpop_proof")


async def test_a_stolen_token_is_of_no_use_without_its_key() -> None:
    post = posting()
    token = bound(post)

    refusal_of(await post(token), 401, "invalid_token")
    refusal_of(await post(token, proof=proof(token)), 401, "invalid_token")
    refusal_of(await post(token, scheme="DPoP", proof=proof(token, key=FOREIGN)), 401, "invalid_dpop_proof")


async def test_a_token_of_its_bearer_cannot_be_shown_as_a_bound_one() -> None:
    post = posting()
    token = post.issuer.token()

    refusal_of(await post(token, scheme="DPoP", proof=proof(token)), 401, "invalid_token")


async def test_where_bound_tokens_are_required_others_are_refused() -> None:
    post = posting(dpop="required")

    refusal = refusal_of(await post(post.issuer.token()), 401, "invalid_token")

    assert [challenge.scheme for challenge in challenges_of(refusal)] == ["DPoP"]


async def test_where_bound_tokens_are_not_taken_they_are_no_bearer_tokens_either() -> None:
    post = posting(dpop="off")
    token = bound(post)

    refusal_of(await post(token), 401, "invalid_token")
    refusal_of(await post(token, scheme="DPoP", proof=proof(token)), 401)


async def test_proofs_of_bad_tokens_are_not_remembered() -> None:
    post = posting()
    post.guard._replays = SeenProofs(max_kept=1)
    bad = bound(post, aud="https://other.example")
    for _ in range(3):
        refusal_of(await post(bad, scheme="DPoP", proof=proof(bad)), 401, "invalid_token")

    token = bound(post)
    access_of(await post(token, scheme="DPoP", proof=proof(token)))


async def test_with_a_full_memory_of_proofs_bound_tokens_are_refused() -> None:
    post = posting()
    post.guard._replays = SeenProofs(max_kept=1)
    token = bound(post)
    access_of(await post(token, scheme="DPoP", proof=proof(token)))

    refusal_of(await post(token, scheme="DPoP", proof=proof(token)), 503)
    assert access_of(await post(post.issuer.token())).principal == "ann"

    post.issuer.clock.now += 301
    token = bound(post)
    access_of(await post(token, scheme="DPoP", proof=proof(token, now=NOW + 301)))
