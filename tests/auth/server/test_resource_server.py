from __future__ import annotations

import json
from typing import Any

import pytest

from tests.auth.signed_tokens import ISSUER, RESOURCE, Clock, Issuer
from trio_mcp.auth import IntrospectionVerifier, JwtVerifier, Registration, ResourceServer
from trio_mcp.testing import AsgiEngine, AuthorizationServer


def server(resource: str = RESOURCE, **options: Any) -> ResourceServer:
    settings: dict[str, Any] = {"resource": resource, "issuers": [ISSUER], **options}
    return ResourceServer(**settings)


def document(**options: Any) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(server(**options).document())
    return members


def test_the_metadata_contain_the_required_members() -> None:
    members = document(dpop="off")

    assert members == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.requirement("C.3-5")
def test_the_metadata_contain_all_configured_members() -> None:
    members = document(
        scopes=["read"],
        scopes_supported=["read", "write", "offline_access"],
        name="Files",
        documentation="https://api.example/docs",
        dpop="required",
    )

    assert members.pop("dpop_signing_alg_values_supported")[0] == "ES256"
    assert members == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["read", "write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Files",
        "resource_documentation": "https://api.example/docs",
        "dpop_bound_access_tokens_required": True,
    }


def test_the_supported_scopes_default_to_the_scopes_of_every_request() -> None:
    assert document(scopes=["read"])["scopes_supported"] == ["read"]
    assert "scopes_supported" not in document(scopes=["read"], scopes_supported=[])


def test_bound_tokens_may_be_accepted_without_being_required() -> None:
    members = document()

    assert "none" not in members["dpop_signing_alg_values_supported"]
    assert not any(name.startswith("HS") for name in members["dpop_signing_alg_values_supported"])
    assert "dpop_bound_access_tokens_required" not in members


