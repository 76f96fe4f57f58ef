"""The parser of server metadata: the members that are read, and the messages about faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth.client import ServerMetadata
from trio_mcp.auth.client._discovery import ResourceMetadata, TokenIssuer, read_resource_metadata, read_server_metadata
from trio_mcp.wire import JsonObject, encode

URL = "https://x.example/.well-known/thing?key=secret"
RESOURCE: JsonObject = {"resource": "https://x.example/mcp", "authorization_servers": ["https://as.example"]}
SERVER: JsonObject = {"issuer": "https://as.example", "token_endpoint": "https://as.example/token"}


def test_the_metadata_of_a_protected_server_are_read_unchanged() -> None:
    members = {
        "resource": "HTTPS://X.example/mcp/",
        "authorization_servers": ["https://b.example/", "https://a.example"],
        "scopes_supported": ["b", "a", "b"],
        "dpop_bound_access_tokens_required": True,
        "bearer_methods_supported": 7,
    }

    assert read_resource_metadata(encode(members), URL) == ResourceMetadata(
        resource="HTTPS://X.example/mcp/",
        authorization_servers=("https://b.example/", "https://a.example"),
        scopes_supported=("b", "a", "b"),
        dpop_bound_access_tokens_required=True,
    )


def test_the_resource_and_its_authorization_servers_are_the_only_required_members() -> None:
    read = read_resource_metadata(encode({**RESOURCE, "scopes_supported": None}), URL)

    assert read == ResourceMetadata(resource="https://x.example/mcp", authorization_servers=("https://as.example",))


def test_the_metadata_of_an_authorization_server_are_read_unchanged() -> None:
    lists: dict[str, list[str]] = {
        "scopes_supported": ["openid", "offline_access"],
        "grant_types_supported": ["authorization_code"],
        "token_endpoint_auth_methods_supported": ["none"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
        "code_challenge_methods_supported": ["S256"],
        "dpop_signing_alg_values_supported": [],
    }
    endpoints: JsonObject = {
        "authorization_endpoint": "https://as.example/authorize?tenant=1",
        "registration_endpoint": "https://as.example/register",
    }
    flags: JsonObject = {
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }

    read = read_server_metadata(encode({**SERVER, **lists, **endpoints, **flags, "is_assumed": True}), URL)

    tuples: JsonObject = {name: tuple(values) for name, values in lists.items()}
    assert read == ServerMetadata(**SERVER, **endpoints, **flags, **tuples)


def test_a_null_counts_as_a_missing_member() -> None:
    optional = ["authorization_endpoint", "scopes_supported", "client_id_metadata_document_supported"]

    assert read_server_metadata(encode({**SERVER, **dict.fromkeys(optional)}), URL) == ServerMetadata(**SERVER)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"resource": None}, "it has no member 'resource'"),
        ({"resource": ["https://x.example"]}, "its member 'resource' is not a string"),
        ({"authorization_servers": None}, "its member 'authorization_servers' is missing or empty"),
        ({"authorization_servers": []}, "its member 'authorization_servers' is missing or empty"),
        (
            {"authorization_servers": "https://as.example"},
            "its member 'authorization_servers' is not a list of strings",
        ),
        ({"authorization_servers": ["https://as.example", 1]}, "its member 'authorization_servers' is not a list of"),
        ({"scopes_supported": "a b"}, "its member 'scopes_supported' is not a list of strings"),
        ({"scopes_supported": [None]}, "its member 'scopes_supported' is not a list of strings"),
        ({"dpop_bound_access_tokens_required": "yes"}, "'dpop_bound_access_tokens_required' is neither true nor false"),
    ],
)
def test_a_fault_in_the_metadata_of_a_protected_server_is_reported_with_the_member_and_the_url(
    changed: JsonObject, fault: str
) -> None:
    with pytest.raises(AuthorizationFailed) as caught:
        read_resource_metadata(encode({**RESOURCE, **changed}), URL)

    start = "the protected-resource metadata at https://x.example/.well-known/thing cannot be used: "
    assert str(caught.value).startswith(start)
    assert fault in str(caught.value)
    assert caught.value.error is None


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"issuer": None}, "it has no member 'issuer'"),
        ({"issuer": 1}, "its member 'issuer' is not a string"),
        ({"token_endpoint": None}, "it has no member 'token_endpoint'"),
        ({"authorization_endpoint": {}}, "its member 'authorization_endpoint' is not a string"),
        ({"registration_endpoint": False}, "its member 'registration_endpoint' is not a string"),
        ({"code_challenge_methods_supported": "S256"}, "its member 'code_challenge_methods_supported' is not a list"),
        ({"client_id_metadata_document_supported": 1}, "'client_id_metadata_document_supported' is neither true nor"),
        (
            {"authorization_response_iss_parameter_supported": "true"},
            "its member 'authorization_response_iss_parameter_supported' is neither true nor false",
        ),
    ],
)
def test_a_fault_in_the_metadata_of_an_authorization_server_is_reported_with_the_member_and_the_url(
    changed: JsonObject, fault: str
) -> None:
    with pytest.raises(AuthorizationFailed) as caught:
        read_server_metadata(encode({**SERVER, **changed}), URL)

    start = "the authorization-server metadata at https://x.example/.well-known/thing cannot be used: "
    assert str(caught.value).startswith(start)
    assert fault in str(caught.value)


@pytest.mark.parametrize("read", [read_resource_metadata, read_server_metadata])
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "it is not JSON: "),
        (b"<!doctype html>", "it is not JSON: "),
        (b'{"resource": "\xff"}', "it is not JSON: "),
        (b"[" * 100_000, "it is not JSON: "),
        (b"[]", "it is not a JSON object"),
        (b'"https://x.example"', "it is not a JSON object"),
        (b"null", "it is not a JSON object"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_reported(
    read: Callable[[bytes, str], Any], body: bytes, fault: str
) -> None:
    with pytest.raises(AuthorizationFailed) as caught:
        read(body, URL)

    assert f"at https://x.example/.well-known/thing cannot be used: {fault}" in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.requirement("C.2-11")
def test_the_identifier_of_a_server_is_copied_byte_for_byte_from_its_metadata() -> None:
    resource = read_resource_metadata(encode({**RESOURCE, "resource": "HTTPS://X.example:443/mcp/"}), URL)
    server = ServerMetadata(**SERVER)

    assert TokenIssuer(url=URL, resource=resource, server=server).identifier == "HTTPS://X.example:443/mcp/"
    assert TokenIssuer(url=URL, resource=None, server=server).identifier is None
