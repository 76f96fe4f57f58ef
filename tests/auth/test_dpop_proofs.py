from __future__ import annotations

import hashlib
from itertools import count
from typing import Any

import pytest
from joserfc.jwk import Key

from tests.auth.signed_tokens import NOW, b64, ec_key, okp_key, raw_jws, rsa_key, signed
from trio_mcp.auth import InvalidToken, VerifierUnavailable
from trio_mcp.auth._dpop import CheckedProof, DpopKey, SeenProofs, read_proof

URL = "https://api.example/mcp"
TOKEN = "the-token"


def claims(**changed: Any) -> dict[str, Any]:
    ath = b64(hashlib.sha256(TOKEN.encode()).digest())
    values = {"jti": "one", "htm": "POST", "htu": URL, "iat": int(NOW), "ath": ath, **changed}
    return {name: value for name, value in values.items() if value is not None}


def proof(*, key: Key | None = None, header: dict[str, Any] | None = None, **changed: Any) -> str:
    """Return a valid proof with the given changes."""
    key = ec_key() if key is None else key
    fields = {"alg": "ES256", "typ": "dpop+jwt", "jwk": key.as_dict(private=False), **(header or {})}
    return signed({name: value for name, value in fields.items() if value is not None}, claims(**changed), key)


def read(text: str, **changed: Any) -> CheckedProof:
    options: dict[str, Any] = {"method": "POST", "urls": {URL}, "token": TOKEN, "now": NOW, **changed}
    return read_proof(text, **options)


def test_a_proof_of_the_client_is_accepted_by_the_server() -> None:
    key = DpopKey.generate()

    checked = read(key.proof("POST", f"{URL}?a=b", now=NOW, token=TOKEN, nonce="n"))

    assert checked.thumbprint == key.thumbprint
    assert checked.until == NOW + 300


@pytest.mark.parametrize(("key", "algorithm"), [(rsa_key(), "RS256"), (rsa_key(), "PS256"), (okp_key(), "Ed25519")])
def test_keys_of_every_kind_can_sign_proofs(key: Key, algorithm: str) -> None:
    assert read(proof(key=key, header={"alg": algorithm})).thumbprint == key.thumbprint()


@pytest.mark.parametrize(
    "htu",
    [
        "https://api.example:443/mcp",
        "HTTPS://API.example/mcp",
        "https://api.example/mcp?query#fragment",
        "https://api.example/%6dcp",
    ],
)
def test_an_equivalent_spelling_of_the_url_of_a_proof_is_accepted(htu: str) -> None:
    assert read(proof(htu=htu)).id == "one"


def test_an_empty_path_is_equal_to_the_root_path() -> None:
    assert read(proof(htu="https://api.example"), urls={"https://api.example/"}).id == "one"


