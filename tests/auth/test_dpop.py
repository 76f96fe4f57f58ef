"""Proofs of possession: each holds for one request, and shows no more of the key than everybody may know."""

from __future__ import annotations

import base64
import hashlib
import json
from itertools import count
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from trio_mcp.auth._dpop import DpopKey, DpopProver

NOW = 1_700_000_000.9
URL = "https://as.example/token"


@pytest.fixture(scope="module")
def key() -> DpopKey:
    return DpopKey.generate()


def read(proof: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a proof, whose signature is that of the key in it."""
    header = json.loads(base64.urlsafe_b64decode(proof.partition(".")[0] + "=="))
    token = jwt.decode(proof, ECKey.import_key(header["jwk"]), algorithms=["ES256"])
    return header, dict(token.claims)


def test_a_proof_is_signed_by_the_key_that_it_shows_the_public_half_of(key: DpopKey) -> None:
    header, claims = read(key.proof("POST", URL, now=NOW))

    public = {name: value for name, value in json.loads(key.to_jwk()).items() if name != "d"}
    assert header == {"typ": "dpop+jwt", "alg": "ES256", "jwk": public}
    assert claims == {"jti": claims["jti"], "htm": "POST", "htu": URL, "iat": 1_700_000_000}


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://x.example/mcp?a=b#c", "https://x.example/mcp"),
        ("HTTPS://X.example:443", "https://x.example/"),
        ("http://[::1]:8000/A%2fb/", "http://[::1]:8000/A%2fb/"),
    ],
)
def test_a_proof_names_its_target_without_query_and_fragment(key: DpopKey, url: str, target: str) -> None:
    assert read(key.proof("GET", url, now=NOW))[1]["htu"] == target


def test_a_proof_that_goes_with_a_token_names_its_digest_and_the_nonce_that_was_asked_for(key: DpopKey) -> None:
    claims = read(key.proof("POST", URL, now=NOW, token="secret", nonce="n-1"))[1]

    digest = base64.urlsafe_b64encode(hashlib.sha256(b"secret").digest()).decode().rstrip("=")
    assert claims["ath"] == digest
    assert claims["nonce"] == "n-1"


def test_no_proof_is_made_twice(key: DpopKey) -> None:
    identifiers = {read(key.proof("POST", URL, now=NOW))[1]["jti"] for _ in range(5)}

    assert len(identifiers) == 5
    assert all(len(identifier) >= 16 for identifier in identifiers)


def test_there_is_no_proof_for_what_is_no_url(key: DpopKey) -> None:
    with pytest.raises(ValueError, match="a proof needs an http or https URL"):
        key.proof("POST", "as.example/token?secret", now=NOW)


def test_a_key_comes_back_from_what_was_stored(key: DpopKey) -> None:
    again = DpopKey.from_jwk(key.to_jwk())

    assert again.thumbprint == key.thumbprint
    assert read(again.proof("POST", URL, now=NOW))[0] == read(key.proof("POST", URL, now=NOW))[0]


def test_the_thumbprint_is_that_of_rfc_7638(key: DpopKey) -> None:
    jwk = json.loads(key.to_jwk())
    canonical = json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))

    digest = base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).decode().rstrip("=")
    assert key.thumbprint == digest
    assert DpopKey.generate().thumbprint != digest


def test_neither_key_nor_proofs_show_a_secret(key: DpopKey) -> None:
    proofs = DpopProver(key)
    proofs.note(URL, {"dpop-nonce": "n-secret"})

    for shown in (repr(key), repr(proofs), str(key)):
        assert json.loads(key.to_jwk())["d"] not in shown
        assert "secret" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "[]",
        "null",
        "{}",
        '{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"secret"}',
        '{"kty":"EC","crv":7,"x":[],"y":{},"d":"secret"}',
        '{"kty":"EC","crv":"secret","x":"AA","y":"AA","d":"AA"}',
        json.dumps(OctKey.generate_key(256).as_dict()),
        json.dumps(ECKey.generate_key("P-256").as_dict(private=False)),
        json.dumps(ECKey.generate_key("P-384").as_dict(private=True)),
        '"\ud800"',
    ],
    ids=map(str, count()),  # the keys are new each time
)
def test_what_is_no_private_key_of_the_curve_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ValueError, match="not a private key of the curve P-256, as a JWK") as caught:
        DpopKey.from_jwk(text)

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_proofs_carry_the_newest_nonce_of_the_origin_that_they_go_to(key: DpopKey) -> None:
    proofs = DpopProver(key)

    assert "nonce" not in read(proofs.proof("POST", URL, now=NOW))[1]
    assert proofs.note(URL, {"dpop-nonce": "n-1"})
    assert proofs.note("https://AS.example:443/other?q", {"dpop-nonce": "n-2"})
    assert proofs.note("https://x.example/mcp", {"dpop-nonce": "n-3"})

    assert read(proofs.proof("POST", URL, now=NOW))[1]["nonce"] == "n-2"
    claims = read(proofs.proof("GET", "https://x.example/", now=NOW, token="t"))[1]
    assert (claims["nonce"], "ath" in claims, claims["htm"]) == ("n-3", True, "GET")
    assert "nonce" not in read(proofs.proof("POST", "https://x.example:8443/", now=NOW))[1]


def test_a_nonce_that_is_known_is_not_new(key: DpopKey) -> None:
    proofs = DpopProver(key)

    noted = [proofs.note(URL, {"dpop-nonce": nonce}) for nonce in ("a", "a", "b", "a")]

    assert noted == [True, False, True, True]


@pytest.mark.parametrize("headers", [{}, *({"dpop-nonce": nonce} for nonce in ("", "a, b", 'a"', "é", "a" * 1025))])
def test_what_is_no_nonce_leaves_the_one_before(key: DpopKey, headers: dict[str, str]) -> None:
    proofs = DpopProver(key)
    proofs.note(URL, {"dpop-nonce": "good"})

    assert not proofs.note(URL, headers)
    assert proofs.nonces == {"https://as.example": "good"}


def test_the_nonces_of_a_bounded_number_of_origins_are_kept_those_heard_of_last(key: DpopKey) -> None:
    proofs = DpopProver(key)
    for number in (*range(8), 0, 8):
        proofs.note(f"https://x{number}.example/", {"dpop-nonce": "n"})

    assert list(proofs.nonces) == [f"https://x{number}.example" for number in (2, 3, 4, 5, 6, 7, 0, 8)]
