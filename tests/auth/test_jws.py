from __future__ import annotations

import hashlib
import hmac
from itertools import count
from typing import Any

import pytest
from joserfc.jwk import ECKey, Key, OctKey, RSAKey

from tests.auth.signed_tokens import b64, ec_key, okp_key, pem_of, raw_jws, rsa_key, signed
from trio_mcp.auth import InvalidToken
from trio_mcp.auth._jwt import ASYMMETRIC, SignedJson, decode_base64url, is_signed_by, public_key, read_jws


def read(text: str) -> SignedJson:
    return read_jws(text, algorithms=ASYMMETRIC, max_chars=4096)


def public(key: Key) -> Key:
    return public_key(key.as_dict(private=False))


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("ES256", ec_key()),
        ("ES384", ec_key("384", "P-384")),
        ("ES512", ec_key("521", "P-521")),
        ("RS256", rsa_key()),
        ("PS512", rsa_key()),
        ("Ed25519", okp_key()),
        ("EdDSA", okp_key()),
    ],
)
def test_a_signed_token_is_read_and_its_signature_is_verified(algorithm: str, key: Key) -> None:
    text = signed({"alg": algorithm, "typ": "application/AT+jwt", "kid": "k"}, {"a": [1]}, key)

    read_back = read(text)

    assert read_back.payload == {"a": [1]}
    assert (read_back.algorithm, read_back.key_id, read_back.type) == (algorithm, "k", "at+jwt")
    assert is_signed_by(read_back, public(key))


def test_the_signature_of_another_key_is_refused() -> None:
    read_back = read(signed({"alg": "ES256"}, {}, ec_key("other")))

    assert not is_signed_by(read_back, public(ec_key()))


def test_a_signature_does_not_cover_a_changed_payload() -> None:
    header, _, signature = signed({"alg": "ES256"}, {"sub": "ann"}, ec_key()).split(".")

    assert not is_signed_by(read(f"{header}.{b64({'sub': 'bob'})}.{signature}"), public(ec_key()))


@pytest.mark.parametrize("key", [rsa_key(), ec_key("384", "P-384"), okp_key()])
def test_a_key_of_another_type_verifies_no_signature(key: Key) -> None:
    assert not is_signed_by(read(signed({"alg": "ES256"}, {}, ec_key())), public(key))


@pytest.mark.parametrize(
    "members", [{"use": "enc"}, {"alg": "ES384"}, {"key_ops": ["encrypt"]}], ids=["use", "alg", "key_ops"]
)
def test_a_key_for_another_use_verifies_no_signature(members: dict[str, Any]) -> None:
    key = public_key({**ec_key().as_dict(private=False), **members})

    assert not is_signed_by(read(signed({"alg": "ES256"}, {}, ec_key())), key)


def test_a_key_id_or_type_that_is_not_a_string_is_ignored() -> None:
    read_back = read(raw_jws({"alg": "ES256", "kid": 7, "typ": ["at+jwt"]}, {}, b"x"))

    assert (read_back.key_id, read_back.type) == (None, None)


def test_the_repr_contains_neither_the_payload_nor_the_signature() -> None:
    shown = repr(read(raw_jws({"alg": "ES256"}, {"sub": "ann"}, b"signature")))

    assert "ann" not in shown
    assert "signature" not in shown


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "three parts"),
        ("abc", "three parts"),
        ("a.b.c.d", "three parts"),
        ("a.b.c.d.e", "three parts"),
        ("x" * 5000, "more than 4096"),
        ("!.e30.eA", "header is not"),
        ("e30=.e30.eA", "header is not"),
        ("\u0661.e30.eA", "header is not"),
        (raw_jws(b"\xff", {}, b"x"), "header is not"),
        (raw_jws("nonsense", {}, b"x"), "header is not"),
        (raw_jws("[]", {}, b"x"), "header is not a JSON object"),
        (raw_jws('"alg"', {}, b"x"), "header is not a JSON object"),
        (raw_jws("[" * 1000, {}, b"x"), "header is not"),
        (raw_jws({"alg": "ES256"}, "7", b"x"), "payload is not a JSON object"),
        (raw_jws({"alg": "ES256"}, '{"exp": NaN}', b"x"), "payload is not"),
        (raw_jws({"alg": "ES256"}, '{"sub": "\\ud800"}', b"x"), "payload is not"),
        (raw_jws({}, {}, b"x"), "signed with None"),
        (raw_jws({"alg": ["ES256"]}, {}, b"x"), "not allowed"),
        (raw_jws({"alg": {"a": 1}}, {}, b"x"), "not allowed"),
        (raw_jws({"alg": "none"}, {}, b""), "'none', which is not allowed"),
        (raw_jws({"alg": "None"}, {}, b"x"), "not allowed"),
        (raw_jws({"alg": "nonexistent"}, {}, b"x"), "not allowed"),
        (raw_jws({"alg": "es256"}, {}, b"x"), "not allowed"),
        (raw_jws({"alg": "ES256", "crit": ["exp"], "exp": 1}, {}, b"x"), "extensions"),
        (raw_jws({"alg": "ES256", "b64": False}, {}, b"x"), "extensions"),
        (raw_jws({"alg": "ES256"}, {}, b""), "no signature"),
        (raw_jws({"alg": "ES256"}, {}, b"x")[:-1] + "B", "no signature"),
    ],
)
def test_a_malformed_jws_is_refused(text: str, cause: str) -> None:
    with pytest.raises(InvalidToken, match=cause):
        read(text)


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(InvalidToken, match="payload is not JSON: nested too deep"):
        read_jws(raw_jws({"alg": "ES256"}, f'{{"a": {DEEP}}}', b"x"), algorithms=ASYMMETRIC, max_chars=1_000_000)