@pytest.mark.parametrize("iat", [NOW - 300, NOW + 300, NOW - 0.5])
def test_the_clock_of_a_proof_may_differ_by_five_minutes(iat: float) -> None:
    assert read(proof(iat=iat)).until == iat + 300


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"htm": "GET"}, "another method"),
        ({"htm": "post"}, "another method"),
        ({"htm": None}, "another method"),
        ({"htu": "https://evil.example/mcp"}, "another URL"),
        ({"htu": "http://api.example/mcp"}, "another URL"),
        ({"htu": "https://api.example:8443/mcp"}, "another URL"),
        ({"htu": "https://api.example/mcp/"}, "another URL"),
        ({"htu": "https://api.example/other"}, "another URL"),
        ({"htu": "https://ann@api.example/mcp"}, "another URL"),
        ({"htu": "/mcp"}, "another URL"),
        ({"htu": "https://api.example:99999999/mcp"}, "another URL"),
        ({"htu": [URL]}, "another URL"),
        ({"htu": None}, "another URL"),
        ({"iat": NOW - 301}, "too old, or its time is in the future"),
        ({"iat": NOW + 301}, "too old, or its time is in the future"),
        ({"iat": None}, "too old, or its time is in the future"),
        ({"iat": str(NOW)}, "'iat' is not a time"),
        ({"iat": True}, "'iat' is not a time"),
        ({"iat": 10**400}, "'iat' is not a time"),
        ({"ath": b64(hashlib.sha256(b"another").digest())}, "another token"),
        ({"ath": TOKEN}, "another token"),
        ({"ath": None}, "another token"),
        ({"jti": None}, "no identifier"),
        ({"jti": ""}, "no identifier"),
        ({"jti": 7}, "no identifier"),
        ({"jti": "x" * 257}, "no identifier"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_proof_for_a_different_request_or_token_is_refused(changed: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidToken, match=cause):
        read(proof(**changed))


@pytest.mark.parametrize(
    ("header", "cause"),
    [
        ({"typ": None}, "is not a proof"),
        ({"typ": "JWT"}, "is not a proof"),
        ({"typ": "at+jwt"}, "is not a proof"),
        ({"jwk": None}, "contains no key"),
        ({"jwk": "key"}, "contains no key"),
        ({"jwk": {}}, "not a public key"),
        ({"jwk": ec_key().as_dict(private=True)}, "not a public key"),
        ({"jwk": ec_key("other").as_dict(private=False)}, "signature is invalid"),
    ],
    ids=map(str, count()),  # the keys are new in each test run
)
def test_a_proof_without_a_valid_public_key_is_refused(header: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidToken, match=cause):
        read(proof(header=header))


def test_an_access_token_is_not_accepted_as_a_proof() -> None:
    with pytest.raises(InvalidToken, match="is not a proof"):
        read(signed({"alg": "ES256", "typ": "at+jwt"}, claims(), ec_key()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one, two",
        "x" * 8193,
        raw_jws({"alg": "none", "typ": "dpop+jwt"}, claims(), b""),
        raw_jws({"alg": "HS256", "typ": "dpop+jwt", "jwk": {"kty": "oct", "k": "eA"}}, claims(), b"x"),
        raw_jws({"alg": "ES256", "typ": "dpop+jwt"}, "[" * 4000, b"x"),
    ],
    ids=lambda text: text[:20],
)
def test_a_malformed_proof_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        read(text)


def test_two_proofs_in_one_request_are_refused() -> None:
    with pytest.raises(InvalidToken):
        read(f"{proof()}, {proof(jti='two')}")


def proof_with_id(id: str = "one", thumbprint: str = "key", until: float = NOW + 300) -> CheckedProof:
    return CheckedProof(thumbprint=thumbprint, id=id, until=until)


def test_a_proof_is_accepted_once() -> None:
    replays = SeenProofs()

    assert replays.note(proof_with_id(), NOW)
    assert not replays.note(proof_with_id(), NOW + 300)


def test_the_same_identifier_with_another_key_is_a_different_proof() -> None:
    replays = SeenProofs()
    replays.note(proof_with_id(), NOW)

    assert replays.note(proof_with_id(thumbprint="other"), NOW)
    assert replays.note(proof_with_id("two"), NOW)


def test_proofs_are_refused_while_the_memory_is_full_until_old_proofs_expire() -> None:
    replays = SeenProofs(max_kept=2)
    replays.note(proof_with_id("one", until=NOW + 10), NOW)
    replays.note(proof_with_id("two", until=NOW + 20), NOW)

    with pytest.raises(VerifierUnavailable, match="2 proofs"):
        replays.note(proof_with_id("three"), NOW + 10)
    assert not replays.note(proof_with_id("two", until=NOW + 20), NOW + 10)
    assert replays.note(proof_with_id("three"), NOW + 11)


def test_proofs_may_expire_in_any_order() -> None:
    replays = SeenProofs(max_kept=2)
    replays.note(proof_with_id("late", until=NOW + 600), NOW)
    replays.note(proof_with_id("early", until=NOW + 10), NOW)

    assert replays.note(proof_with_id("new"), NOW + 11)
    assert not replays.note(proof_with_id("late", until=NOW + 600), NOW + 12)
