"""What the development authorization server gives for codes, refresh tokens and credentials, and for how long."""

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


async def test_a_code_holds_once_and_a_second_use_ends_what_came_of_it() -> None:
    bench = Bench()
    code = await bench.code()
    answer = (await bench.redeem(code)).json

    assert (await bench.introspect(answer["access_token"]))["active"]
    assert (await bench.redeem(code)).error == (400, "invalid_grant")
    assert not (await bench.introspect(answer["access_token"]))["active"]
    assert (await bench.refresh(answer["refresh_token"])).error == (400, "invalid_grant")


async def test_a_code_holds_for_a_minute() -> None:
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
async def test_a_code_holds_only_with_what_it_was_asked_for_with(changed: dict[str, str], error: str) -> None:
    bench = Bench()

    answer = await bench.redeem(await bench.code(), **changed)

    assert answer.error == (400, error)


async def test_what_a_code_was_asked_for_with_may_be_said_again() -> None:
    bench = Bench()

    answer = await bench.redeem(await bench.code(), redirect_uri=BACK, resource=RESOURCE)

    assert answer.status == 200


async def test_a_code_is_of_no_use_to_another_client() -> None:
    bench = Bench()

    answer = await bench.redeem(await bench.code(), basic("known", "s3cret"), client_id="known")

    assert answer.error == (400, "invalid_grant")


async def test_refreshing_gives_other_tokens_and_an_old_refresh_token_ends_them_all() -> None:
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


async def test_an_access_token_may_get_fewer_scopes_when_it_is_refreshed_but_no_more() -> None:
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
async def test_a_refusal_to_refresh_costs_no_token(changed: dict[str, str], error: str) -> None:
    bench = Bench()
    first = await bench.tokens()

    assert (await bench.token("refresh_token", **{"client_id": "public", **first, **changed})).error == (400, error)
    assert (await bench.refresh(first["refresh_token"], resource=RESOURCE)).status == 200


async def test_a_refresh_token_is_of_no_use_to_another_client() -> None:
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
async def test_who_gets_refresh_tokens_is_an_option(policy: str, scope: str, has_one: bool) -> None:
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
    told = (await bench.register(grant_types=["client_credentials"])).json
    its_own = basic(told["client_id"], told["client_secret"])

    assert (await bench.authorize(client_id=told["client_id"])).back["error"] == "unauthorized_client"
    assert (await bench.token("client_credentials", its_own)).status == 200
    told = (await bench.register()).json
    its_own = basic(told["client_id"], told["client_secret"])
    assert (await bench.token("client_credentials", its_own)).error == (400, "unauthorized_client")


@pytest.mark.parametrize("grant_type", ["password", ""])
async def test_other_grants_are_refused(grant_type: str) -> None:
    answer = await Bench().token(grant_type, client_id="public")

    assert answer.error == (400, "unsupported_grant_type")


async def test_scopes_and_servers_can_be_limited() -> None:
    bench = Bench(scopes=["read", "write"], default_scopes=["read"], resources=[RESOURCE])
    own = basic("known", "s3cret")

    assert (await bench.token("client_credentials", own, scope="read admin")).error == (400, "invalid_scope")
    assert (await bench.token("client_credentials", own, resource="https://x.test")).error == (400, "invalid_target")
    answer = await bench.token("client_credentials", own)
    assert answer.json["scope"] == "read"
    assert bench.claims(answer.json["access_token"])["aud"] == ISSUER


@pytest.mark.parametrize("resource", ["mcp.test/mcp", "https://mcp.test/mcp#here", "https://[oops", "urn:x"])
async def test_a_resource_is_a_url_without_a_fragment(resource: str) -> None:
    answer = await Bench().token("client_credentials", basic("known", "s3cret"), resource=resource)

    assert answer.error == (400, "invalid_target")


async def test_offline_access_may_be_asked_for_where_it_is_offered() -> None:
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
    own = basic("known", "s3cret")

    assert (await bench.authorize(scope="write")).back["error"] == "access_denied"
    assert (await bench.tokens(scope="read"))["scope"] == "read more"
    assert (await bench.token("client_credentials", own, scope="write")).error == (400, "unauthorized_client")
    assert asks == [
        ("authorization_code", "public", "user"),
        ("authorization_code", "public", "user"),
        ("client_credentials", "known", "known"),
    ]


async def test_introspection_says_what_is_in_a_token_for_as_long_as_it_holds() -> None:
    bench = Bench()
    token = (await bench.tokens())["access_token"]

    said = await bench.introspect(token)

    assert said == {"active": True, "token_type": "Bearer", **bench.claims(token)}
    bench.clock.now += 3600.0
    assert await bench.introspect(token) == {"active": False}
    assert await bench.introspect("nonsense") == {"active": False}
    assert await bench.introspect("") == {"active": False}


async def test_introspection_is_for_clients_that_authenticate() -> None:
    bench = Bench()

    assert (await bench.post("/introspect", {"token": "x", "client_id": "public"})).error == (401, "invalid_client")
    assert (await bench.post("/introspect", {"token": "x"})).error == (401, "invalid_client")


async def test_a_client_revokes_its_own_tokens() -> None:
    bench = Bench()
    first, second = await bench.tokens(), await bench.tokens()
    own = basic("known", "s3cret")

    for token in (first["access_token"], first["refresh_token"]):
        await bench.post("/revoke", {"token": token}, own)
    assert (await bench.introspect(first["access_token"]))["active"]
    assert (await bench.introspect(first["refresh_token"]))["active"]

    revoked = await bench.post("/revoke", {"token": first["access_token"], "client_id": "public"})
    assert (revoked.status, revoked.json) == (200, {})
    assert not (await bench.introspect(first["access_token"]))["active"]
    assert (await bench.introspect(first["refresh_token"]))["active"]
    await bench.post("/revoke", {"token": second["refresh_token"], "client_id": "public"})
    assert not (await bench.introspect(second["access_token"]))["active"]
    assert (await bench.refresh(second["refresh_token"])).error == (400, "invalid_grant")


async def test_a_test_can_expire_and_revoke_what_was_granted() -> None:
    bench = Bench()
    first, code = await bench.tokens(), await bench.code()

    bench.auth.expire_tokens()
    assert not (await bench.introspect(first["access_token"]))["active"]
    second = (await bench.refresh(first["refresh_token"])).json
    bench.auth.revoke_all()
    assert not (await bench.introspect(second["access_token"]))["active"]
    assert (await bench.refresh(second["refresh_token"])).error == (400, "invalid_grant")
    assert (await bench.redeem(code)).error == (400, "invalid_grant")


async def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._token._MOST", 2)
    bench = Bench()
    codes = [await bench.code() for _ in range(3)]

    assert (await bench.redeem(codes[0])).error == (400, "invalid_grant")
    assert [(await bench.redeem(code)).status for code in codes[1:]] == [200, 200]
