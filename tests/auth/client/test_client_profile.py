"""The client metadata that a client registers with, and the checks of its URLs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.auth.client.flow_script import REDIRECT_URI, SERVER, issuer_with
from trio_mcp.auth._urls import is_loopback
from trio_mcp.auth.client._registration import (
    ClientProfile,
    application_type_of,
    check_metadata_url,
    check_redirect_uri,
)

PROFILE = ClientProfile(
    identity="me",
    account="",
    registration=None,
    metadata_url=None,
    redirect_uri=None,
    names={"client_name": "Me", "client_uri": "https://me.example"},
)


def registration_document(redirect_uri: str = REDIRECT_URI, *, dpop: bool = False, **server: Any) -> dict[str, Any]:
    return PROFILE.introduction(issuer_with(**server).server, redirect_uri, ("read", "write"), dpop=dpop)


@pytest.mark.requirement("C.2-8")
def test_the_client_metadata_contain_the_kind_of_the_application_and_its_grants() -> None:
    assert registration_document() == {
        "client_name": "Me",
        "client_uri": "https://me.example",
        "redirect_uris": [REDIRECT_URI],
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": "read write",
    }


def test_a_client_without_scopes_registers_no_scope() -> None:
    assert "scope" not in PROFILE.introduction(SERVER, REDIRECT_URI, None, dpop=False)


def test_a_client_with_bound_tokens_registers_that() -> None:
    assert registration_document(dpop=True)["dpop_bound_access_tokens"] is True


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        (None, ["authorization_code", "refresh_token"]),
        (("authorization_code", "refresh_token"), ["authorization_code", "refresh_token"]),
        (("authorization_code",), ["authorization_code"]),
    ],
)
def test_a_client_registers_no_refresh_grant_at_a_server_without_refresh_tokens(
    listed: tuple[str, ...] | None, wanted: list[str]
) -> None:
    assert registration_document(grant_types_supported=listed)["grant_types"] == wanted


@pytest.mark.parametrize(
    ("redirect_uri", "listed", "method"),
    [
        (REDIRECT_URI, None, "none"),
        (REDIRECT_URI, ("client_secret_basic", "none"), "none"),
        (REDIRECT_URI, ("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (REDIRECT_URI, ("client_secret_post",), "client_secret_post"),
        (REDIRECT_URI, ("private_key_jwt",), "none"),
        (REDIRECT_URI, (), "none"),
        ("https://app.example/callback", None, "client_secret_basic"),
        ("https://app.example/callback", ("none", "client_secret_post"), "client_secret_post"),
        ("https://app.example/callback", ("none",), "none"),
    ],
)
def test_a_client_registers_a_method_that_it_and_the_server_support(
    redirect_uri: str, listed: tuple[str, ...] | None, method: str
) -> None:
    members = registration_document(redirect_uri, token_endpoint_auth_methods_supported=listed)

    assert members["token_endpoint_auth_method"] == method


@pytest.mark.requirement("C.2-8")
@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [
        ("http://127.0.0.1:1/callback", "native"),
        ("http://localhost/callback", "native"),
        ("http://[::1]:1/callback", "native"),
        ("https://app.example/callback", "web"),
    ],
)
def test_the_application_type_follows_from_the_redirect_uri(redirect_uri: str, kind: str) -> None:
    check_redirect_uri(redirect_uri)

    assert application_type_of(redirect_uri) == kind


@pytest.mark.requirement("C.2-16")
@pytest.mark.parametrize(
    "redirect_uri",
    [
        "",
        "callback",
        "http://app.example/callback",
        "https://app.example/callback#here",
        "https://me@app.example/callback",
        "com.example.app:/callback",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ],
)
def test_an_invalid_redirect_uri_is_refused(redirect_uri: str) -> None:
    with pytest.raises(ValueError, match="redirect_uri="):
        check_redirect_uri(redirect_uri)


@pytest.mark.parametrize(
    ("redirect_uri", "answer"),
    [
        ("http://127.0.0.1/callback", True),
        ("https://localhost/callback", False),
        ("https://app.example/callback", False),
        ("com.example.app:/callback", False),
    ],
)
def test_a_loopback_redirect_uri_is_http_on_the_local_host(redirect_uri: str, answer: bool) -> None:
    assert is_loopback(redirect_uri) is answer


def test_the_url_of_a_client_metadata_document_is_https_and_has_a_path() -> None:
    check_metadata_url("https://app.example/client.json")


@pytest.mark.requirement("C.2-7")
@pytest.mark.parametrize(
    "url",
    [
        "https://app.example",
        "https://app.example/",
        "http://app.example/client.json",
        "http://localhost/client.json",
        "https://app.example/client.json#x",
        "https://me@app.example/client.json",
        "client.json",
    ],
)
def test_an_invalid_url_of_a_client_metadata_document_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="client_metadata_url="):
        check_metadata_url(url)
