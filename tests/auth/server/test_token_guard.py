from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import trio
from attrs import evolve, frozen

from tests.auth.server.guards import access_of, challenges_of, posting, refusal_of
from tests.auth.signed_tokens import ISSUER, NOW, RESOURCE, Issuer
from trio_mcp.abc import Fetch
from trio_mcp.auth import InvalidToken, VerifiedToken, VerifierUnavailable
from trio_mcp.peer import Access

METADATA = "https://api.example/.well-known/oauth-protected-resource/mcp"
OTHER = "https://other.example"


async def test_a_request_with_a_valid_token_is_admitted() -> None:
    post = posting()

    access = access_of(await post(post.issuer.token()))

    assert access == Access(
        "ann",
        scopes=frozenset({"read", "write"}),
        client_id="desk",
        expires_at=NOW + 300,
        claims=post.issuer.claims(),
    )


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_schemes_are_equal_whatever_their_case(scheme: str) -> None:
    post = posting()

    assert access_of(await post(post.issuer.token(), scheme=scheme)).principal == "ann"


async def test_the_claims_of_an_access_are_read_only() -> None:
    post = posting()
    access = access_of(await post(post.issuer.token()))

    with pytest.raises(TypeError):
        access.claims["sub"] = "bob"  # type: ignore[index]


async def test_each_admission_is_a_checkpoint() -> None:
    post = posting()

    with trio.CancelScope() as scope:
        scope.cancel()
        await post()

    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": ""}, {"authorization": "Basic YTpi"}, {"authorization": "Digest a=1, b=2"}]
)
@pytest.mark.requirement("C.3-1", "C.3-3")
async def test_a_request_without_a_token_is_told_the_metadata_url(headers: dict[str, str]) -> None:
    post = posting(scopes=["read", "write"])

    refusal = refusal_of(await post(headers=headers), 401)

    bearer, dpop = challenges_of(refusal)
    assert (bearer.scheme, bearer.parameters) == (
        "Bearer",
        {"scope": "read write", "resource_metadata": METADATA},
    )
    assert dpop.scheme == "DPoP"
    assert dpop.parameters["algs"].startswith("ES256 ")
    assert json.loads(refusal.body())["error"]["message"] == f"a token is required; see {METADATA}"


async def test_no_scope_is_asked_for_where_none_is_needed() -> None:
    assert all("scope" not in challenge.parameters for challenge in challenges_of(refusal_of(await posting()(), 401)))


@pytest.mark.parametrize(
    ("dpop", "schemes"), [("off", ["Bearer"]), ("allowed", ["Bearer", "DPoP"]), ("required", ["DPoP"])]
)
async def test_every_way_to_show_a_token_is_offered(dpop: str, schemes: list[str]) -> None:
    refusal = refusal_of(await posting(dpop=dpop)(), 401)

    assert [challenge.scheme for challenge in challenges_of(refusal)] == schemes


async def test_without_bound_tokens_their_scheme_is_no_way_to_show_one() -> None:
    post = posting(dpop="off")

    refusal_of(await post(post.issuer.token(), scheme="DPoP"), 401)


@pytest.mark.parametrize(
    "query",
    ["access_token=x", "a=b&access_token=x", "access_token=", "access%5Ftoken=x", "&".join(["a=b"] * 101)],
)
async def test_a_token_in_the_url_is_refused_even_beside_a_good_one(query: str) -> None:
    post = posting()

    refusal = refusal_of(await post(post.issuer.token(), query=query), 400, "invalid_request")

    assert b"=x" not in refusal.body()


async def test_other_parameters_of_the_url_do_not_matter() -> None:
    post = posting()

    assert access_of(await post(post.issuer.token(), query="a=access_token&b")).principal == "ann"


@pytest.mark.requirement("C.3-1")
async def test_two_tokens_are_refused() -> None:
    post = posting()
    token = post.issuer.token()

    refusal_of(await post(f"{token}, Bearer {token}"), 400, "invalid_request")


@pytest.mark.parametrize("token", ["", "  ", "a b", "a\u00e9", 'a"b', "a=b", "x" * 16_385, "\u0661"])
async def test_what_is_no_token_is_refused_unread(token: str) -> None:
    post = posting()

    refusal_of(await post(token), 401, "invalid_token")

    assert post.issuer.calls == []


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
        ({"exp": int(NOW) - 60}, "has expired"),
        ({"nbf": int(NOW) + 61}, "is not valid yet"),
        ({"sub": None, "client_id": None}, "names neither a subject nor a client"),
        ({"cnf": {"jkt": "thumb"}}, "is bound to a key, but was sent as a bearer token"),
        ({"cnf": {"x5t#S256": "certificate"}}, "bound to something that cannot be checked here"),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.requirement("C.3-4")
