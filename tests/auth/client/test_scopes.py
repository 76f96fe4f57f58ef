"""The scopes that a client requests."""

from __future__ import annotations

import pytest

from trio_mcp.auth._challenges import Challenge
from trio_mcp.auth.client import ServerMetadata
from trio_mcp.auth.client._discovery import (
    ResourceMetadata,
    TokenIssuer,
    first_scopes,
    is_scope,
    read_scopes,
    wider_scopes,
)


def token_issuer(listed: tuple[str, ...] | None = None, *, at_server: tuple[str, ...] | None = None) -> TokenIssuer:
    """Return a token issuer whose protected server and authorization server list these scopes."""
    issuer = "https://as.example"
    resource = ResourceMetadata(resource="https://x.example", authorization_servers=(issuer,), scopes_supported=listed)
    server = ServerMetadata(issuer=issuer, token_endpoint=f"{issuer}/token", scopes_supported=at_server)
    return TokenIssuer(url="https://x.example", resource=resource, server=server)


def challenge(scope: str) -> Challenge:
    return Challenge("Bearer", {"scope": scope})


@pytest.mark.parametrize("scope", ["a", "mcp:write", "https://x.example/scope", "!#[]~", "x" * 256])
def test_a_valid_scope_is_recognized(scope: str) -> None:
    assert is_scope(scope)


@pytest.mark.parametrize("scope", ["", "a b", 'a"', "a\\", "é", "a\n", "\x7f", "x" * 257])
def test_an_invalid_scope_is_recognized(scope: str) -> None:
    assert not is_scope(scope)


def test_scopes_are_read_in_order_without_malformed_and_duplicate_ones() -> None:
    assert read_scopes(" b  a\tb é a:c ") == ("b", "a", "a:c")
    assert read_scopes("") == ()


@pytest.mark.requirement("C.2-12")
def test_the_scopes_of_the_challenge_come_before_the_scopes_of_the_metadata() -> None:
    assert first_scopes(None, challenge("mcp:basic other"), token_issuer(("decoy",)), offline=False) == (
        "mcp:basic",
        "other",
    )


@pytest.mark.requirement("C.2-12")
@pytest.mark.parametrize("challenged", [None, Challenge("Bearer"), challenge(" ")])
def test_without_a_challenge_all_scopes_of_the_metadata_are_requested(challenged: Challenge | None) -> None:
    assert first_scopes(None, challenged, token_issuer(("b", "a", "b")), offline=False) == ("b", "a")


@pytest.mark.requirement("C.2-12")
@pytest.mark.parametrize("listed", [None, (), ("no scope", "")])
def test_without_named_scopes_none_are_requested(listed: tuple[str, ...] | None) -> None:
    assert first_scopes(None, None, token_issuer(listed), offline=False) is None


def test_no_scopes_are_requested_from_a_server_without_metadata() -> None:
    server = ServerMetadata(issuer="https://x.example", token_endpoint="https://x.example/token")

    assert (
        first_scopes(None, None, TokenIssuer(url="https://x.example", resource=None, server=server), offline=True)
        is None
    )


def test_configured_scopes_are_requested_with_the_required_ones_and_instead_of_the_listed_ones() -> None:
    assert first_scopes(["a"], None, token_issuer(("a", "b")), offline=False) == ("a",)
    assert first_scopes(["a"], challenge("b a"), token_issuer(("c",)), offline=False) == ("a", "b")
    assert first_scopes([], None, token_issuer(("c",)), offline=False) == ("c",)


@pytest.mark.requirement("C.2-14")
def test_offline_access_is_requested_if_the_authorization_server_lists_it_and_refresh_is_supported() -> None:
    willing = token_issuer(("a",), at_server=("openid", "offline_access"))

    assert first_scopes(None, None, willing, offline=True) == ("a", "offline_access")
    assert first_scopes(None, challenge("offline_access b"), willing, offline=True) == ("offline_access", "b")
    assert first_scopes(None, None, willing, offline=False) == ("a",)
    assert first_scopes(None, None, token_issuer(("a",), at_server=("openid",)), offline=True) == ("a",)
    assert first_scopes(None, None, token_issuer(("a",)), offline=True) == ("a",)


@pytest.mark.requirement("C.2-14")
def test_offline_access_is_not_requested_because_the_protected_server_lists_it() -> None:
    assert first_scopes(None, None, token_issuer(("a", "offline_access")), offline=True) == ("a",)
    assert first_scopes(None, None, token_issuer(("offline_access",)), offline=True) is None


def test_offline_access_is_never_requested_as_the_only_scope() -> None:
    assert first_scopes(None, None, token_issuer(at_server=("offline_access",)), offline=True) is None


def test_the_number_of_requested_scopes_is_bounded() -> None:
    scopes = first_scopes(None, None, token_issuer(tuple(f"s{number}" for number in range(10_000))), offline=False)

    assert scopes == tuple(f"s{number}" for number in range(200))


@pytest.mark.requirement("C.2-13")
def test_after_a_refusal_the_previous_and_the_required_scopes_are_requested() -> None:
    assert wider_scopes(("a", "b"), challenge("c b")) == ("a", "b", "c")
    assert wider_scopes(None, challenge("c")) == ("c",)
    assert wider_scopes(("a",), Challenge("Bearer", {"error": "insufficient_scope"})) == ("a",)
    assert wider_scopes(None, Challenge("Bearer")) == ()
