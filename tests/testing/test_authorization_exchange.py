"""Assertion grants at the development authorization server: ID-JAGs of identity providers, and workloads."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp.testing import AccessAsk, KnownClient

from .authorization_bench import ISSUER, RESOURCE, Bench, Signer, basic

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
IDP = "https://idp.test"
PLATFORM = "https://platform.test"
SIGNER = Signer()
CREDENTIALS = basic("known", "s3cret")
GRANTED_IDP = KnownClient("sso", secret="s3cret", known_as={ISSUER: "known"})


def provider(**options: Any) -> Bench:
    """Return an identity provider."""
    return Bench(IDP, clients=[GRANTED_IDP, KnownClient("public")], **options)


async def exchange(idp: Bench, **changed: str | None) -> Any:
    """Request an ID-JAG of an identity provider; return the response, or status and error."""
    usual = {
        "requested_token_type": ID_JAG,
        "subject_token_type": ID_TOKEN,
        "subject_token": idp.auth.issue_id_token(subject="ada", client_id="sso"),
        "audience": ISSUER,
        "resource": RESOURCE,
        "scope": "read write",
        **changed,
    }
    form = {name: value for name, value in usual.items() if value is not None}
    answer = await idp.token(TOKEN_EXCHANGE, basic("sso", "s3cret"), **form)
    return answer.json if answer.status == 200 else answer.error


def trusting(**options: Any) -> Bench:
    """Return an authorization server that trusts a platform."""
    return Bench(trusted_issuers={PLATFORM: SIGNER.jwks}, **options)


def asserted(bench: Bench, **changed: Any) -> dict[str, Any]:
    """Return the claims of a platform about a workload; None omits a claim."""
    usual = {"iss": PLATFORM, "sub": "job-1", "aud": ISSUER, "exp": bench.clock.now + 60}
    return {**usual, **changed}


async def exchange_assertion(
    bench: Bench, assertion: str, headers: dict[str, str] | None = None, /, **form: str
) -> Any:
    """Exchange an assertion; return the claims of the token, or status and error."""
    answer = await bench.token(JWT_BEARER, headers, assertion=assertion, **form)
    return bench.claims(answer.json["access_token"]) if answer.status == 200 else answer.error


async def test_an_identity_provider_and_the_servers_own_authorization_server_work_together() -> None:
    idp = provider()
    bench = Bench(trusted_issuers={IDP: idp.auth.jwks})

    given = await exchange(idp)
    claims = await exchange_assertion(bench, given["access_token"], CREDENTIALS)

    described = {name: given[name] for name in ("issued_token_type", "token_type", "expires_in", "scope")}
    assert described == {"issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 300, "scope": "read write"}
    named = {name: claims[name] for name in ("sub", "client_id", "aud", "scope")}
    assert named == {"sub": "ada", "client_id": "known", "aud": RESOURCE, "scope": "read write"}


async def test_an_id_jag_contains_only_the_requested_claims() -> None:
    idp = provider()

    given = await exchange(idp, scope=None, resource=None)

    claims = idp.claims(given["access_token"])
    assert claims.pop("jti")
    now = int(idp.clock.now)
    assert claims == {
        "iss": IDP,
        "sub": "ada",
        "aud": ISSUER,
        "client_id": "known",
        "iat": now,
        "exp": now + 300,
    }


async def test_an_id_jag_uses_the_client_id_of_the_provider_unless_another_is_configured() -> None:
    idp = provider()

    given = await exchange(idp, audience="https://elsewhere.test")

    assert idp.claims(given["access_token"])["client_id"] == "sso"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"requested_token_type": "urn:x"}, "invalid_request"),
        ({"subject_token_type": None}, "invalid_request"),
        ({"audience": None}, "invalid_target"),
        ({"subject_token": "x"}, "invalid_grant"),
        ({"subject_token": None}, "invalid_grant"),
        ({"scope": "unheard-of"}, "invalid_scope"),
    ],
)
async def test_an_invalid_token_exchange_is_refused(changed: dict[str, str | None], error: str) -> None:
    assert await exchange(provider(scopes=["read", "write"]), **changed) == (400, error)


async def test_an_id_token_can_be_exchanged_only_by_its_own_client_until_it_expires() -> None:
    idp = provider()
    token = idp.auth.issue_id_token(subject="ada", client_id="sso")
    others = idp.auth.issue_id_token(subject="ada", client_id="public")

    assert await exchange(idp, subject_token=others) == (400, "invalid_grant")
    idp.clock.now += 360.0
    assert await exchange(idp, subject_token=token) == (400, "invalid_grant")


async def test_the_policy_of_an_identity_provider_decides_about_token_exchanges() -> None:
    asks: list[AccessAsk] = []

    def policy(ask: AccessAsk) -> list[str] | None:
        asks.append(ask)
        return ["read"] if len(asks) == 1 else None

    idp = provider(policy=policy)

    assert (await exchange(idp))["scope"] == "read"
    assert await exchange(idp) == (400, "access_denied")
    assert (asks[0].grant_type, asks[0].subject, asks[0].resource) == (TOKEN_EXCHANGE, "ada", RESOURCE)


async def jag(**changed: Any) -> tuple[Bench, str]:
    """Return an authorization server, and an ID-JAG for it with *changed* claims."""
    bench = trusting()
    claims = asserted(bench, sub="ada", client_id="known", jti="1", scope="read write", resource=RESOURCE, **changed)
    return bench, SIGNER.sign(claims, typ="oauth-id-jag+jwt")


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"scope": "read admin"}, "invalid_scope"),
        ({"resource": "https://other.test"}, "invalid_target"),
    ],
)
async def test_a_token_request_beyond_the_claims_of_an_id_jag_is_refused(form: dict[str, str], error: str) -> None:
    bench, assertion = await jag()

    assert await exchange_assertion(bench, assertion, CREDENTIALS, **form) == (400, error)
    assert (await exchange_assertion(bench, assertion, CREDENTIALS, scope="read", resource=RESOURCE))["scope"] == "read"


async def test_an_id_jag_is_accepted_once() -> None:
    bench, assertion = await jag()

    assert (await exchange_assertion(bench, assertion, CREDENTIALS))["sub"] == "ada"
    assert await exchange_assertion(bench, assertion, CREDENTIALS) == (400, "invalid_grant")


async def test_the_number_of_remembered_id_jags_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._token._MAX_ASSERTIONS", 1)
    bench = trusting()
    jags = [SIGNER.sign(asserted(bench, client_id="known", jti=number), typ="oauth-id-jag+jwt") for number in "12"]

    assert ["sub" in await exchange_assertion(bench, each, CREDENTIALS) for each in [*jags, jags[0]]] == [
        True,
        True,
        True,
    ]


async def test_the_client_of_an_id_jag_must_authenticate() -> None:
    bench, assertion = await jag()

    assert await exchange_assertion(bench, assertion) == (401, "invalid_client")
    assert await exchange_assertion(bench, assertion, client_id="public") == (400, "invalid_grant")


@pytest.mark.parametrize("changed", [{"client_id": "other"}, {"jti": None}])
async def test_an_id_jag_for_another_client_or_without_an_id_is_refused(changed: dict[str, Any]) -> None:
    bench = trusting()
    claims = asserted(bench, **{"client_id": "known", "jti": "1", **changed})

    assert await exchange_assertion(bench, SIGNER.sign(claims, typ="oauth-id-jag+jwt"), CREDENTIALS) == (
        400,
        "invalid_grant",
    )


async def test_an_id_jag_without_a_resource_allows_no_resource() -> None:
    bench = trusting()
    assertion = SIGNER.sign(asserted(bench, client_id="known", jti="1"), typ="oauth-id-jag+jwt")

    assert await exchange_assertion(bench, assertion, CREDENTIALS, resource=RESOURCE) == (400, "invalid_target")
    assert (await exchange_assertion(bench, assertion, CREDENTIALS, scope="read"))["aud"] == ISSUER


@pytest.mark.parametrize(
    ("headers", "form", "client_id"),
    [(None, {}, "job-1"), (None, {"client_id": "workload"}, "workload"), (CREDENTIALS, {}, "known")],
)
async def test_a_workload_gets_a_token_for_its_identity(
    headers: dict[str, str] | None, form: dict[str, str], client_id: str
) -> None:
    bench = trusting()

    claims = await exchange_assertion(
        bench, SIGNER.sign(asserted(bench)), headers, scope="read", resource=RESOURCE, **form
    )

    named = {name: claims[name] for name in ("sub", "client_id", "aud", "scope")}
    assert named == {"sub": "job-1", "client_id": client_id, "aud": RESOURCE, "scope": "read"}


async def test_a_client_that_did_not_register_for_the_assertion_grants_is_refused() -> None:
    limited = KnownClient("known", secret="s3cret", grant_types=["client_credentials"])
    bench = trusting(clients=[limited])

    assert await exchange_assertion(bench, SIGNER.sign(asserted(bench)), CREDENTIALS) == (400, "unauthorized_client")
    assert (await bench.token(TOKEN_EXCHANGE, CREDENTIALS)).error == (400, "unauthorized_client")


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://stranger.test"},
        {"iss": ["list"]},
        {"iss": None},
        {"aud": "https://other.test"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": 5},
    ],
)
async def test_a_workload_assertion_with_invalid_claims_is_refused(changed: dict[str, Any]) -> None:
    bench = trusting()

    assert await exchange_assertion(bench, SIGNER.sign(asserted(bench, **changed))) == (400, "invalid_grant")


async def test_a_workload_assertion_signed_with_another_key_is_refused() -> None:
    bench = trusting()

    assert await exchange_assertion(bench, Signer().sign(asserted(bench))) == (400, "invalid_grant")
    assert (await bench.token(JWT_BEARER)).error == (400, "invalid_grant")


async def test_the_policy_applies_to_workloads() -> None:
    def policy(_: AccessAsk) -> None:
        return None

    bench = trusting(policy=policy)

    assert await exchange_assertion(bench, SIGNER.sign(asserted(bench))) == (400, "unauthorized_client")


async def test_the_token_of_a_workload_may_be_bound_to_a_key() -> None:
    bench = trusting(dpop="required")

    assert await exchange_assertion(bench, SIGNER.sign(asserted(bench))) == (400, "invalid_dpop_proof")


async def test_only_a_server_with_trusted_issuers_advertises_the_assertion_grant() -> None:
    path = "/.well-known/oauth-authorization-server"

    assert JWT_BEARER in (await trusting().get(path)).json["grant_types_supported"]
    assert JWT_BEARER not in (await Bench().get(path)).json["grant_types_supported"]


def test_unusable_keys_of_trusted_issuers_raise_at_construction() -> None:
    with pytest.raises(ValueError, match="the value contains no public keys"):
        Bench(trusted_issuers={IDP: {}})