async def test_a_token_that_is_not_for_this_now_and_here_is_refused_and_only_the_log_says_why(
    claims: dict[str, Any], cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trio_mcp.auth")
    post = posting()
    token = post.issuer.token(**claims)

    refusal = refusal_of(await post(token), 401, "invalid_token")

    assert json.loads(refusal.body())["error"]["message"] == "the token is not accepted"
    assert cause in caplog.text
    assert token not in caplog.text


@pytest.mark.parametrize("claims", [{"exp": int(NOW) - 59}, {"nbf": int(NOW) + 60}, {"aud": ["x", RESOURCE]}])
async def test_clocks_may_differ_by_a_minute_and_a_token_may_be_for_others_too(claims: dict[str, Any]) -> None:
    post = posting()

    assert access_of(await post(post.issuer.token(**claims))).principal == "ann"


async def test_a_server_may_have_other_names_for_tokens() -> None:
    post = posting(audiences=["api://files", "urn:files"])

    assert access_of(await post(post.issuer.token(aud="urn:files"))).principal == "ann"
    refusal_of(await post(post.issuer.token()), 401, "invalid_token")


@pytest.mark.parametrize("audience", ["https://api.example", "https://api.example/"])
async def test_a_slash_for_no_path_does_not_make_it_another_server(audience: str) -> None:
    post = posting(resource="https://api.example")

    assert access_of(await post(post.issuer.token(aud=audience))).principal == "ann"
    refusal_of(await post(post.issuer.token(aud=f"{audience}/mcp")), 401, "invalid_token")


async def test_an_expired_token_is_refused_even_if_it_was_good_before() -> None:
    post = posting()
    token = post.issuer.token()
    access_of(await post(token))

    post.issuer.clock.now += 360

    refusal_of(await post(token), 401, "invalid_token")


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
    post = posting()

    assert access_of(await post(post.issuer.token(**claims))).principal == principal


async def test_the_same_subject_of_two_issuers_is_two() -> None:
    post = posting(issuers=[OTHER, ISSUER])

    assert access_of(await post(post.issuer.token())).principal == f"{ISSUER} ann"
    assert access_of(await post(post.issuer.token(sub=None))).principal == f"{ISSUER} client desk"


@pytest.mark.requirement("C.3-1", "C.3-3")
async def test_a_token_without_the_scopes_of_every_request_is_not_enough() -> None:
    post = posting(scopes=["read", "admin"])

    refusal = refusal_of(await post(post.issuer.token(scope="read")), 403, "insufficient_scope")

    for challenge in challenges_of(refusal):
        assert challenge.parameters["scope"] == "read admin"
        assert challenge.parameters["resource_metadata"] == METADATA
    assert json.loads(refusal.body())["error"]["message"] == "this requires a token with the scope 'read admin'"


async def test_an_operation_may_need_more_and_all_that_it_needs_is_named_at_once() -> None:
    post = posting(scopes=["read"])
    access = access_of(await post(post.issuer.token(scope="read")))

    assert post.guard.permit(access, {"read"}) is None
    refusal = refusal_of(post.guard.permit(access, {"write", "read", "delete"}), 403, "insufficient_scope")

    assert {challenge.parameters["scope"] for challenge in challenges_of(refusal)} == {"read delete write"}


async def test_a_scope_that_includes_others_is_as_good_as_they_are() -> None:
    post = posting(scopes=["read"], implied_scopes={"admin": ["read", "write"]})

    access = access_of(await post(post.issuer.token(scope="admin")))

    assert access.scopes == {"admin"}
    assert post.guard.permit(access, ["write"]) is None
    assert post.guard.permit(access, ["delete"]) is not None


async def test_an_unreachable_authorization_server_does_not_make_tokens_invalid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    post = posting()
    post.issuer.goes_away()

    refusal = refusal_of(await post(post.issuer.token()), 503)

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
class Own:
    """A verifier of an application's own."""

    outcome: VerifiedToken | BaseException

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        await trio.lowlevel.checkpoint()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def changed(**members: Any) -> VerifiedToken:
    return evolve(GOOD, **members)


async def test_no_verifier_sees_a_token_that_is_too_long() -> None:
    post = posting(verifier=Own(GOOD))

    access_of(await post("x" * 16_384))
    refusal_of(await post("x" * 16_385), 401, "invalid_token")


async def test_a_verifier_of_ones_own_may_take_tokens_without_end() -> None:
    access = access_of(await posting(verifier=Own(GOOD))("opaque"))

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
async def test_what_another_verifier_says_is_checked_as_well(token: VerifiedToken) -> None:
    refusal_of(await posting(verifier=Own(token))("opaque"), 401, "invalid_token")


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
    outcome = await posting(verifier=Own(failure))("opaque")

    refusal = refusal_of(outcome, status, "invalid_token" if status == 401 else None)
    assert b"bug" not in refusal.body()
    assert ("the token verifier failed" in caplog.text) is ("bug" in str(failure))


async def test_an_interrupt_is_no_failure_of_a_verifier() -> None:
    with pytest.raises(KeyboardInterrupt):
        await posting(verifier=Own(KeyboardInterrupt()))("opaque")


async def test_nothing_that_a_token_says_gets_into_a_challenge() -> None:
    issuer = Issuer()
    post = posting(issuer, scopes=["admin"])

    refusal = refusal_of(await post(issuer.token(scope='a", error="x', sub='ann", evil="')), 403, "insufficient_scope")

    assert "evil" not in refusal.headers["www-authenticate"]
    assert "\\" not in refusal.headers["www-authenticate"]
