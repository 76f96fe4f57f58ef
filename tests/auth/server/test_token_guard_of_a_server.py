"""A token guard with a real authorization server over real sockets."""

from __future__ import annotations

import time

import pytest
import trio

from tests.auth.server.guard_client import GuardClient, access_of, refusal_of
from tests.auth.signed_tokens import Clock
from trio_mcp.auth import IntrospectionVerifier, Registration, ResourceServer
from trio_mcp.auth._dpop import DpopKey
from trio_mcp.testing import KnownClient, open_authorization_server
from trio_mcp.transports import open_fetch

RESOURCE = "http://localhost:8000/mcp"


async def test_tokens_are_checked_with_the_published_keys_until_they_change() -> None:
    clock = Clock(time.time())
    with trio.fail_after(60):
        async with open_authorization_server(fetch=None) as auth, open_fetch() as fetch:
            client = GuardClient(
                ResourceServer(RESOURCE, issuers=[auth.issuer], scopes=["read"], clock=clock).guard(fetch)
            )
            token = auth.issue_token(subject="ann", scopes=["read"], resource=RESOURCE)
            elsewhere = auth.issue_token(subject="ann", scopes=["read"], resource="http://localhost:8000/other")

            assert access_of(await client(token)).principal == "ann"
            refusal_of(await client(elsewhere), 401, "invalid_token")
            assert len(auth.asked("jwks")) == 1

            auth.rotate_key(keep=False)
            newer = auth.issue_token(subject="bob", scopes=["read"], resource=RESOURCE)
            refusal_of(await client(newer), 401, "invalid_token")  # the keys are not fetched again so soon
            assert access_of(await client(token)).principal == "ann"

            clock.now += 10
            assert access_of(await client(newer)).principal == "bob"
            refusal_of(await client(token), 401, "invalid_token")
            assert len(auth.asked("jwks")) == 2


async def test_bound_tokens_are_checked_with_the_proofs_of_the_client() -> None:
    key = DpopKey.generate()
    with trio.fail_after(60):
        async with open_authorization_server(fetch=None) as auth, open_fetch() as fetch:
            server = ResourceServer(RESOURCE, issuers=[auth.issuer], dpop="required")
            client = GuardClient(server.guard(fetch))
            token = auth.issue_token(subject="ann", resource=RESOURCE, claims={"cnf": {"jkt": key.thumbprint}})
            proof = key.proof("POST", RESOURCE, now=server.clock(), token=token)

            assert access_of(await client(token, scheme="DPoP", proof=proof)).principal == "ann"
            refusal_of(await client(token, scheme="DPoP", proof=proof), 401, "invalid_dpop_proof")


async def test_a_revoked_token_is_refused_if_the_guard_uses_introspection() -> None:
    registration = Registration("api", secret="s3cret")
    with trio.fail_after(60):
        async with (
            open_authorization_server(fetch=None, clients=[KnownClient("api", secret="s3cret")]) as auth,
            open_fetch() as fetch,
        ):
            verifier = IntrospectionVerifier(client=registration, cache_seconds=0)
            client = GuardClient(ResourceServer(RESOURCE, issuers=[auth.issuer], verifier=verifier).guard(fetch))
            token = auth.issue_token(subject="ann", resource=RESOURCE)
            assert access_of(await client(token)).principal == "ann"

            auth.revoke_all()

            refusal_of(await client(token), 401, "invalid_token")
            refusal_of(await client("made-up"), 401, "invalid_token")


async def test_an_unreachable_authorization_server_makes_the_guard_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with trio.fail_after(60):
        async with open_authorization_server(fetch=None) as auth:
            token = auth.issue_token(subject="ann", resource=RESOURCE)
        async with open_fetch() as fetch:
            client = GuardClient(ResourceServer(RESOURCE, issuers=[auth.issuer]).guard(fetch))

            refusal_of(await client(token), 503)

    assert "tokens cannot be checked" in caplog.text
