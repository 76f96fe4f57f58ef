"""Proofs of possession at the development authorization server, and tokens that are bound to a key."""

from __future__ import annotations

from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from .authorization_bench import ISSUER, Bench, Signer, basic

KEY, OTHER = Signer(), Signer()
CREDENTIALS = basic("known", "s3cret")


def proof(
    bench: Bench, signer: Signer = KEY, *, header: dict[str, Any] | None = None, **changed: Any
) -> dict[str, str]:
    """Return the header field with a proof; None omits a claim."""
    claims = {"htm": "POST", "htu": f"{ISSUER}/token", "iat": bench.clock.now, "jti": str(len(numbers))}
    numbers.append(None)
    head = {"typ": "dpop+jwt", "jwk": signer.jwk, **(header or {})}
    return {"dpop": signer.sign({**claims, **changed}, **head)}


numbers: list[None] = []


async def ask(bench: Bench, fields: dict[str, str]) -> Any:
    """Request a token with the client credentials grant; return the response, or status and error."""
    answer = await bench.token("client_credentials", {**CREDENTIALS, **fields})
    return answer.json if answer.status == 200 else answer.error


async def test_a_token_is_bound_to_the_key_of_the_proof() -> None:
    bench = Bench()

    answer = await ask(bench, proof(bench))

    assert answer["token_type"] == "DPoP"
    assert bench.claims(answer["access_token"])["cnf"] == {"jkt": KEY.key.thumbprint()}
    assert (await bench.introspect(answer["access_token"]))["token_type"] == "DPoP"


async def test_a_bound_refresh_token_is_refused_without_its_key() -> None:
    bench = Bench()
    first = (await bench.redeem(await bench.code(), proof(bench))).json
    assert first["token_type"] == "DPoP"

    assert (await bench.refresh(first["refresh_token"])).error == (400, "invalid_dpop_proof")
    assert (await bench.refresh(first["refresh_token"], proof(bench, OTHER))).error == (400, "invalid_dpop_proof")
    again = (await bench.refresh(first["refresh_token"], proof(bench))).json
    assert bench.claims(again["access_token"])["cnf"] == {"jkt": KEY.key.thumbprint()}


async def test_an_authorization_code_may_be_bound_to_a_key() -> None:
    bench = Bench()
    codes = [await bench.code(dpop_jkt=KEY.key.thumbprint()) for _ in range(3)]

    assert (await bench.redeem(codes[0])).error == (400, "invalid_dpop_proof")
    assert (await bench.redeem(codes[1], proof(bench, OTHER))).error == (400, "invalid_dpop_proof")
    assert (await bench.redeem(codes[2], proof(bench))).status == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"htm": "GET"},
        {"htm": None},
        {"htu": "https://other.test/token"},
        {"htu": "http://auth.test/token"},
        {"htu": f"{ISSUER}:8443/token"},
        {"htu": f"{ISSUER}/other"},
        {"htu": "https://[oops"},
        {"htu": f"{ISSUER}:no/token"},
        {"htu": 1},
        {"htu": None},
        {"iat": 1},
        {"iat": "now"},
        {"iat": float("nan")},
        {"iat": None},
        {"jti": None},
        {"jti": 5},
        {"header": {"typ": "JWT"}},
        {"header": {"jwk": OTHER.jwk}},
        {"header": {"jwk": {"kty": "EC"}}},
        {"header": {"jwk": dict(KEY.key.as_dict(private=True))}},
    ],
)
async def test_a_proof_with_other_claims_is_refused(changed: dict[str, Any]) -> None:
    bench = Bench()

    assert await ask(bench, proof(bench, **changed)) == (400, "invalid_dpop_proof")


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "é", "eyJhbGciOiJFUzI1NiIsImp3ayI6ImtleSJ9.e30.e30"])
async def test_a_malformed_proof_is_refused(text: str) -> None:
    assert await ask(Bench(), {"dpop": text}) == (400, "invalid_dpop_proof")


async def test_a_proof_with_another_algorithm_is_refused() -> None:
    bench = Bench()
    key = RSAKey.generate_key(2048)
    head = {"alg": "RS256", "typ": "dpop+jwt", "jwk": dict(key.as_dict(private=False))}
    claims = {"htm": "POST", "htu": f"{ISSUER}/token", "iat": bench.clock.now, "jti": "1"}

    assert await ask(bench, {"dpop": jwt.encode(head, claims, key)}) == (400, "invalid_dpop_proof")


@pytest.mark.parametrize("htu", ["https://AUTH.test:443/token", f"{ISSUER}/token?a=1#b"])
async def test_equivalent_spellings_of_the_url_in_a_proof_are_accepted(htu: str) -> None:
    bench = Bench()

    assert "access_token" in await ask(bench, proof(bench, htu=htu))


async def test_a_proof_is_accepted_once() -> None:
    bench = Bench()
    field = proof(bench)

    assert "access_token" in await ask(bench, field)
    assert await ask(bench, field) == (400, "invalid_dpop_proof")


async def test_the_number_of_remembered_proofs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._token._MAX_PROOFS", 1)
    bench = Bench()
    fields = [proof(bench), proof(bench)]

    assert ["access_token" in await ask(bench, field) for field in [*fields, fields[0]]] == [True, True, True]


async def test_the_server_may_require_a_nonce_and_the_refusal_does_not_use_up_the_code() -> None:
    bench = Bench(dpop_nonces=True)
    code = await bench.code()

    refused = await bench.redeem(code, proof(bench))
    assert refused.error == (400, "use_dpop_nonce")
    nonce = refused.headers["dpop-nonce"]
    answer = await bench.redeem(code, proof(bench, nonce=nonce))
    assert (answer.status, answer.headers["dpop-nonce"]) == (200, nonce)
    bench.auth.renew_nonce()
    assert await ask(bench, proof(bench, nonce=nonce)) == (400, "use_dpop_nonce")
    assert "access_token" in await ask(bench, {})


async def test_proofs_may_be_required_or_ignored() -> None:
    strict, careless = Bench(dpop="required"), Bench(dpop="off")

    assert await ask(strict, {}) == (400, "invalid_dpop_proof")
    assert (await ask(strict, proof(strict)))["token_type"] == "DPoP"
    assert (await ask(careless, {"dpop": "x"}))["token_type"] == "Bearer"
    metadata = "/.well-known/oauth-authorization-server"
    assert (await strict.get(metadata)).json["dpop_signing_alg_values_supported"] == ["ES256"]
    assert "dpop_signing_alg_values_supported" not in (await careless.get(metadata)).json
