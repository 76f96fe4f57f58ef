"""The token endpoint of the development authorization server: codes, refresh tokens, credentials and introspection."""

from __future__ import annotations

import pytest

from trio_mcp.testing import AccessAsk

from .authorization_bench import BACK, ISSUER, RESOURCE, Bench, basic


async def test_a_code_is_exchanged_for_tokens_of_the_user_for_the_server() -> None:
    bench = Bench()

    answer = await bench.tokens()

    now = int(bench.clock.now)
    claims = bench.claims(answer["access_token"])
    assert claims.pop("jti")
    assert claims == {
        "iss": ISSUER,
        "sub": "user",
        "aud": RESOURCE,
        "client_id": "public",
        "scope": "read write",
        "iat": now,
        "exp": now + 3600,
    }
    rest = {name: answer[name] for name in ("token_type", "expires_in", "scope")}
    assert rest == {"token_type": "Bearer", "expires_in": 3600, "scope": "read write"}
    assert answer["refresh_token"]


async def test_a_code_is_accepted_once_and_a_second_use_revokes_its_tokens() -> None:
    bench = Bench()
    code = await bench.code()
    answer = (await bench.redeem(code)).json

    assert (await bench.introspect(answer["access_token"]))["active"]
    assert (await bench.redeem(code)).error == (400, "invalid_grant")
    assert not (await bench.introspect(answer["access_token"]))["active"]
    assert (await bench.refresh(answer["refresh_token"])).error == (400, "invalid_grant")


async def test_a_code_expires_after_a_minute() -> None:
    bench = Bench()
    codes = [await bench.code(), await bench.code()]

    bench.clock.now += 59.0
    assert (await bench.redeem(codes[0])).status == 200
    bench.clock.now += 1.0
    assert (await bench.redeem(codes[1])).error == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code": "made up"}, "invalid_grant"),
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_grant"),
        ({"redirect_uri": BACK + "/other"}, "invalid_grant"),
        ({"resource": "https://other.test"}, "invalid_target"),
        ({"resource": "nowhere"}, "invalid_target"),
    ],
)
async def test_a_code_is_refused_with_other_parameters_than_it_was_requested_with(
    changed: dict[str, str], error: str
) -> None:
    bench = Bench()

    answer = await bench.redeem(await bench.code(), **changed)

    assert answer.error == (400, error)


async def test_the_exchange_of_a_code_may_repeat_the_parameters_of_its_request() -> None:
    bench = Bench()

    answer = await bench.redeem(await bench.code(), redirect_uri=BACK, resource=RESOURCE)

    assert answer.status == 200


async def test_a_code_of_another_client_is_refused() -> None:
    bench = Bench()

    answer = await bench.redeem(await bench.code(), basic("known", "s3cret"), client_id="known")

    assert answer.error == (400, "invalid_grant")


async def test_refresh_tokens_are_rotated_and_reuse_of_an_old_one_revokes_all_tokens() -> None:
    bench = Bench()
    first = await bench.tokens()

    second = (await bench.refresh(first["refresh_token"])).json
    assert second["refresh_token"] != first["refresh_token"]
    assert second["scope"] == "read write"
    assert (bench.auth.refreshes, bench.auth.reuses) == (1, 0)
    assert await bench.introspect(first["refresh_token"]) == {"active": False, "token_type": "refresh_token"}
    assert (await bench.introspect(second["refresh_token"]))["active"]

    again = await bench.refresh(first["refresh_token"])
    assert again.error == (400, "invalid_grant")
    assert (bench.auth.refreshes, bench.auth.reuses) == (1, 1)
    assert (await bench.refresh(second["refresh_token"])).error == (400, "invalid_grant")
    assert not (await bench.introspect(second["access_token"]))["active"]