@pytest.mark.parametrize(
    ("resource", "url", "paths"),
    [
        (
            "https://api.example/mcp",
            "https://api.example/.well-known/oauth-protected-resource/mcp",
            ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"),
        ),
        (
            "https://api.example",
            "https://api.example/.well-known/oauth-protected-resource",
            ("/.well-known/oauth-protected-resource",),
        ),
        (
            "https://api.example/",
            "https://api.example/.well-known/oauth-protected-resource",
            ("/.well-known/oauth-protected-resource",),
        ),
        (
            "http://localhost:8000/a%20b",
            "http://localhost:8000/.well-known/oauth-protected-resource/a%20b",
            ("/.well-known/oauth-protected-resource/a b", "/.well-known/oauth-protected-resource"),
        ),
    ],
)
@pytest.mark.requirement("C.3-2")
def test_the_metadata_are_at_the_urls_of_the_specification(resource: str, url: str, paths: tuple[str, ...]) -> None:
    protected = server(resource)

    assert protected.metadata_url == url
    assert protected.metadata_paths == paths


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"resource": "http://api.example/mcp"}, "the resource 'http://api.example/mcp' is .*without TLS"),
        ({"resource": "/mcp"}, "the resource '/mcp' is not an http or https URL"),
        ({"resource": "https://api.example/mcp#part"}, "a fragment"),
        ({"resource": "https://api.example/mcp?a=b"}, "has a query"),
        ({"issuers": []}, "issuers: pass at least one"),
        ({"issuers": [ISSUER, ISSUER]}, "without duplicates"),
        ({"issuers": ISSUER}, "pass a list of strings"),
        ({"issuers": ["http://as.example"]}, "the issuer 'http://as.example' is .*without TLS"),
        ({"issuers": ["https://as.example?tenant=1"]}, "has a query"),
        ({"scopes": "read"}, "pass a list of strings"),
        ({"scopes": ["read write"]}, "'read write' is not a scope"),
        ({"scopes": [""]}, "'' is not a scope"),
        ({"scopes": ["offline_access"]}, "offline_access"),
        ({"scopes_supported": ['re"ad']}, "is not a scope"),
        ({"implied_scopes": {"ad min": ["read"]}}, "'ad min' is not a scope"),
        ({"implied_scopes": {"admin": ["re ad"]}}, "'re ad' is not a scope"),
        ({"implied_scopes": {"admin": "read"}}, "pass a list of strings"),
        ({"audiences": []}, "audiences: pass at least one"),
        ({"audiences": RESOURCE}, "pass a list of strings"),
        ({"dpop": "maybe"}, "dpop='maybe': must be one of allowed, required, off"),
        (
            {"issuers": [ISSUER, "https://b.example"], "verifier": JwtVerifier(jwks_uri=f"{ISSUER}/jwks")},
            "pass the URL of each one",
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_invalid_options_are_refused(options: dict[str, Any], cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        server(**options)


def test_an_engine_in_place_of_its_fetch_is_refused() -> None:
    with pytest.raises(TypeError, match=r"fetch: expected an async function, such as AsgiEngine\(app\).fetch, and got"):
        server(fetch=AsgiEngine(AuthorizationServer(ISSUER)))


@pytest.mark.parametrize(
    ("resource", "accepted"),
    [
        ("https://api.example", {"https://api.example", "https://api.example/"}),
        ("https://api.example/", {"https://api.example", "https://api.example/"}),
        ("https://api.example/mcp", {"https://api.example/mcp"}),
        ("https://api.example/mcp/", {"https://api.example/mcp/"}),
        ("https://API.example:443/Mcp", {"https://API.example:443/Mcp", "https://api.example/Mcp"}),
    ],
)
def test_the_audience_of_a_token_may_be_any_equivalent_spelling_of_the_resource(
    resource: str, accepted: set[str]
) -> None:
    assert server(resource).accepted_audiences == accepted
    assert server(resource, audiences=["urn:files"]).accepted_audiences == {"urn:files"}


def test_trusted_and_local_hosts_need_no_tls() -> None:
    protected = server("http://api:8000/mcp", issuers=["http://keycloak:8080/realm"], trusted_hosts=["api", "keycloak"])

    assert isinstance(protected.verifier, JwtVerifier)
    assert tuple(protected.verifier.trusted_hosts) == ("api", "keycloak")
    assert server("http://127.0.0.1:8000/mcp", issuers=["http://localhost:9000"]).issuers == ("http://localhost:9000",)


def test_the_shipped_verifiers_take_over_the_settings_of_the_server() -> None:
    clock = Clock()
    introspection_verifier = IntrospectionVerifier(client=Registration("api", secret="s"))

    jwt, introspection = server(clock=clock).verifier, server(verifier=introspection_verifier, clock=clock).verifier

    assert isinstance(jwt, JwtVerifier)
    assert (jwt.issuers, jwt.clock) == ((ISSUER,), clock)
    assert isinstance(introspection, IntrospectionVerifier)
    assert (introspection.issuer, introspection.clock) == (ISSUER, clock)
    assert introspection_verifier.issuer is None


def test_a_custom_verifier_is_used_unchanged() -> None:
    class CustomVerifier:
        async def verify(self, token: str, fetch: object) -> Any: ...

    custom = CustomVerifier()

    assert server(verifier=custom).verifier is custom


def test_implied_scopes_are_resolved_transitively() -> None:
    protected = server(implied_scopes={"admin": ["write"], "write": ["read"], "loop": ["admin", "loop"]})

    assert protected.granted_by(["admin"]) == {"admin", "write", "read"}
    assert protected.granted_by(["loop", "other"]) == {"loop", "admin", "write", "read", "other"}
    assert protected.granted_by([]) == frozenset()


async def test_a_guard_fetches_with_the_custom_fetch_function() -> None:
    ours, theirs = Issuer(), Issuer()
    headers = {"authorization": f"Bearer {ours.token()}"}

    await server(clock=ours.clock).guard(ours).admit("POST", "/mcp", "", headers)
    await server(fetch=theirs, clock=ours.clock).guard(ours).admit("POST", "/mcp", "", headers)

    assert len(ours.calls) == len(theirs.calls) == 2


def test_the_repr_contains_no_secret_of_the_verifier() -> None:
    introspection_verifier = IntrospectionVerifier(client=Registration("api", secret="very secret"))

    assert "very secret" not in repr(server(verifier=introspection_verifier))
