from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import trio
from attrs import evolve, frozen

from tests.auth.server.guard_client import access_of, challenges_of, guard_client, refusal_of
from tests.auth.signed_tokens import ISSUER, NOW, RESOURCE, Issuer
from tests.interaction.not_exceptions import KINDS, NOT_EXCEPTIONS, cancelled_of_another_task
from trio_mcp.abc import Fetch
from trio_mcp.auth import InvalidToken, VerifiedToken, VerifierUnavailable
from trio_mcp.peer import Access

METADATA = "https://api.example/.well-known/oauth-protected-resource/mcp"
OTHER = "https://other.example"


async def test_a_request_with_a_valid_token_is_admitted() -> None:
    client = guard_client()

    access = access_of(await client(client.issuer.token()))

    assert access == Access(
        "ann",
        scopes=frozenset({"read", "write"}),
        client_id="desk",
        expires_at=NOW + 300,
        claims=client.issuer.claims(),
    )


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_case_insensitive(scheme: str) -> None:
    client = guard_client()

    assert access_of(await client(client.issuer.token(), scheme=scheme)).principal == "ann"


async def test_the_claims_of_an_access_object_are_read_only() -> None:
    client = guard_client()
    access = access_of(await client(client.issuer.token()))

    with pytest.raises(TypeError):
        access.claims["sub"] = "bob"  # type: ignore[index]


async def test_each_admission_is_a_checkpoint() -> None:
    client = guard_client()

    with trio.CancelScope() as scope:
        scope.cancel()
        await client()

    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": ""}, {"authorization": "Basic YTpi"}, {"authorization": "Digest a=1, b=2"}]
)
@pytest.mark.requirement("C.3-1", "C.3-3")
async def test_the_refusal_of_a_request_without_a_token_contains_the_metadata_url(headers: dict[str, str]) -> None:
    client = guard_client(scopes=["read", "write"])

    refusal = refusal_of(await client(headers=headers), 401)

    bearer, dpop = challenges_of(refusal)
    assert (bearer.scheme, bearer.parameters) == (
        "Bearer",
        {"scope": "read write", "resource_metadata": METADATA},
    )
    assert dpop.scheme == "DPoP"
    assert dpop.parameters["algs"].startswith("ES256 ")
    assert json.loads(refusal.body())["error"]["message"] == f"a token is required; see {METADATA}"


async def test_a_challenge_names_no_scope_if_none_is_required() -> None:
    assert all(
        "scope" not in challenge.parameters for challenge in challenges_of(refusal_of(await guard_client()(), 401))
    )


@pytest.mark.parametrize(
    ("dpop", "schemes"), [("off", ["Bearer"]), ("allowed", ["Bearer", "DPoP"]), ("required", ["DPoP"])]
)
async def test_every_accepted_scheme_is_offered(dpop: str, schemes: list[str]) -> None:
    refusal = refusal_of(await guard_client(dpop=dpop)(), 401)

    assert [challenge.scheme for challenge in challenges_of(refusal)] == schemes


async def test_the_dpop_scheme_is_refused_if_bound_tokens_are_off() -> None:
    client = guard_client(dpop="off")

    refusal_of(await client(client.issuer.token(), scheme="DPoP"), 401)


@pytest.mark.parametrize(
    "query",
    ["access_token=x", "a=b&access_token=x", "access_token=", "access%5Ftoken=x", "&".join(["a=b"] * 101)],
)
async def test_a_token_in_the_url_is_refused_even_beside_a_valid_token_in_the_header(query: str) -> None:
    client = guard_client()

    refusal = refusal_of(await client(client.issuer.token(), query=query), 400, "invalid_request")

    assert b"=x" not in refusal.body()


async def test_other_query_parameters_are_ignored() -> None:
    client = guard_client()

    assert access_of(await client(client.issuer.token(), query="a=access_token&b")).principal == "ann"


@pytest.mark.requirement("C.3-1")
async def test_two_tokens_in_one_request_are_refused() -> None:
    client = guard_client()
    token = client.issuer.token()

    refusal_of(await client(f"{token}, Bearer {token}"), 400, "invalid_request")


