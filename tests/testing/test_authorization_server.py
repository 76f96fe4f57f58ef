"""The development authorization server as an application: metadata, recorded requests, hooks and keys."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from trio_mcp.testing import AsgiEngine, AuthorizationServer, AuthorizationServerOptions, OAuthError
from trio_mcp.testing.authorization_server._options import Settings
from trio_mcp.transports import AsgiMessage

from .authorization_bench import BACK, ISSUER, RESOURCE, Bench, basic


def test_the_documentation_of_the_options_matches_the_parameters() -> None:
    described = {*AuthorizationServerOptions.__annotations__}
    taken = {field.name for field in attrs.fields(Settings)} - {"issuer"}

    assert described == taken


@pytest.mark.parametrize(
    "issuer", ["auth.test", "ftp://auth.test", "https://", "https://a.test/?x", "https://a.test/#x"]
)
def test_an_issuer_that_is_not_a_plain_url_is_refused(issuer: str) -> None:
    with pytest.raises(ValueError, match="an issuer must be a URL without a query and a fragment"):
        AuthorizationServer(issuer)


async def test_the_metadata_describe_the_capabilities_of_the_server() -> None:
    answer = await Bench(scopes=["read"]).get("/.well-known/oauth-authorization-server")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json == {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "registration_endpoint": f"{ISSUER}/register",
        "jwks_uri": f"{ISSUER}/jwks",
        "introspection_endpoint": f"{ISSUER}/introspect",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "scopes_supported": ["read"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ],
        "token_endpoint_auth_methods_supported": [
            "none",
            "client_secret_basic",
            "client_secret_post",
            "private_key_jwt",
        ],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": False,
        "dpop_signing_alg_values_supported": ["ES256"],
    }


@pytest.mark.parametrize(
    ("issuer", "paths"),
    [
        (ISSUER, ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        (
            f"{ISSUER}/tenant1",
            [
                "/.well-known/oauth-authorization-server/tenant1",
                "/.well-known/openid-configuration/tenant1",
                "/tenant1/.well-known/openid-configuration",
            ],
        ),
    ],
)
async def test_the_metadata_are_served_only_at_the_paths_of_the_specifications(issuer: str, paths: list[str]) -> None:
    engine = AsgiEngine(AuthorizationServer(issuer))
    every = [*paths, "/.well-known/oauth-authorization-server", "/other", "/.well-known/openid-configuration/other"]

    async def status(path: str) -> int:
        async with engine.request("GET", ISSUER + path, {}) as response:
            return response.status

    assert [path for path in dict.fromkeys(every) if await status(path) == 200] == paths


async def test_an_issuer_with_a_path_issues_tokens() -> None:
    bench = Bench(f"{ISSUER}/tenant1")

    answer = await bench.tokens()

    assert bench.claims(answer["access_token"])["iss"] == f"{ISSUER}/tenant1"


async def test_an_issuer_may_end_with_a_slash() -> None:
    engine = AsgiEngine(AuthorizationServer(f"{ISSUER}/"))

    async with engine.request("GET", f"{ISSUER}/.well-known/oauth-authorization-server", {}) as response:
        metadata = json.loads(b"".join([chunk async for chunk in response.chunks()]))

    assert (metadata["issuer"], metadata["token_endpoint"]) == (f"{ISSUER}/", f"{ISSUER}/token")


async def test_pages_of_other_origins_may_call_every_endpoint_but_the_pages_for_users() -> None:
    bench = Bench()

    allowed = await bench.send("OPTIONS", "/token", {"origin": "https://inspector.test"})
    assert allowed.status == 204
    assert "DPoP" in allowed.headers["access-control-allow-headers"]
    for answer in (allowed, await bench.token("x"), await bench.get("/jwks"), await bench.register()):
        assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in (await bench.authorize()).headers


async def test_an_endpoint_refuses_other_methods() -> None:
    answer = await Bench().get("/token")

    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body",
    [
        b"grant_type=x&grant_type=y",
        b"grant_type=%ff",
        b"&".join(b"a%d=1" % number for number in range(101)),
    ],
)
async def test_malformed_parameters_are_refused(body: bytes) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}

    answer = await Bench().send("POST", "/token", form, body)

    assert answer.error == (400, "invalid_request")


async def test_a_request_with_two_resources_is_refused() -> None:
    bench = Bench()
    form = {"content-type": "application/x-www-form-urlencoded", **basic("known", "s3cret")}

    answer = await bench.send("POST", "/token", form, b"grant_type=client_credentials&resource=a&resource=b")

    assert answer.error == (400, "invalid_target")


async def test_parameters_without_a_value_are_treated_as_omitted() -> None:
    answer = await Bench().token("client_credentials", basic("known", "s3cret"), scope="", resource="")

    assert answer.json["scope"] == ""


async def test_a_body_that_is_not_a_form_has_no_parameters() -> None:
    answer = await Bench().send("POST", "/token", {"content-type": "text/plain"}, b"grant_type=client_credentials")

    assert answer.error == (401, "invalid_client")


async def test_a_body_that_is_too_long_is_refused_unread() -> None:
    answer = await Bench().send("POST", "/token", {}, b"x" * 70_000)

    assert answer.status == 413


async def test_requests_are_recorded_without_their_secrets() -> None:
    bench = Bench()
    answer = await bench.tokens()
    await bench.refresh(answer["refresh_token"])
    await bench.token("client_credentials", client_id="known", client_secret="s3cret")

    assert [(each.endpoint, each.status, each.error) for each in bench.auth.requests] == [
        ("authorize", 302, None),
        ("token", 200, None),
        ("token", 200, None),
        ("token", 200, None),
    ]
    (authorization,) = bench.auth.asked("authorize")
    assert authorization.parameters["resource"] == RESOURCE
    assert authorization.parameters["redirect_uri"] == BACK
    assert bench.auth.asked("token")[1].parameters == {
        "grant_type": "refresh_token",
        "client_id": "public",
        "refresh_token": "(secret)",
    }
    noted = repr(bench.auth.requests)
    assert not any(secret in noted for secret in ("s3cret", answer["refresh_token"], "of mind"))


async def test_the_number_of_recorded_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._server._MAX_REQUESTS", 2)
    bench = Bench()

    for _ in range(3):
        await bench.get("/jwks")
    await bench.authorize()

    assert [each.endpoint for each in bench.auth.requests] == ["jwks", "authorize"]


async def test_a_hook_may_delay_a_request() -> None:
    going_on = trio.Event()

    async def before(endpoint: str) -> None:
        assert endpoint == "jwks"
        await going_on.wait()

    bench = Bench(before=before)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.get, "/jwks")
        await trio.testing.wait_all_tasks_blocked()
        assert bench.auth.requests == []
        going_on.set()
    assert len(bench.auth.requests) == 1


async def test_a_hook_may_make_requests_fail() -> None:
    async def before(endpoint: str) -> None:
        raise OAuthError("temporarily_unavailable", status=503, headers={"retry-after": "1"})

    answer = await Bench(before=before).token("client_credentials", basic("known", "s3cret"))

    assert answer.error == (503, "temporarily_unavailable")
    assert answer.json == {"error": "temporarily_unavailable"}
    assert answer.headers["retry-after"] == "1"


async def test_a_hook_may_change_responses() -> None:
    changed: list[str] = []

    def change(endpoint: str, members: dict[str, Any]) -> dict[str, Any]:
        changed.append(endpoint)
        return {**members, "extra": endpoint}

    bench = Bench(change=change)

    assert (await bench.get("/.well-known/oauth-authorization-server")).json["extra"] == "metadata"
    assert (await bench.get("/jwks")).json["extra"] == "jwks"
    assert (await bench.register()).json["extra"] == "register"
    back = (await bench.authorize()).back
    assert back["extra"] == "authorize"
    assert (await bench.redeem(back["code"])).json["extra"] == "token"
    assert (await bench.introspect("x"))["extra"] == "introspect"
    assert (await bench.post("/revoke", {"token": "x", "client_id": "public"})).json["extra"] == "revoke"
    assert changed == ["metadata", "jwks", "register", "authorize", "token", "introspect", "revoke"]


async def test_a_hook_may_remove_every_parameter_of_a_redirect() -> None:
    def change(endpoint: str, members: dict[str, Any]) -> dict[str, Any]:
        return {}

    bench = Bench(change=change)

    assert (await bench.authorize()).headers["location"] == BACK


async def test_options_may_change_while_it_serves() -> None:
    bench = Bench()

    bench.auth.settings.token_seconds = 5.0

    assert (await bench.tokens())["expires_in"] == 5


async def test_a_test_may_issue_a_token_without_a_flow() -> None:
    bench = Bench()

    token = bench.auth.issue_token(
        resource=RESOURCE,
        scopes=["read"],
        subject="ada",
        client_id="app",
        seconds=30.0,
        claims={"role": "admin", "aud": ["a", "b"]},
    )

    claims = bench.claims(token)
    assert claims["exp"] - claims["iat"] == 30
    named = {name: claims[name] for name in ("sub", "client_id", "scope", "role", "aud")}
    assert named == {"sub": "ada", "client_id": "app", "scope": "read", "role": "admin", "aud": ["a", "b"]}
    usual = bench.claims(bench.auth.issue_token(resource=RESOURCE))
    assert (usual["aud"], usual["exp"] - usual["iat"]) == (RESOURCE, 3600)
    assert (await bench.introspect(token))["active"]


def test_one_string_is_no_list_of_scopes() -> None:
    with pytest.raises(TypeError, match=re.escape("pass a list of strings, such as ['read', 'write']")):
        Bench().auth.issue_token(resource=RESOURCE, scopes="read write")


def test_a_misspelt_argument_of_a_token_is_refused() -> None:
    misspelt: Any = {"liftime": 1}

    with pytest.raises(TypeError, match=r"unexpected keyword argument 'liftime'; .*seconds \(the lifetime\)"):
        Bench().auth.issue_token(resource=RESOURCE, **misspelt)


async def test_a_test_can_replace_the_signing_keys() -> None:
    bench = Bench()
    (first,) = bench.auth.jwks["keys"]
    token = bench.auth.issue_token(resource=RESOURCE)

    bench.auth.rotate_key()
    second, *others = (await bench.get("/jwks")).json["keys"]
    assert others == [first]
    assert (await bench.introspect(token))["active"]
    bench.auth.rotate_key(keep=False)
    (third,) = bench.auth.jwks["keys"]
    assert len({first["kid"], second["kid"], third["kid"]}) == 3
    assert not (await bench.introspect(token))["active"]


def test_the_published_keys_contain_no_private_parts() -> None:
    (key,) = Bench().auth.jwks["keys"]

    assert set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"}


async def test_the_application_supports_the_lifespan_protocol_and_refuses_anything_but_http() -> None:
    auth = AuthorizationServer(ISSUER)
    async with AsgiEngine(auth).lifespan():
        pass

    async def receive() -> AsgiMessage:
        raise AssertionError

    async def send(_: AsgiMessage) -> None:
        raise AssertionError

    with pytest.raises(ValueError, match="ASGI scope of the type 'websocket': this application supports only HTTP"):
        await auth({"type": "websocket"}, receive, send)


async def test_a_client_that_disconnects_before_its_request_is_complete_gets_no_response() -> None:
    async def receive() -> AsgiMessage:
        return {"type": "http.disconnect"}

    async def send(_: AsgiMessage) -> None:
        raise AssertionError

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/token", "headers": []}
    await AuthorizationServer(ISSUER)(scope, receive, send)
