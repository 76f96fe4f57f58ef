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
    """A good proof, but for what is changed."""
    key = ec_key() if key is None else key
    fields = {"alg": "ES256", "typ": "dpop+jwt", "jwk": key.as_dict(private=False), **(header or {})}
    return signed({name: value for name, value in fields.items() if value is not None}, claims(**changed), key)


def read(text: str, **changed: Any) -> CheckedProof:
    options: dict[str, Any] = {"method": "POST", "urls": {URL}, "token": TOKEN, "now": NOW, **changed}
    return read_proof(text, **options)


def test_a_proof_of_our_own_client_is_good() -> None:
    key = DpopKey.generate()

    checked = read(key.proof("POST", f"{URL}?a=b", now=NOW, token=TOKEN, nonce="n"))

    assert checked.thumbprint == key.thumbprint
    assert checked.until == NOW + 300


@pytest.mark.parametrize(("key", "algorithm"), [(rsa_key(), "RS256"), (rsa_key(), "PS256"), (okp_key(), "Ed25519")])
def test_keys_of_every_kind_can_prove(key: Key, algorithm: str) -> None:
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
def test_the_url_of_a_proof_may_be_spelled_differently(htu: str) -> None:
    assert read(proof(htu=htu)).id == "one"


def test_no_path_is_the_root() -> None:
    assert read(proof(htu="https://api.example"), urls={"https://api.example/"}).id == "one"


@pytest.mark.parametrize("iat", [NOW - 300, NOW + 300, NOW - 0.5])
def test_a_proof_may_be_five_minutes_off(iat: float) -> None:
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
def test_a_proof_of_something_else_is_refused(changed: dict[str, Any], cause: str) -> None:
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
    ids=map(str, count()),  # the keys are new each time
)
def test_a_proof_without_a_good_key_is_refused(header: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidToken, match=cause):
        read(proof(header=header))


def test_an_access_token_is_no_proof() -> None:
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
def test_what_is_no_proof_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        read(text)


def test_two_proofs_at_once_are_none() -> None:
    with pytest.raises(InvalidToken):
        read(f"{proof()}, {proof(jti='two')}")


def a_proof(id: str = "one", thumbprint: str = "key", until: float = NOW + 300) -> CheckedProof:
    return CheckedProof(thumbprint=thumbprint, id=id, until=until)


def test_a_proof_is_taken_once() -> None:
    replays = SeenProofs()

    assert replays.note(a_proof(), NOW)
    assert not replays.note(a_proof(), NOW + 300)


def test_the_same_identifier_of_another_key_is_another_proof() -> None:
    replays = SeenProofs()
    replays.note(a_proof(), NOW)

    assert replays.note(a_proof(thumbprint="other"), NOW)
    assert replays.note(a_proof("two"), NOW)


def test_nothing_more_is_taken_when_no_more_can_be_remembered_until_old_ones_have_ended() -> None:
    replays = SeenProofs(max_kept=2)
    replays.note(a_proof("one", until=NOW + 10), NOW)
    replays.note(a_proof("two", until=NOW + 20), NOW)

    with pytest.raises(VerifierUnavailable, match="2 proofs"):
        replays.note(a_proof("three"), NOW + 10)
    assert not replays.note(a_proof("two", until=NOW + 20), NOW + 10)
    assert replays.note(a_proof("three"), NOW + 11)


def test_proofs_do_not_need_to_end_in_the_order_of_their_coming() -> None:
    replays = SeenProofs(max_kept=2)
    replays.note(a_proof("late", until=NOW + 600), NOW)
    replays.note(a_proof("early", until=NOW + 10), NOW)

    assert replays.note(a_proof("new"), NOW + 11)
    assert not replays.note(a_proof("late", until=NOW + 600), NOW + 12)
