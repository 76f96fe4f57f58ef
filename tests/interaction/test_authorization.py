"""Authorization between a client and a protected server, in every revision: sign-in, refresh and step-up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from tests.auth.protected_server import serving_protected
from tests.interaction.protected_deployment import (
    ISSUER,
    LATEST,
    MODERN,
    ORIGIN,
    REDIRECT_URI,
    URL,
    Deployment,
    call_text,
    every_transport,
    introspecting,
    login_server,
    user_credentials,
    without_user,
)
from tests.interaction.raw_http_client import POST_FIELDS
from tests.testing.authorization_bench import Signer
from trio_mcp import (
    AuthorizationFailed,
    Bearer,
    ClientCredentials,
    EnterpriseManaged,
    FileTokenStorage,
    MemoryTokenStorage,
    OAuth,
    PrivateKey,
    Registration,
    WorkloadIdentity,
    open_http_client,
)
from trio_mcp.abc import ClientAuth, TokenStorage
from trio_mcp.auth import HttpCall
from trio_mcp.auth._challenges import read_challenges
from trio_mcp.testing import AccessAsk, AuthorizationServer, KnownClient, open_authorization_server
from trio_mcp.transports import engine_fetch
from trio_mcp.wire import decode

IDP, PLATFORM, NEW = "https://idp.example", "https://platform.example", "https://new.example"


# Users.


@pytest.mark.requirement("C.2-1", "C.2-8", "C.2-10", "C.2-11", "C.2-12", "C.2-13", "C.3-8")
@every_transport
async def test_a_user_signs_in_once_and_again_when_a_call_needs_more_scopes(
    transport: str, revision: str, autojump_clock: object
) -> None:
    deployment = Deployment(login_server(token_seconds=600), transport)
    auth = deployment.auth

    async with deployment.open(), deployment.client(user_credentials(auth), revision=revision) as client:
        assert await call_text(client, "whoami") == "ada"
        assert len(auth.asked("authorize")) == 1
        await trio.sleep(700)
        assert await call_text(client, "whoami") == "ada"
        assert (auth.refreshes, len(auth.asked("authorize"))) == (1, 1)
        assert await call_text(client, "buy") == "ada buys"
        assert await call_text(client, "buy") == "ada buys"
        await trio.sleep(700)
        assert await call_text(client, "buy") == "ada buys"

    assert (auth.refreshes, auth.reuses) == (2, 0)
    [registered] = auth.asked("register")
    assert registered.parameters["application_type"] == "native"
    first, second = (request.parameters for request in auth.asked("authorize"))
    assert "scope" not in first
    assert second["scope"] == "buy"
    for parameters in (first, second):
        assert parameters["code_challenge_method"] == "S256"
    for request in (*auth.asked("authorize"), *auth.asked("token")):
        assert request.parameters["resource"] == URL
    for seen in deployment.requests:
        assert "token" not in seen.target
    shown = [seen.headers.get("authorization", "").partition(" ")[0] for seen in deployment.requests]
    assert {*shown[shown.index("Bearer") :]} == {"Bearer"}


@pytest.mark.requirement("C.3-1", "C.3-2", "C.3-3")
async def test_the_challenge_for_a_request_without_a_token_leads_to_a_token(autojump_clock: object) -> None:
    deployment = Deployment(options={"scopes": ["use"], "scopes_supported": ["use", "buy", "offline_access"]})
    fetch = engine_fetch(deployment.network)

    async with deployment.open():
        response = await fetch(HttpCall(method="POST", url=URL, headers=POST_FIELDS, body=b"{}", named_by="user"))
        challenges = read_challenges(response.headers["www-authenticate"])
        assert response.status == 401
        assert {challenge.scheme for challenge in challenges} == {"Bearer", "DPoP"}
        [metadata_url] = {challenge.parameters["resource_metadata"] for challenge in challenges}
        for challenge in challenges:
            assert challenge.parameters["scope"] == "use"
            assert "error" not in challenge.parameters
        metadata = [
            await fetch(HttpCall(method="GET", url=url, named_by="user"))
            for url in (metadata_url, f"{ORIGIN}/.well-known/oauth-protected-resource")
        ]

    document = decode(metadata[0].body)
    assert metadata[0].body == metadata[1].body
    assert document["resource"] == URL
    assert document["authorization_servers"] == [ISSUER]
    assert document["scopes_supported"] == ["use", "buy"]


@pytest.mark.requirement("C.2-13")
async def test_a_step_up_keeps_the_scopes_that_were_granted_earlier(autojump_clock: object) -> None:
    deployment = Deployment(options={"scopes": ["use"]})

    async with deployment.open(), deployment.client(user_credentials(deployment.auth, scopes=["look"])) as client:
        assert await call_text(client, "buy") == "ada buys"

    first, second = (request.parameters["scope"].split() for request in deployment.auth.asked("authorize"))
    assert {*first} >= {"look"}
    assert {*second} == {*first, "use", "buy"}


@pytest.mark.requirement("C.2-13")
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_a_user_who_denies_access_fails_one_call_and_is_not_asked_repeatedly(
    revision: str, autojump_clock: object
) -> None:
    def policy(ask: AccessAsk) -> tuple[str, ...] | None:
        return None if "buy" in ask.scopes else ask.scopes

    deployment = Deployment(login_server(policy=policy))

    async with deployment.open(), deployment.client(user_credentials(deployment.auth), revision=revision) as client:
        with pytest.raises(AuthorizationFailed) as refused:
            await call_text(client, "buy")
        assert refused.value.error == "access_denied"
        assert await call_text(client, "whoami") == "ada"
        for _ in range(5):
            with pytest.raises(Exception, match=r"403|access_denied"):
                await call_text(client, "buy")
        assert await call_text(client, "whoami") == "ada"

    assert len(deployment.auth.asked("authorize")) <= 3


@pytest.mark.requirement("C.2-13")
async def test_the_client_stops_requesting_scopes_that_are_never_sufficient(autojump_clock: object) -> None:
    def policy(_: AccessAsk) -> tuple[str, ...]:
        return ("use",)

    deployment = Deployment(login_server(policy=policy), options={"scopes": ["use"]})

    async with deployment.open(), deployment.client(user_credentials(deployment.auth)) as client:
        for _ in range(5):
            with pytest.raises(Exception, match=r"403|scope"):
                await call_text(client, "buy")
        assert await call_text(client, "whoami") == "ada"

    assert len(deployment.auth.asked("authorize")) <= 3


@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_an_unreachable_authorization_server_fails_only_the_calls_that_need_it(
    revision: str, autojump_clock: object
) -> None:
    deployment = Deployment(login_server(token_seconds=600))
    reachable = trio.Event()

    async def hang(_: str) -> None:
        await reachable.wait()

    async with deployment.open(), deployment.client(user_credentials(deployment.auth), revision=revision) as client:
        assert await call_text(client, "whoami") == "ada"
        deployment.auth.settings.before = hang
        assert await call_text(client, "whoami") == "ada"
        await trio.sleep(700)
        with pytest.raises(AuthorizationFailed):
            await call_text(client, "whoami")
        reachable.set()
        assert await call_text(client, "whoami") == "ada"

    assert len(deployment.auth.asked("authorize")) == 1
    assert deployment.auth.reuses == 0


@pytest.mark.requirement("C.2-14")
async def test_without_refresh_tokens_the_user_signs_in_again(autojump_clock: object) -> None:
    deployment = Deployment(login_server(token_seconds=600, refresh_tokens="never"))

    async with deployment.open(), deployment.client(user_credentials(deployment.auth)) as client:
        assert await call_text(client, "whoami") == "ada"
        await trio.sleep(700)
        assert await call_text(client, "whoami") == "ada"

    assert len(deployment.auth.asked("authorize")) == 2


async def test_a_call_with_an_expired_or_revoked_token_gets_a_new_token(autojump_clock: object) -> None:
    deployment = Deployment(
        login_server(clients=[KnownClient("shop", secret="x")]), options={"verifier": introspecting()}
    )

    async with deployment.open(), deployment.client(user_credentials(deployment.auth)) as client:
        assert await call_text(client, "whoami") == "ada"
        deployment.auth.expire_tokens()
        assert await call_text(client, "whoami") == "ada"
        assert (deployment.auth.refreshes, len(deployment.auth.asked("authorize"))) == (1, 1)
        deployment.auth.revoke_all()
        assert await call_text(client, "whoami") == "ada"

    assert len(deployment.auth.asked("authorize")) == 2


async def test_a_client_that_the_authorization_server_no_longer_knows_registers_again(autojump_clock: object) -> None:
    deployment = Deployment(login_server(token_seconds=600))

    async with deployment.open(), deployment.client(user_credentials(deployment.auth)) as client:
        assert await call_text(client, "whoami") == "ada"
        deployment.auth.forget_clients()
        deployment.auth.revoke_all()
        await trio.sleep(700)
        outcomes = [await outcome(client) for _ in range(2)]

    assert outcomes[-1] == "ada"
    assert len(deployment.auth.asked("register")) == 2


async def outcome(client: Any) -> str:
    try:
        return await call_text(client, "whoami")
    except AuthorizationFailed as failure:
        return failure.error or "?"


# Tokens that are bound to a key.


@pytest.mark.parametrize("with_nonces", [False, True])
@every_transport
async def test_each_request_proves_that_its_client_has_the_dpop_key(
    transport: str, revision: str, with_nonces: bool, autojump_clock: object
) -> None:
    auth = login_server(token_seconds=600, dpop="required", dpop_nonces=with_nonces)
    deployment = Deployment(auth, transport, {"dpop": "required"})

    async with deployment.open(), deployment.client(user_credentials(auth, dpop=True), revision=revision) as client:
        assert await call_text(client, "whoami") == "ada"
        await trio.sleep(700)
        auth.renew_nonce()
        assert await call_text(client, "whoami") == "ada"
        assert await call_text(client, "buy") == "ada buys"

    assert auth.refreshes == 1
    shown = [seen.headers for seen in deployment.requests if "authorization" in seen.headers]
    proofs = [headers["dpop"] for headers in shown]
    assert len({*proofs}) == len(proofs)
    assert all(headers["authorization"].startswith("DPoP ") for headers in shown)


# Programs without a user.


def client_secret(deployment: Deployment, signer: Signer) -> ClientAuth:
    deployment.auth.settings.clients = (KnownClient("job", secret="s3cret"),)
    return ClientCredentials("job", secret="s3cret", issuer=ISSUER, clock=trio.current_time)


def private_key_with_dpop(deployment: Deployment, signer: Signer) -> ClientAuth:
    deployment.auth.settings.clients = (KnownClient("job", keys=signer.jwks),)
    pem = signer.key.as_pem(private=True).decode()
    return ClientCredentials("job", private_key=PrivateKey(pem), dpop=True, clock=trio.current_time)


def workload(deployment: Deployment, signer: Signer) -> ClientAuth:
    deployment.auth.settings.trusted_issuers = {PLATFORM: signer.jwks}

    async def assertion() -> str:
        now = int(trio.current_time())
        return signer.sign({"iss": PLATFORM, "sub": "job", "aud": ISSUER, "iat": now, "exp": now + 60})

    return WorkloadIdentity(assertion, clock=trio.current_time)


def enterprise(deployment: Deployment, signer: Signer) -> ClientAuth:
    idp = deployment.others[IDP]
    assert isinstance(idp, AuthorizationServer)
    deployment.auth.settings.trusted_issuers = {IDP: idp.jwks}
    deployment.auth.settings.clients = (KnownClient("desk", secret="x"),)

    async def id_token() -> str:
        return idp.issue_id_token(subject="job", client_id="sso")

    return EnterpriseManaged(
        Registration("desk", secret="x"),
        idp_client_id="sso",
        idp_secret="s3cret",
        idp_issuer=IDP,
        idp_token_endpoint=f"{IDP}/token",
        id_token=id_token,
        clock=trio.current_time,
    )


@pytest.mark.requirement("C.2-17")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (client_secret, "client job"),
        (private_key_with_dpop, "client job"),
        (workload, "client job"),
        (enterprise, "job"),
    ],
)
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_a_program_gets_a_token_and_a_step_up_without_a_user(
    make: Any, name: str, revision: str, autojump_clock: object
) -> None:
    clients = [KnownClient("sso", secret="s3cret", known_as={ISSUER: "desk"})]
    deployment = Deployment(login_server(token_seconds=600), others={IDP: login_server(IDP, clients=clients)})
    auth, name = make(deployment, Signer()), "job" if make is enterprise else "client job"

    async with deployment.open(), deployment.client(auth, revision=revision) as client:
        assert await call_text(client, "whoami") == name
        await trio.sleep(700)
        assert await call_text(client, "whoami") == name
        assert await call_text(client, "buy") == f"{name} buys"

    assert len(deployment.auth.asked("token")) == 3
    assert deployment.auth.asked("authorize") == []


async def test_a_bearer_token_of_the_application_is_sent_and_replaced_when_it_is_refused(
    autojump_clock: object,
) -> None:
    deployment = Deployment(login_server(token_seconds=600))

    async def token() -> str:
        return deployment.auth.issue_token(resource=URL, subject="eve")

    async with deployment.open(), deployment.client(Bearer(token)) as client:
        assert await call_text(client, "whoami") == "eve"
        await trio.sleep(700)
        assert await call_text(client, "whoami") == "eve"


# Stored tokens.


@pytest.mark.requirement("C.2-18")
async def test_the_next_client_uses_the_stored_tokens_without_a_sign_in(autojump_clock: object) -> None:
    deployment, storage = Deployment(login_server(token_seconds=600)), MemoryTokenStorage()

    async with deployment.open():
        async with deployment.client(user_credentials(deployment.auth, storage=storage)) as client:
            assert await call_text(client, "buy") == "ada buys"
        requests_before = len(deployment.auth.requests)
        for revision in (MODERN, LATEST):
            async with deployment.client(without_user(storage=storage), revision=revision) as client:
                assert await call_text(client, "buy") == "ada buys"
        assert len(deployment.auth.requests) == requests_before
        await trio.sleep(700)
        async with deployment.client(without_user(storage=storage)) as client:
            assert await call_text(client, "buy") == "ada buys"

    assert (deployment.auth.refreshes, len(deployment.auth.asked("register"))) == (1, 1)


def deployments_before_and_after_a_move() -> tuple[Deployment, Deployment]:
    """Return a deployment and the same one after its move to another authorization server."""
    known = [KnownClient("desk", redirect_uris=[REDIRECT_URI])]
    return Deployment(login_server(clients=known)), Deployment(login_server(NEW, users={"bea": "x"}, clients=known))


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize("is_preregistered", [False, True])
async def test_credentials_of_the_old_authorization_server_are_not_sent_to_the_new_one(
    is_preregistered: bool, autojump_clock: object
) -> None:
    storage, deployments = MemoryTokenStorage(), deployments_before_and_after_a_move()

    for deployment, name in zip(deployments, ("ada", "bea"), strict=True):
        desk = Registration("desk", method="none", issuer=deployment.auth.issuer) if is_preregistered else None
        async with (
            deployment.open(),
            deployment.client(user_credentials(deployment.auth, storage=storage, client=desk)) as client,
        ):
            assert await call_text(client, "whoami") == name

    _, new = deployments
    assert [request.parameters["grant_type"] for request in new.auth.asked("token")] == ["authorization_code"]
    if not is_preregistered:
        first, second = (deployment.auth.asked("authorize")[0].parameters["client_id"] for deployment in deployments)
        assert first != second


@pytest.mark.requirement("C.2-9")
async def test_a_registration_without_an_issuer_is_not_used_at_a_new_authorization_server(
    autojump_clock: object,
) -> None:
    storage, desk, (deployment, new) = (
        MemoryTokenStorage(),
        Registration("desk", method="none"),
        deployments_before_and_after_a_move(),
    )

    async with (
        deployment.open(),
        deployment.client(user_credentials(deployment.auth, storage=storage, client=desk)) as client,
    ):
        assert await call_text(client, "whoami") == "ada"
    async with new.open():
        with pytest.raises(AuthorizationFailed, match=NEW):
            async with new.client(user_credentials(new.auth, storage=storage, client=desk)):
                raise AssertionError

    assert {request.endpoint for request in new.auth.requests} <= {"metadata", "jwks"}


async def test_accounts_in_one_storage_are_kept_apart(autojump_clock: object) -> None:
    deployment, storage = Deployment(), MemoryTokenStorage()

    async with deployment.open():
        for name in ("ada", "bea", "ada", "bea"):
            deployment.auth.settings.users = {name: "x"}
            async with deployment.client(user_credentials(deployment.auth, storage=storage, account=name)) as client:
                assert await call_text(client, "whoami") == name

    assert len(deployment.auth.asked("authorize")) == 2


# Over sockets, with the browser's redirect.


@pytest.mark.requirement("C.2-16", "C.2-18")
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_over_sockets_the_browser_redirects_back_and_the_tokens_are_stored_in_a_file(
    revision: str, tmp_path: Path
) -> None:
    async def browse(url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            assert (await browser.get(url)).status_code == 200

    async def fail(url: str) -> None:
        raise AssertionError(url)

    storage: TokenStorage = FileTokenStorage(tmp_path / "tokens.json")
    async with open_authorization_server(auto_consent=True, users={"ada": "x"}) as auth:
        async with serving_protected(auth.issuer) as url:
            async with open_http_client(url, auth=OAuth(show=browse, storage=storage), revision=revision) as client:
                assert await call_text(client, "whoami") == "ada"
                assert await call_text(client, "erase") == "erased by ada"
            requests_before = len(auth.requests)
            async with open_http_client(url, auth=OAuth(show=fail, storage=storage), revision=revision) as client:
                assert await call_text(client, "erase") == "erased by ada"

        assert len(auth.requests) == requests_before
        redirects = {request.parameters["redirect_uri"] for request in auth.asked("authorize")}
    assert all(uri.startswith("http://127.0.0.1:") for uri in redirects)
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert REDIRECT_URI not in redirects