async def test_a_refresh_may_narrow_the_scopes_but_not_extend_them() -> None:
    bench = Bench()
    first = await bench.tokens()

    assert (await bench.refresh(first["refresh_token"], scope="read admin")).error == (400, "invalid_scope")
    fewer = await bench.refresh(first["refresh_token"], scope="read")
    assert fewer.json["scope"] == "read"
    all_of_them = await bench.refresh(fewer.json["refresh_token"])
    assert all_of_them.json["scope"] == "read write"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"refresh_token": "made up"}, "invalid_grant"),
        ({"resource": "https://other.test"}, "invalid_target"),
    ],
)
async def test_a_refused_refresh_does_not_use_up_the_refresh_token(changed: dict[str, str], error: str) -> None:
    bench = Bench()
    first = await bench.tokens()

    assert (await bench.token("refresh_token", **{"client_id": "public", **first, **changed})).error == (400, error)
    assert (await bench.refresh(first["refresh_token"], resource=RESOURCE)).status == 200


async def test_a_refresh_token_of_another_client_is_refused() -> None:
    bench = Bench()
    first = await bench.tokens()

    answer = await bench.refresh(first["refresh_token"], basic("known", "s3cret"), client_id="known")

    assert answer.error == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("policy", "scope", "has_one"),
    [
        ("always", "read", True),
        ("offline_access", "read", False),
        ("offline_access", "read offline_access", True),
        ("never", "read offline_access", False),
    ],
)
async def test_an_option_decides_which_clients_get_refresh_tokens(policy: str, scope: str, has_one: bool) -> None:
    bench = Bench(refresh_tokens=policy)

    answer = await bench.tokens(scope=scope)

    assert ("refresh_token" in answer) == has_one


async def test_clients_that_have_not_registered_for_refresh_tokens_get_none() -> None:
    bench = Bench()
    client_id = (await bench.register(grant_types=["authorization_code"], token_endpoint_auth_method="none")).json[
        "client_id"
    ]

    answer = await bench.redeem(await bench.code(client_id=client_id), client_id=client_id)

    assert "refresh_token" not in answer.json


async def test_a_client_gets_tokens_for_itself() -> None:
    bench = Bench(token_seconds=60.0)

    answer = await bench.token("client_credentials", basic("known", "s3cret"), scope="a a b", resource=RESOURCE)

    claims = bench.claims(answer.json["access_token"])
    named = {name: claims[name] for name in ("sub", "client_id", "aud", "scope")}
    assert named == {"sub": "known", "client_id": "known", "aud": RESOURCE, "scope": "a b"}
    assert claims["exp"] - claims["iat"] == answer.json["expires_in"] == 60
    assert "refresh_token" not in answer.json


async def test_a_public_client_gets_no_tokens_for_itself() -> None:
    answer = await Bench().token("client_credentials", client_id="public")

    assert answer.error == (400, "unauthorized_client")


async def test_a_client_uses_only_the_grants_that_it_has_registered_for() -> None:
    bench = Bench()
    registered = (await bench.register(grant_types=["client_credentials"])).json
    credentials = basic(registered["client_id"], registered["client_secret"])

    assert (await bench.authorize(client_id=registered["client_id"])).back["error"] == "unauthorized_client"
    assert (await bench.token("client_credentials", credentials)).status == 200
    registered = (await bench.register()).json
    credentials = basic(registered["client_id"], registered["client_secret"])
    assert (await bench.token("client_credentials", credentials)).error == (400, "unauthorized_client")


@pytest.mark.parametrize("grant_type", ["password", ""])
async def test_unknown_grant_types_are_refused(grant_type: str) -> None:
    answer = await Bench().token(grant_type, client_id="public")

    assert answer.error == (400, "unsupported_grant_type")


async def test_scopes_and_resources_can_be_limited() -> None:
    bench = Bench(scopes=["read", "write"], default_scopes=["read"], resources=[RESOURCE])
    credentials = basic("known", "s3cret")

    assert (await bench.token("client_credentials", credentials, scope="read admin")).error == (400, "invalid_scope")
    assert (await bench.token("client_credentials", credentials, resource="https://x.test")).error == (
        400,
        "invalid_target",
    )
    answer = await bench.token("client_credentials", credentials)
    assert answer.json["scope"] == "read"
    assert bench.claims(answer.json["access_token"])["aud"] == ISSUER