def test_the_public_key_cannot_be_used_as_the_secret_of_a_symmetric_algorithm() -> None:
    pem = pem_of(rsa_key())
    head = f"{b64({'alg': 'HS256'})}.{b64({'sub': 'ann'})}"
    forged = f"{head}.{b64(hmac.new(pem, head.encode(), hashlib.sha256).digest())}"

    with pytest.raises(InvalidToken, match="'HS256', which is not allowed"):
        read(forged)


def test_only_the_algorithms_that_the_caller_allows_are_accepted() -> None:
    with pytest.raises(InvalidToken, match="'RS256', which is not allowed"):
        read_jws(signed({"alg": "RS256"}, {}, rsa_key()), algorithms=["ES256"], max_chars=4096)


@pytest.mark.parametrize("length", [1, 63, 65, 200])
def test_a_signature_of_the_wrong_length_is_refused(length: int) -> None:
    assert not is_signed_by(read(raw_jws({"alg": "ES256"}, {}, b"x" * length)), public(ec_key()))


def test_each_value_has_exactly_one_spelling_in_base64url() -> None:
    assert decode_base64url("eA") == b"x"
    assert decode_base64url("eB") is None  # the same byte, with different bits in the unused part
    assert decode_base64url("e") is None
    assert decode_base64url("eA==") is None
    assert decode_base64url("e A") is None
    assert decode_base64url("") == b""


PUBLIC: dict[str, Any] = {**ec_key().as_dict(private=False)}
RSA: dict[str, Any] = {**rsa_key().as_dict(private=False)}


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {"kty": "EC"},
        {"kty": ["EC"]},
        {**PUBLIC, "crv": "P-1"},
        {**PUBLIC, "crv": 7},
        {**PUBLIC, "x": PUBLIC["y"]},
        {**PUBLIC, "x": "!"},
        {**PUBLIC, "x": 7},
        {**PUBLIC, "use": ["sig"], "key_ops": ["verify"]},
        {**PUBLIC, "key_ops": 7},
        {**PUBLIC, "kid": {}},
        {**RSA, "n": 7},
        {**RSA, "n": "!"},
        {**RSA, "e": "!"},
        {**RSA, "n": b64(b"\xff" * 255)},
        {**RSA, "n": b64(b"\xff" * 1025)},
        {**RSA, "e": b64(b"\xff" * 9)},
        {**RSA, "e": ""},
        {"kty": "OKP", "crv": "Ed25519", "x": b64(b"short")},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "eA"},
        dict(OctKey.generate_key(256).as_dict(private=True)),
        dict(ECKey.generate_key("P-256").as_dict(private=True)),
        {**RSA, "d": "eA"},
    ],
    ids=map(str, count()),  # the keys are new in each test run
)
def test_an_unusable_public_key_is_refused(jwk: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        public_key(jwk)


@pytest.mark.filterwarnings("ignore:Key size")  # of generating it here
def test_a_weak_rsa_key_is_refused() -> None:
    with pytest.raises(InvalidToken, match="of an unsupported size"):
        public_key(dict(RSAKey.generate_key(1024).as_dict(private=False)))
