"""A client asks for the scopes that it needs, and for no others."""

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
    """Make a place whose protected server, and whose authorization server, list scopes."""
    issuer = "https://as.example"
    resource = ResourceMetadata(resource="https://x.example", authorization_servers=(issuer,), scopes_supported=listed)
    server = ServerMetadata(issuer=issuer, token_endpoint=f"{issuer}/token", scopes_supported=at_server)
    return TokenIssuer(url="https://x.example", resource=resource, server=server)


def challenge(scope: str) -> Challenge:
    return Challenge("Bearer", {"scope": scope})


@pytest.mark.parametrize("scope", ["a", "mcp:write", "https://x.example/scope", "!#[]~", "x" * 256])
def test_a_scope_is_what_oauth_calls_one(scope: str) -> None:
    assert is_scope(scope)


@pytest.mark.parametrize("scope", ["", "a b", 'a"', "a\\", "é", "a\n", "\x7f", "x" * 257])
def test_other_texts_are_no_scopes(scope: str) -> None:
    assert not is_scope(scope)


def test_the_scopes_of_a_text_stand_in_order_without_those_that_are_malformed_or_come_twice() -> None:
    assert read_scopes(" b  a\tb é a:c ") == ("b", "a", "a:c")
    assert read_scopes("") == ()


@pytest.mark.requirement("C.2-12")
def test_the_challenge_comes_before_what_the_server_lists() -> None:
    assert first_scopes(None, challenge("mcp:basic other"), token_issuer(("decoy",)), offline=False) == (
        "mcp:basic",
        "other",
    )


@pytest.mark.requirement("C.2-12")
@pytest.mark.parametrize("challenged", [None, Challenge("Bearer"), challenge(" ")])
def test_without_a_challenge_it_is_all_that_the_server_lists(challenged: Challenge | None) -> None:
    assert first_scopes(None, challenged, token_issuer(("b", "a", "b")), offline=False) == ("b", "a")


@pytest.mark.requirement("C.2-12")
@pytest.mark.parametrize("listed", [None, (), ("no scope", "")])
def test_without_named_scopes_none_are_requested(listed: tuple[str, ...] | None) -> None:
    assert first_scopes(None, None, token_issuer(listed), offline=False) is None


def test_where_the_server_has_no_metadata_none_is_asked_for() -> None:
    server = ServerMetadata(issuer="https://x.example", token_endpoint="https://x.example/token")

    assert (
        first_scopes(None, None, TokenIssuer(url="https://x.example", resource=None, server=server), offline=True)
        is None
    )


def test_what_the_user_has_configured_is_asked_for_with_what_is_needed_and_in_place_of_all_that_is_listed() -> None:
    assert first_scopes(["a"], None, token_issuer(("a", "b")), offline=False) == ("a",)
    assert first_scopes(["a"], challenge("b a"), token_issuer(("c",)), offline=False) == ("a", "b")
    assert first_scopes([], None, token_issuer(("c",)), offline=False) == ("c",)


@pytest.mark.requirement("C.2-14")
def test_offline_access_is_asked_for_where_the_authorization_server_lists_it_and_it_is_of_use() -> None:
    willing = token_issuer(("a",), at_server=("openid", "offline_access"))

    assert first_scopes(None, None, willing, offline=True) == ("a", "offline_access")
    assert first_scopes(None, challenge("offline_access b"), willing, offline=True) == ("offline_access", "b")
    assert first_scopes(None, None, willing, offline=False) == ("a",)
    assert first_scopes(None, None, token_issuer(("a",), at_server=("openid",)), offline=True) == ("a",)
    assert first_scopes(None, None, token_issuer(("a",)), offline=True) == ("a",)


@pytest.mark.requirement("C.2-14")
def test_offline_access_is_not_asked_for_because_the_protected_server_lists_it() -> None:
    assert first_scopes(None, None, token_issuer(("a", "offline_access")), offline=True) == ("a",)
    assert first_scopes(None, None, token_issuer(("offline_access",)), offline=True) is None


def test_offline_access_is_never_asked_for_alone_in_place_of_what_is_given_to_all() -> None:
    assert first_scopes(None, None, token_issuer(at_server=("offline_access",)), offline=True) is None


def test_of_a_flood_of_scopes_a_bounded_number_is_asked_for() -> None:
    asked = first_scopes(None, None, token_issuer(tuple(f"s{number}" for number in range(10_000))), offline=False)

    assert asked == tuple(f"s{number}" for number in range(200))


@pytest.mark.requirement("C.2-13")
def test_after_a_refusal_both_what_was_asked_for_and_what_is_needed_are_asked_for() -> None:
    assert wider_scopes(("a", "b"), challenge("c b")) == ("a", "b", "c")
    assert wider_scopes(None, challenge("c")) == ("c",)
    assert wider_scopes(("a",), Challenge("Bearer", {"error": "insufficient_scope"})) == ("a",)
    assert wider_scopes(None, Challenge("Bearer")) == ()
