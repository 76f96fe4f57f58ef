from __future__ import annotations

from typing import Any

import pytest

from trio_mcp.auth import InvalidToken, VerifiedToken
from trio_mcp.auth._jwt import read_claims


def test_the_claims_of_a_token_are_read() -> None:
    claims = {
        "sub": "ann",
        "client_id": "desk",
        "azp": "ignored",
        "aud": ["a", "b"],
        "scope": "read write",
        "exp": 10,
        "nbf": 2.5,
        "cnf": {"jkt": "thumb"},
        "extra": {"x": 1},
    }

    assert read_claims(claims, issuer="https://as.example") == VerifiedToken(
        issuer="https://as.example",
        subject="ann",
        client_id="desk",
        audiences=("a", "b"),
        scopes=frozenset({"read", "write"}),
        expires_at=10.0,
        not_before=2.5,
        key_thumbprint="thumb",
        claims=claims,
    )


def test_claims_that_a_token_lacks_are_none() -> None:
    assert read_claims({}, issuer="i") == VerifiedToken(
        issuer="i", subject=None, client_id=None, audiences=(), scopes=frozenset(), expires_at=None
    )


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": " a  b a "}, {"a", "b"}),
        ({"scope": "a\u00a0b\tc"}, {"a\u00a0b\tc"}),
        ({"scope": ["a b", "c"]}, {"a", "b", "c"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": "a", "scp": ["b"]}, {"a"}),
        ({"scope": ""}, set[str]()),
    ],
)
def test_scopes_are_read_in_every_notation(claims: dict[str, Any], scopes: set[str]) -> None:
    assert read_claims(claims, issuer="i").scopes == scopes


def test_a_single_audience_and_a_single_authorized_party_are_read_as_well() -> None:
    token = read_claims({"aud": "a", "azp": "desk"}, issuer="i")

    assert (token.audiences, token.client_id) == (("a",), "desk")


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": 7},
        {"sub": ""},
        {"sub": "ann\nforged log line"},
        {"sub": "ann\x00"},
        {"sub": "a" * 1025},
        {"sub": ["ann"]},
        {"client_id": {}},
        {"azp": False},
        {"aud": 7},
        {"aud": ["a", 7]},
        {"aud": {"a": 1}},
        {"scope": 7},
        {"scp": [None]},
        {"exp": "10"},
        {"exp": True},
        {"exp": -1},
        {"exp": 10**400},
        {"exp": 1e300},
        {"exp": float("nan")},
        {"nbf": []},
        {"cnf": "thumb"},
        {"cnf": {}},
        {"cnf": {"jkt": 7}},
        {"cnf": {"x5t#S256": "certificate"}},
        {"cnf": {"jkt": "thumb", "x5t#S256": "certificate"}},
    ],
    ids=lambda claims: str(claims)[:40],
)
def test_a_token_with_claims_of_the_wrong_type_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken, match=r"^its '|bound to something"):
        read_claims(claims, issuer="i")
