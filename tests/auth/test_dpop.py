"""The proofs of possession that a client makes: each one is valid for one request and reveals only the public key."""

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
    """Return the header and the claims of a proof after checking its signature with the key in it."""
    header = json.loads(base64.urlsafe_b64decode(proof.partition(".")[0] + "=="))
    token = jwt.decode(proof, ECKey.import_key(header["jwk"]), algorithms=["ES256"])
    return header, dict(token.claims)


def test_a_proof_is_signed_by_the_key_whose_public_half_it_contains(key: DpopKey) -> None:
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


def test_a_proof_for_a_token_contains_the_digest_of_the_token_and_the_required_nonce(key: DpopKey) -> None:
    claims = read(key.proof("POST", URL, now=NOW, token="secret", nonce="n-1"))[1]

    digest = base64.urlsafe_b64encode(hashlib.sha256(b"secret").digest()).decode().rstrip("=")
    assert claims["ath"] == digest
    assert claims["nonce"] == "n-1"


def test_every_proof_is_different(key: DpopKey) -> None:
    identifiers = {read(key.proof("POST", URL, now=NOW))[1]["jti"] for _ in range(5)}

    assert len(identifiers) == 5
    assert all(len(identifier) >= 16 for identifier in identifiers)


def test_a_proof_for_an_invalid_url_is_refused(key: DpopKey) -> None:
    with pytest.raises(ValueError, match="a proof needs an http or https URL"):
        key.proof("POST", "as.example/token?secret", now=NOW)


def test_a_stored_key_is_restored(key: DpopKey) -> None:
    again = DpopKey.from_jwk(key.to_jwk())

    assert again.thumbprint == key.thumbprint
    assert read(again.proof("POST", URL, now=NOW))[0] == read(key.proof("POST", URL, now=NOW))[0]


def test_the_thumbprint_is_computed_as_in_rfc_7638(key: DpopKey) -> None:
    jwk = json.loads(key.to_jwk())
    canonical = json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))

    digest = base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).decode().rstrip("=")
    assert key.thumbprint == digest
    assert DpopKey.generate().thumbprint != digest


def test_the_repr_of_a_key_and_of_a_prover_contains_no_secret(key: DpopKey) -> None:
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
    ids=map(str, count()),  # the keys are new in each test run
)
def test_an_invalid_private_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="not a private key of the curve P-256, as a JWK") as caught:
        DpopKey.from_jwk(text)

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_proof_carries_the_newest_nonce_of_the_origin_of_its_request(key: DpopKey) -> None:
    proofs = DpopProver(key)

    assert "nonce" not in read(proofs.proof("POST", URL, now=NOW))[1]
    assert proofs.note(URL, {"dpop-nonce": "n-1"})
    assert proofs.note("https://AS.example:443/other?q", {"dpop-nonce": "n-2"})
    assert proofs.note("https://x.example/mcp", {"dpop-nonce": "n-3"})

    assert read(proofs.proof("POST", URL, now=NOW))[1]["nonce"] == "n-2"
    claims = read(proofs.proof("GET", "https://x.example/", now=NOW, token="t"))[1]
    assert (claims["nonce"], "ath" in claims, claims["htm"]) == ("n-3", True, "GET")
    assert "nonce" not in read(proofs.proof("POST", "https://x.example:8443/", now=NOW))[1]


def test_a_known_nonce_is_not_reported_as_new(key: DpopKey) -> None:
    proofs = DpopProver(key)

    noted = [proofs.note(URL, {"dpop-nonce": nonce}) for nonce in ("a", "a", "b", "a")]

    assert noted == [True, False, True, True]


@pytest.mark.parametrize("headers", [{}, *({"dpop-nonce": nonce} for nonce in ("", "a, b", 'a"', "é", "a" * 1025))])
def test_an_invalid_nonce_does_not_replace_the_previous_one(key: DpopKey, headers: dict[str, str]) -> None:
    proofs = DpopProver(key)
    proofs.note(URL, {"dpop-nonce": "good"})

    assert not proofs.note(URL, headers)
    assert proofs.nonces == {"https://as.example": "good"}


def test_the_nonces_of_the_most_recent_origins_are_kept_up_to_a_bound(key: DpopKey) -> None:
    proofs = DpopProver(key)
    for number in (*range(8), 0, 8):
        proofs.note(f"https://x{number}.example/", {"dpop-nonce": "n"})

    assert list(proofs.nonces) == [f"https://x{number}.example" for number in (2, 3, 4, 5, 6, 7, 0, 8)]