@pytest.mark.parametrize("resource", ["mcp.test/mcp", "https://mcp.test/mcp#here", "https://[oops", "urn:x"])
async def test_a_resource_that_is_not_a_url_without_a_fragment_is_refused(resource: str) -> None:
    answer = await Bench().token("client_credentials", basic("known", "s3cret"), resource=resource)

    assert answer.error == (400, "invalid_target")


async def test_offline_access_may_be_requested_if_the_server_offers_it() -> None:
    bench = Bench(scopes=["read"], refresh_tokens="offline_access")

    assert (await bench.authorize(scope="read offline_access")).back["code"]
    assert (await bench.get("/.well-known/oauth-authorization-server")).json["scopes_supported"] == [
        "read",
        "offline_access",
    ]


async def test_a_policy_decides_about_every_grant() -> None:
    asks: list[tuple[str, str, str]] = []

    def policy(ask: AccessAsk) -> list[str] | None:
        asks.append((ask.grant_type, ask.client_id, ask.subject))
        return None if "write" in ask.scopes else [*ask.scopes, "more", "more"]

    bench = Bench(policy=policy)
    credentials = basic("known", "s3cret")

    assert (await bench.authorize(scope="write")).back["error"] == "access_denied"
    assert (await bench.tokens(scope="read"))["scope"] == "read more"
    assert (await bench.token("client_credentials", credentials, scope="write")).error == (400, "unauthorized_client")
    assert asks == [
        ("authorization_code", "public", "user"),
        ("authorization_code", "public", "user"),
        ("client_credentials", "known", "known"),
    ]


async def test_introspection_returns_the_claims_of_a_token_until_it_expires() -> None:
    bench = Bench()
    token = (await bench.tokens())["access_token"]

    introspected = await bench.introspect(token)

    assert introspected == {"active": True, "token_type": "Bearer", **bench.claims(token)}
    bench.clock.now += 3600.0
    assert await bench.introspect(token) == {"active": False}
    assert await bench.introspect("nonsense") == {"active": False}
    assert await bench.introspect("") == {"active": False}


async def test_introspection_requires_client_authentication() -> None:
    bench = Bench()

    assert (await bench.post("/introspect", {"token": "x", "client_id": "public"})).error == (401, "invalid_client")
    assert (await bench.post("/introspect", {"token": "x"})).error == (401, "invalid_client")


async def test_a_client_revokes_its_own_tokens() -> None:
    bench = Bench()
    first, second = await bench.tokens(), await bench.tokens()
    credentials = basic("known", "s3cret")

    for token in (first["access_token"], first["refresh_token"]):
        await bench.post("/revoke", {"token": token}, credentials)
    assert (await bench.introspect(first["access_token"]))["active"]
    assert (await bench.introspect(first["refresh_token"]))["active"]

    revoked = await bench.post("/revoke", {"token": first["access_token"], "client_id": "public"})
    assert (revoked.status, revoked.json) == (200, {})
    assert not (await bench.introspect(first["access_token"]))["active"]
    assert (await bench.introspect(first["refresh_token"]))["active"]
    await bench.post("/revoke", {"token": second["refresh_token"], "client_id": "public"})
    assert not (await bench.introspect(second["access_token"]))["active"]
    assert (await bench.refresh(second["refresh_token"])).error == (400, "invalid_grant")


async def test_a_test_can_expire_and_revoke_granted_tokens() -> None:
    bench = Bench()
    first, code = await bench.tokens(), await bench.code()

    bench.auth.expire_tokens()
    assert not (await bench.introspect(first["access_token"]))["active"]
    second = (await bench.refresh(first["refresh_token"])).json
    bench.auth.revoke_all()
    assert not (await bench.introspect(second["access_token"]))["active"]
    assert (await bench.refresh(second["refresh_token"])).error == (400, "invalid_grant")
    assert (await bench.redeem(code)).error == (400, "invalid_grant")


async def test_the_numbers_of_codes_and_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._token._MOST", 2)
    bench = Bench()
    codes = [await bench.code() for _ in range(3)]

    assert (await bench.redeem(codes[0])).error == (400, "invalid_grant")
    assert [(await bench.redeem(code)).status for code in codes[1:]] == [200, 200]
