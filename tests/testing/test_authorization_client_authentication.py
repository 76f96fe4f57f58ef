"""Client authentication at the development authorization server: secrets, keys and assertions."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from trio_mcp.testing import KnownClient

from .authorization_bench import ISSUER, Bench, Signer, basic

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
REFUSED = (401, "invalid_client")


async def ask(bench: Bench, headers: dict[str, str] | None = None, /, **form: str) -> Any:
    """Request a token with the client credentials grant; return 200, or status and error."""
    answer = await bench.token("client_credentials", headers, **form)
    return answer.error if answer.status != 200 else 200


async def test_a_client_may_send_its_secret_in_the_header_or_in_the_form() -> None:
    bench = Bench()

    assert await ask(bench, basic("known", "s3cret")) == 200
    assert await ask(bench, basic("known", "s3cret"), client_id="known") == 200
    assert await ask(bench, client_id="known", client_secret="s3cret") == 200


async def test_the_credentials_in_the_header_are_form_encoded() -> None:
    bench = Bench(clients=[KnownClient("a:b", secret="s 3%")])

    assert await ask(bench, basic("a%3Ab", "s+3%25")) == 200


@pytest.mark.parametrize(
    "headers",
    [
        basic("known", "wrong"),
        basic("unknown", "s3cret"),
        basic("public", ""),
        {"authorization": "Basic ???"},
        {"authorization": "Basic /w=="},
    ],
)
async def test_a_wrong_header_is_answered_with_a_challenge(headers: dict[str, str]) -> None:
    answer = await Bench().token("client_credentials", headers)

    assert answer.error == REFUSED
    assert answer.headers["www-authenticate"] == 'Basic realm="token"'


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"client_id": "unknown"},
        {"client_id": "known"},
        {"client_id": "known", "client_secret": "wrong"},
        {"client_secret": "s3cret"},
    ],
)
async def test_a_wrong_form_is_refused(form: dict[str, str]) -> None:
    answer = await Bench().token("client_credentials", **form)

    assert answer.error == REFUSED
    assert "www-authenticate" not in answer.headers


async def test_a_client_that_authenticates_in_two_ways_or_as_two_clients_is_refused() -> None:
    bench = Bench()

    both = await ask(bench, basic("known", "s3cret"), client_id="known", client_secret="s3cret")
    other = await ask(bench, basic("known", "s3cret"), client_id="public")

    assert both == other == (400, "invalid_request")


async def test_a_header_with_another_scheme_does_not_authenticate_the_client() -> None:
    assert await ask(Bench(), {"authorization": "Bearer x"}, client_id="public") == (400, "unauthorized_client")


async def test_a_client_must_use_its_registered_method_and_one_that_the_server_supports() -> None:
    client = KnownClient("known", secret="s3cret", method="client_secret_post")
    bench = Bench(clients=[client])

    assert await ask(bench, basic("known", "s3cret")) == REFUSED
    assert await ask(bench, client_id="known", client_secret="s3cret") == 200
    bench.auth.settings.auth_methods = ["client_secret_basic"]
    assert await ask(bench, client_id="known", client_secret="s3cret") == REFUSED
    metadata = await bench.get("/.well-known/oauth-authorization-server")
    assert metadata.json["token_endpoint_auth_methods_supported"] == ["client_secret_basic"]


SIGNER, STRANGER = Signer(), Signer()


def claims(bench: Bench, **changed: Any) -> dict[str, Any]:
    """Return the claims of a client assertion; None omits a claim."""
    usual = {"iss": "signing", "sub": "signing", "aud": ISSUER, "exp": bench.clock.now + 60, "jti": "1"}
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}


async def ask_with(bench: Bench, assertion: str, kind: str = ASSERTION_TYPE, /, **form: str) -> Any:
    """Request a token as a client that authenticates with an assertion."""
    return await ask(bench, client_assertion=assertion, client_assertion_type=kind, **form)


def signing(keys: Any = None) -> Bench:
    """Return an authorization server with a client that signs assertions."""
    return Bench(clients=[KnownClient("signing", keys=keys or SIGNER.jwks), KnownClient("known", secret="x")])


@pytest.mark.parametrize("form", ["set", "jwk", "pem"])
async def test_the_keys_of_a_client_may_be_a_key_set_a_single_key_or_pem(form: str) -> None:
    keys = {"set": SIGNER.jwks, "jwk": SIGNER.jwk, "pem": SIGNER.key.as_pem(private=False).decode()}[form]
    bench = signing(keys)

    assert await ask_with(bench, SIGNER.sign(claims(bench))) == 200


async def test_the_key_of_a_client_may_be_an_rsa_key() -> None:
    key = RSAKey.generate_key(2048)
    bench = signing(key.as_pem(private=False).decode())

    assert await ask_with(bench, jwt.encode({"alg": "RS256"}, claims(bench), key)) == 200


async def test_an_assertion_must_match_one_of_the_keys_of_the_client() -> None:
    bench = signing({"keys": [STRANGER.jwk, SIGNER.jwk]})

    assert await ask_with(bench, SIGNER.sign(claims(bench))) == 200


async def test_an_assertion_may_name_the_token_endpoint_and_is_accepted_once() -> None:
    bench = signing()
    assertion = SIGNER.sign(claims(bench, aud=["x", f"{ISSUER}/token"]))

    assert await ask_with(bench, assertion, client_id="signing") == 200
    assert await ask_with(bench, assertion) == REFUSED


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "known"},
        {"sub": "known"},
        {"sub": "unknown"},
        {"sub": None},
        {"aud": "https://other.test"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"jti": None},
        {"jti": 1},
    ],
)
async def test_an_assertion_with_other_claims_is_refused(changed: dict[str, Any]) -> None:
    bench = signing()

    assert await ask_with(bench, SIGNER.sign(claims(bench, **changed))) == REFUSED


def signed_with_the_public_key(claims: dict[str, Any]) -> str:
    """Return a JWT that an attacker has signed with the public key used as a symmetric key."""
    parts = [json.dumps(each).encode() for each in ({"alg": "HS256"}, claims)]
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    made = hmac.digest(SIGNER.key.as_pem(private=False), signed, "sha256")
    return f"{signed.decode()}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


async def test_an_assertion_of_another_signer_is_refused() -> None:
    bench = signing()

    assert await ask_with(bench, STRANGER.sign(claims(bench))) == REFUSED
    assert await ask_with(bench, signed_with_the_public_key(claims(bench))) == REFUSED


@pytest.mark.parametrize("assertion", ["", "x", "a.b.c", "a.W10.c", f"a.{'x' * 20_000}.c", "é.é.é"])
async def test_a_malformed_assertion_is_refused(assertion: str) -> None:
    assert (await ask_with(signing(), assertion or "."))[1] == "invalid_client"


async def test_an_assertion_of_another_type_is_refused() -> None:
    bench = signing()

    assert await ask_with(bench, SIGNER.sign(claims(bench)), "saml") == (400, "invalid_request")


async def test_an_assertion_that_is_too_long_is_refused_without_a_check() -> None:
    bench = signing()

    assert await ask_with(bench, SIGNER.sign(claims(bench, more="x" * 20_000))) == REFUSED


async def test_the_number_of_remembered_assertions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._clients._MAX_ASSERTIONS", 1)
    bench = signing()
    assertions = [SIGNER.sign(claims(bench, jti=number)) for number in "12"]

    assert [await ask_with(bench, each) for each in [*assertions, assertions[0]]] == [200] * 3


@pytest.mark.parametrize("keys", ["garbage", {}, {"kty": "EC"}])
def test_unusable_keys_of_a_client_raise_a_clear_error(keys: Any) -> None:
    with pytest.raises(ValueError, match="the value contains no public keys"):
        KnownClient("signing", keys=keys)
