"""Attacks on a protected server: each one is refused, and the server continues to work."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import Key

from tests.auth.server.guard_client import GuardClient, access_of, guard_client, refusal_of
from tests.auth.signed_tokens import ISSUER, RESOURCE, Issuer, b64, ec_key, pem_of, raw_jws, rsa_key, signed
from trio_mcp.wire import Refusal

CLAIMS = Issuer().claims(sub="mallory")
EVIL = "https://evil.example"


def symmetric(algorithm: str, secret: bytes, **header: Any) -> str:
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[algorithm]
    head = f"{b64({'alg': algorithm, 'typ': 'at+jwt', 'kid': 'first', **header})}.{b64(CLAIMS)}"
    return f"{head}.{b64(hmac.new(secret, head.encode(), digest).digest())}"


def jwk_of(key: Key) -> bytes:
    return json.dumps(key.as_dict(private=False)).encode()


FORGED = {
    "not signed": raw_jws({"alg": "none", "typ": "at+jwt"}, CLAIMS, b""),
    "not signed, in another spelling": raw_jws({"alg": "nOnE", "typ": "at+jwt"}, CLAIMS, b""),
    "not signed, with a signature": raw_jws({"alg": "none", "typ": "at+jwt", "kid": "first"}, CLAIMS, b"x"),
    "no algorithm": raw_jws({"typ": "at+jwt", "kid": "first"}, CLAIMS, b"x"),
    "the public key as the secret, PEM": symmetric("HS256", pem_of(ec_key())),
    "the public key as the secret, JWK": symmetric("HS512", jwk_of(ec_key())),
    "the public RSA key as the secret": symmetric("HS384", pem_of(rsa_key()), kid="rsa"),
    "an empty secret": symmetric("HS256", b""),
    "a signature of zeros": raw_jws({"alg": "ES256", "typ": "at+jwt", "kid": "first"}, CLAIMS, bytes(64)),
    "no signature": raw_jws({"alg": "ES256", "typ": "at+jwt", "kid": "first"}, CLAIMS, b""),
    "another key": signed({"alg": "ES256", "typ": "at+jwt", "kid": "first"}, CLAIMS, ec_key("mallory")),
    "a foreign key in the header": signed(
        {"alg": "ES256", "typ": "at+jwt", "jwk": ec_key("mallory").as_dict(private=False)}, CLAIMS, ec_key("mallory")
    ),
    "a key at a foreign URL": signed(
        {"alg": "ES256", "typ": "at+jwt", "kid": "first", "jku": EVIL, "x5u": EVIL}, CLAIMS, ec_key("mallory")
    ),
    "a path as the key id": signed(
        {"alg": "ES256", "typ": "at+jwt", "kid": "../../dev/null"}, CLAIMS, ec_key("mallory")
    ),
    "a foreign issuer": signed({"alg": "ES256", "typ": "at+jwt"}, {**CLAIMS, "iss": EVIL}, ec_key("mallory")),
    "an extension that has to be understood": signed(
        {"alg": "ES256", "typ": "at+jwt", "kid": "first", "crit": ["x"], "x": 1}, CLAIMS, ec_key()
    ),
    "a payload that is not encoded": signed(
        {"alg": "ES256", "typ": "at+jwt", "kid": "first", "b64": False, "crit": ["b64"]}, CLAIMS, ec_key()
    ),
    "encrypted": "eyJhbGciOiJSU0EtT0FFUCJ9.e30.e30.e30.e30",
    "for another server": Issuer().token(aud="https://api.example/other"),
    "for a server with a longer name": Issuer().token(aud=f"{RESOURCE}/more"),
    "an ID token": Issuer().token(header={"typ": "JWT"}, aud=[RESOURCE], at_hash="x"),
    "deep JSON": raw_jws({"alg": "ES256", "typ": "at+jwt"}, "[" * 9000, b"x"),
    "a deep header": raw_jws("[" * 9000, CLAIMS, b"x"),
    "a header that is a list": raw_jws("[]", CLAIMS, b"x"),
    "an algorithm that is a list": raw_jws({"alg": ["ES256"]}, CLAIMS, b"x"),
    "two algorithms": raw_jws('{"alg": "ES256", "alg": "none"}', CLAIMS, b""),
    "a huge number": raw_jws({"alg": "ES256"}, '{"exp": 1' + "0" * 5000 + "}", b"x"),
    "a huge number, signed": Issuer().token(exp=10**4000),
    "too long": Issuer().token(junk="x" * 16_384),
    "only dots": "...",
    "many dots": "." * 16_000,
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
async def test_a_forged_token_is_refused(forged: str) -> None:
    client = guard_client(Issuer(keys=[ec_key(), rsa_key()]))

    refusal_of(await client(forged), 401, "invalid_token")

    assert not any("evil" in url for url in client.issuer.requested_urls)
    assert access_of(await client(client.issuer.token())).principal == "ann"


async def test_a_token_with_any_character_changed_is_refused() -> None:
    client = guard_client()
    token = client.issuer.token()

    for position, char in enumerate(token):
        changed = f"{token[:position]}{'A' if char != 'A' else 'B'}{token[position + 1 :]}"
        assert isinstance(await client(changed), Refusal), position


async def test_many_unknown_keys_cause_one_fetch() -> None:
    client = guard_client()
    good = client.issuer.token()
    await client(good)
    flood = [client.issuer.token(key=ec_key("mallory"), header={"kid": str(number)}) for number in range(200)]
    client.issuer.clock.now += 30
    before = len(client.issuer.calls)

    async with trio.open_nursery() as nursery:
        for forged in flood:
            nursery.start_soon(client, forged)

    assert len(client.issuer.calls) == before + 2  # metadata and keys, once
    assert access_of(await client(good)).principal == "ann"


async def test_many_unknown_issuers_cause_no_fetch() -> None:
    client = guard_client()

    for number in range(50):
        refusal_of(await client(client.issuer.token(iss=f"{ISSUER}/{number}")), 401, "invalid_token")

    assert client.issuer.calls == []


async def test_requests_share_the_failure_of_the_first_fetch() -> None:
    client = guard_client()
    client.issuer.become_unreachable()

    for _ in range(50):
        refusal_of(await client(client.issuer.token()), 503)

    assert len(client.issuer.calls) == 1


CLIENT: GuardClient = guard_client()


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=50), st.sampled_from(["Bearer", "DPoP", ""]))
@settings(max_examples=60, deadline=None)
async def test_any_malformed_request_is_refused_without_an_exception(
    token: str, proof: str, query: str, scheme: str
) -> None:
    outcome = await CLIENT(token, scheme=scheme, proof=proof, query=query)

    assert isinstance(outcome, Refusal)
    assert outcome.status in {400, 401}
    outcome.headers["www-authenticate"].encode("ascii")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CLAIM = st.sampled_from(["iss", "sub", "aud", "exp", "nbf", "scope", "scp", "cnf", "client_id", "azp", "typ", "iat"])
FIELD = st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jwk", "jku", "zip"])


@given(st.dictionaries(CLAIM, JSON, max_size=4))
@settings(max_examples=60, deadline=None)
async def test_malformed_claims_that_the_authorization_server_signed_raise_no_exception(claims: dict[str, Any]) -> None:
    token = signed({"alg": "ES256", "typ": "at+jwt", "kid": "first"}, {**CLIENT.issuer.claims(), **claims}, ec_key())

    outcome = await CLIENT(token)

    assert not isinstance(outcome, Refusal) or outcome.status == 401


@given(st.dictionaries(FIELD, JSON, max_size=3))
@settings(max_examples=60, deadline=None)
async def test_malformed_headers_of_a_token_raise_no_exception(header: dict[str, Any]) -> None:
    header = {"alg": "ES256", "typ": "at+jwt", "kid": "first", **header}

    outcome = await CLIENT(raw_jws(header, CLIENT.issuer.claims(), b"x" * 64))

    refusal_of(outcome, 401, "invalid_token")