@pytest.mark.parametrize("token", ["", "  ", "a b", "a\u00e9", 'a"b', "a=b", "x" * 16_385, "\u0661"])
async def test_a_malformed_token_is_refused_without_a_fetch(token: str) -> None:
    client = guard_client()

    refusal_of(await client(token), 401, "invalid_token")

    assert client.issuer.calls == []


@pytest.mark.parametrize(
    ("claims", "cause"),
    [
        ({"aud": "https://api.example/other"}, "not for this server"),
        ({"aud": "https://api.example"}, "not for this server"),
        ({"aud": f"{RESOURCE}/"}, "not for this server"),
        ({"aud": RESOURCE.upper()}, "not for this server"),
        ({"aud": []}, "not for this server"),
        ({"aud": None}, "not for this server"),
        ({"iss": OTHER}, "is not trusted"),
        ({"exp": int(NOW) - 60}, "it expired 60 s ago"),
        ({"nbf": int(NOW) + 61}, "is not valid yet"),
        ({"sub": None, "client_id": None}, "names neither a subject nor a client"),
        ({"cnf": {"jkt": "thumb"}}, "is bound to a key, but was sent as a bearer token"),
        ({"cnf": {"x5t#S256": "certificate"}}, "bound to something that cannot be checked here"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.requirement("C.3-4")
async def test_a_token_with_unsuitable_claims_is_refused_and_only_the_log_contains_the_reason(
    claims: dict[str, Any], cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.auth")
    client = guard_client()
    token = client.issuer.token(**claims)

    refusal = refusal_of(await client(token), 401, "invalid_token")

    assert json.loads(refusal.body())["error"]["message"] == "the token is not accepted"
    assert cause in caplog.text
    assert token not in caplog.text


@pytest.mark.parametrize("claims", [{"exp": int(NOW) - 59}, {"nbf": int(NOW) + 60}, {"aud": ["x", RESOURCE]}])
async def test_clocks_may_differ_by_a_minute_and_a_token_may_have_several_audiences(claims: dict[str, Any]) -> None:
    client = guard_client()

    assert access_of(await client(client.issuer.token(**claims))).principal == "ann"


async def test_a_server_may_have_custom_audiences() -> None:
    client = guard_client(audiences=["api://files", "urn:files"])

    assert access_of(await client(client.issuer.token(aud="urn:files"))).principal == "ann"
    refusal_of(await client(client.issuer.token()), 401, "invalid_token")


@pytest.mark.parametrize("audience", ["https://api.example", "https://api.example/"])
async def test_an_empty_path_and_a_slash_are_the_same_audience(audience: str) -> None:
    client = guard_client(resource="https://api.example")

    assert access_of(await client(client.issuer.token(aud=audience))).principal == "ann"
    refusal_of(await client(client.issuer.token(aud=f"{audience}/mcp")), 401, "invalid_token")


async def test_an_expired_token_is_refused_even_if_it_was_accepted_before() -> None:
    client = guard_client()
    token = client.issuer.token()
    access_of(await client(token))

    client.issuer.clock.now += 360

    refusal_of(await client(token), 401, "invalid_token")


@pytest.mark.parametrize(
    ("claims", "principal"),
    [
        ({}, "ann"),
        ({"client_id": None}, "ann"),
        ({"sub": None}, "client desk"),
        ({"sub": "desk"}, "client desk"),
        ({"sub": "desk", "client_id": "laptop"}, "desk"),
        ({"sub": "client desk"}, "subject client desk"),
        ({"sub": "subject client desk"}, "subject subject client desk"),
        ({"sub": "clientele"}, "clientele"),
    ],
)
async def test_principals_are_unique(claims: dict[str, Any], principal: str) -> None:
    client = guard_client()

    assert access_of(await client(client.issuer.token(**claims))).principal == principal


async def test_the_same_subject_of_two_issuers_is_two_principals() -> None:
    client = guard_client(issuers=[OTHER, ISSUER])

    assert access_of(await client(client.issuer.token())).principal == f"{ISSUER} ann"
    assert access_of(await client(client.issuer.token(sub=None))).principal == f"{ISSUER} client desk"


@pytest.mark.requirement("C.3-1", "C.3-3")
async def test_a_token_without_the_scopes_of_every_request_is_refused() -> None:
    client = guard_client(scopes=["read", "admin"])

    refusal = refusal_of(await client(client.issuer.token(scope="read")), 403, "insufficient_scope")

    for challenge in challenges_of(refusal):
        assert challenge.parameters["scope"] == "read admin"
        assert challenge.parameters["resource_metadata"] == METADATA
    assert json.loads(refusal.body())["error"]["message"] == "this requires a token with the scope 'read admin'"


async def test_an_operation_may_require_more_scopes_and_the_challenge_names_all_of_them() -> None:
    client = guard_client(scopes=["read"])
    access = access_of(await client(client.issuer.token(scope="read")))

    assert client.guard.permit(access, {"read"}) is None
    refusal = refusal_of(client.guard.permit(access, {"write", "read", "delete"}), 403, "insufficient_scope")

    assert {challenge.parameters["scope"] for challenge in challenges_of(refusal)} == {"read delete write"}


async def test_a_scope_grants_the_scopes_that_it_implies() -> None:
    client = guard_client(scopes=["read"], implied_scopes={"admin": ["read", "write"]})

    access = access_of(await client(client.issuer.token(scope="admin")))

    assert access.scopes == {"admin"}
    assert client.guard.permit(access, ["write"]) is None
    assert client.guard.permit(access, ["delete"]) is not None


async def test_an_unreachable_authorization_server_does_not_make_tokens_invalid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = guard_client()
    client.issuer.become_unreachable()

    refusal = refusal_of(await client(client.issuer.token()), 503)

    assert refusal.headers == {"retry-after": "10"}
    assert "tokens cannot be checked" in caplog.text


GOOD = VerifiedToken(
    issuer=ISSUER,
    subject="ann",
    client_id=None,
    audiences=(RESOURCE,),
    scopes=frozenset(),
    expires_at=None,
)


@frozen
class CustomVerifier:
    """A verifier of an application."""

    outcome: VerifiedToken | BaseException

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        await trio.lowlevel.checkpoint()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def changed(**members: Any) -> VerifiedToken:
    return evolve(GOOD, **members)


async def test_a_token_that_is_too_long_does_not_reach_the_verifier() -> None:
    client = guard_client(verifier=CustomVerifier(GOOD))

    access_of(await client("x" * 16_384))
    refusal_of(await client("x" * 16_385), 401, "invalid_token")


async def test_a_custom_verifier_may_accept_tokens_without_expiry() -> None:
    access = access_of(await guard_client(verifier=CustomVerifier(GOOD))("opaque"))

    assert (access.principal, access.expires_at) == ("ann", None)


@pytest.mark.parametrize(
    "token",
    [
        changed(issuer=OTHER),
        changed(audiences=("other",)),
        changed(audiences=()),
        changed(expires_at=NOW - 61),
        changed(expires_at=float("nan")),
        changed(not_before=NOW + 61),
        changed(not_before=float("nan")),
        changed(subject=""),
        changed(key_thumbprint="thumb"),
    ],
)
async def test_the_result_of_a_custom_verifier_is_checked_as_well(token: VerifiedToken) -> None:
    refusal_of(await guard_client(verifier=CustomVerifier(token))("opaque"), 401, "invalid_token")


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (InvalidToken("unknown"), 401),
        (VerifierUnavailable("away"), 503),
        (KeyError("a bug"), 503),
        (ExceptionGroup("bugs", [ValueError("a bug")]), 503),
    ],
)
async def test_a_failing_verifier_denies_access(
    failure: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = await guard_client(verifier=CustomVerifier(failure))("opaque")

    refusal = refusal_of(outcome, status, "invalid_token" if status == 401 else None)
    assert b"bug" not in refusal.body()
    assert ("the token verifier failed" in caplog.text) is ("bug" in str(failure))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_verifier_that_raises_what_is_no_exception_denies_access(kind: str) -> None:
    failure = await cancelled_of_another_task() if kind == "cancelled" else NOT_EXCEPTIONS[kind]()

    refusal_of(await guard_client(verifier=CustomVerifier(failure))("opaque"), 503)


async def test_no_claim_of_a_token_gets_into_a_challenge() -> None:
    issuer = Issuer()
    client = guard_client(issuer, scopes=["admin"])

    refusal = refusal_of(
        await client(issuer.token(scope='a", error="x', sub='ann", evil="')), 403, "insufficient_scope"
    )

    assert "evil" not in refusal.headers["www-authenticate"]
    assert "\\" not in refusal.headers["www-authenticate"]
