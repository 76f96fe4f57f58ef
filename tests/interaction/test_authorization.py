"""Authorization from one end to the other, in every revision: people and machines get in, stay in, and get further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from tests.auth.protected_server import serving_protected
from tests.interaction.authorized import (
    BACK,
    ISSUER,
    LATEST,
    MODERN,
    ORIGIN,
    URL,
    Street,
    every_way,
    login,
    nobody,
    person,
    said,
)
from tests.interaction.http_by_hand import POST_FIELDS
from tests.testing.authorization_bench import Signer
from trio_mcp import (
    AuthorizationFailed,
    Bearer,
    ClientCredentials,
    EnterpriseManaged,
    FileTokenStorage,
    IntrospectionVerifier,
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


# A person.


@pytest.mark.requirement("C.2-1", "C.2-8", "C.2-10", "C.2-11", "C.2-12", "C.2-13", "C.3-8")
@every_way
async def test_a_person_signs_in_once_and_again_when_more_is_needed(
    transport: str, revision: str, autojump_clock: object
) -> None:
    street = Street(login(token_seconds=600), transport)
    auth = street.auth

    async with street.open(), street.client(person(auth), revision=revision) as client:
        assert await said(client, "whoami") == "ada"
        assert len(auth.asked("authorize")) == 1
        await trio.sleep(700)
        assert await said(client, "whoami") == "ada"
        assert (auth.refreshes, len(auth.asked("authorize"))) == (1, 1)
        assert await said(client, "buy") == "ada buys"
        assert await said(client, "buy") == "ada buys"
        await trio.sleep(700)
        assert await said(client, "buy") == "ada buys"

    assert (auth.refreshes, auth.reuses) == (2, 0)
    [registered] = auth.asked("register")
    assert registered.parameters["application_type"] == "native"
    first, second = (asked.parameters for asked in auth.asked("authorize"))
    assert "scope" not in first
    assert second["scope"] == "buy"
    for asked in (first, second):
        assert asked["code_challenge_method"] == "S256"
    for request in (*auth.asked("authorize"), *auth.asked("token")):
        assert request.parameters["resource"] == URL
    for seen in street.requests:
        assert "token" not in seen.target
    shown = [seen.headers.get("authorization", "").partition(" ")[0] for seen in street.requests]
    assert {*shown[shown.index("Bearer") :]} == {"Bearer"}


@pytest.mark.requirement("C.3-1", "C.3-2", "C.3-3")
async def test_what_a_stranger_is_told_leads_to_a_token(autojump_clock: object) -> None:
    street = Street(options={"scopes": ["use"], "scopes_supported": ["use", "buy", "offline_access"]})
    fetch = engine_fetch(street.network)

    async with street.open():
        asked = await fetch(HttpCall(method="POST", url=URL, headers=POST_FIELDS, body=b"{}", named_by="user"))
        challenges = read_challenges(asked.headers["www-authenticate"])
        assert asked.status == 401
        assert {challenge.scheme for challenge in challenges} == {"Bearer", "DPoP"}
        [place] = {challenge.parameters["resource_metadata"] for challenge in challenges}
        for challenge in challenges:
            assert challenge.parameters["scope"] == "use"
            assert "error" not in challenge.parameters
        metadata = [
            await fetch(HttpCall(method="GET", url=url, named_by="user"))
            for url in (place, f"{ORIGIN}/.well-known/oauth-protected-resource")
        ]

    document = decode(metadata[0].body)
    assert metadata[0].body == metadata[1].body
    assert document["resource"] == URL
    assert document["authorization_servers"] == [ISSUER]
    assert document["scopes_supported"] == ["use", "buy"]


@pytest.mark.requirement("C.2-13")
async def test_what_was_granted_earlier_is_not_lost_by_asking_for_more(autojump_clock: object) -> None:
    street = Street(options={"scopes": ["use"]})

    async with street.open(), street.client(person(street.auth, scopes=["look"])) as client:
        assert await said(client, "buy") == "ada buys"

    first, second = (asked.parameters["scope"].split() for asked in street.auth.asked("authorize"))
    assert {*first} >= {"look"}
    assert {*second} == {*first, "use", "buy"}


@pytest.mark.requirement("C.2-13")
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_a_person_who_says_no_fails_one_call_and_is_not_asked_for_ever(
    revision: str, autojump_clock: object
) -> None:
    def policy(ask: AccessAsk) -> tuple[str, ...] | None:
        return None if "buy" in ask.scopes else ask.scopes

    street = Street(login(policy=policy))

    async with street.open(), street.client(person(street.auth), revision=revision) as client:
        with pytest.raises(AuthorizationFailed) as refused:
            await said(client, "buy")
        assert refused.value.error == "access_denied"
        assert await said(client, "whoami") == "ada"
        for _ in range(5):
            with pytest.raises(Exception, match=r"403|access_denied"):
                await said(client, "buy")
        assert await said(client, "whoami") == "ada"

    assert len(street.auth.asked("authorize")) <= 3


@pytest.mark.requirement("C.2-13")
async def test_scopes_that_are_never_enough_are_not_asked_for_again_and_again(autojump_clock: object) -> None:
    def policy(_: AccessAsk) -> tuple[str, ...]:
        return ("use",)

    street = Street(login(policy=policy), options={"scopes": ["use"]})

    async with street.open(), street.client(person(street.auth)) as client:
        for _ in range(5):
            with pytest.raises(Exception, match=r"403|scope"):
                await said(client, "buy")
        assert await said(client, "whoami") == "ada"

    assert len(street.auth.asked("authorize")) <= 3


@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_an_authorization_server_that_is_away_fails_the_calls_that_need_it_and_no_others(
    revision: str, autojump_clock: object
) -> None:
    street = Street(login(token_seconds=600))
    back = trio.Event()

    async def hang(_: str) -> None:
        await back.wait()

    async with street.open(), street.client(person(street.auth), revision=revision) as client:
        assert await said(client, "whoami") == "ada"
        street.auth.settings.before = hang
        assert await said(client, "whoami") == "ada"
        await trio.sleep(700)
        with pytest.raises(AuthorizationFailed):
            await said(client, "whoami")
        back.set()
        assert await said(client, "whoami") == "ada"

    assert len(street.auth.asked("authorize")) == 1
    assert street.auth.reuses == 0


@pytest.mark.requirement("C.2-14")
async def test_without_refresh_tokens_the_person_signs_in_again(autojump_clock: object) -> None:
    street = Street(login(token_seconds=600, refresh_tokens="never"))

    async with street.open(), street.client(person(street.auth)) as client:
        assert await said(client, "whoami") == "ada"
        await trio.sleep(700)
        assert await said(client, "whoami") == "ada"

    assert len(street.auth.asked("authorize")) == 2


async def test_what_was_granted_and_taken_back_is_asked_for_again_within_the_call(autojump_clock: object) -> None:
    street = Street(login(clients=[KnownClient("shop", secret="x")]), options={"verifier": introspecting("shop", "x")})

    async with street.open(), street.client(person(street.auth)) as client:
        assert await said(client, "whoami") == "ada"
        street.auth.expire_tokens()
        assert await said(client, "whoami") == "ada"
        assert (street.auth.refreshes, len(street.auth.asked("authorize"))) == (1, 1)
        street.auth.revoke_all()
        assert await said(client, "whoami") == "ada"

    assert len(street.auth.asked("authorize")) == 2


async def test_a_client_that_is_not_known_any_more_registers_again(autojump_clock: object) -> None:
    street = Street(login(token_seconds=600))

    async with street.open(), street.client(person(street.auth)) as client:
        assert await said(client, "whoami") == "ada"
        street.auth.forget_clients()
        street.auth.revoke_all()
        await trio.sleep(700)
        outcomes = [await outcome(client) for _ in range(2)]

    assert outcomes[-1] == "ada"
    assert len(street.auth.asked("register")) == 2


async def outcome(client: Any) -> str:
    try:
        return await said(client, "whoami")
    except AuthorizationFailed as failure:
        return failure.error or "?"


def introspecting(client_id: str, secret: str) -> IntrospectionVerifier:
    """Return what asks about each token, each time."""
    return IntrospectionVerifier(client=Registration(client_id, secret=secret, issuer=ISSUER), cache_seconds=0)


# Tokens that are bound to a key.


@pytest.mark.parametrize("with_nonces", [False, True])
@every_way
async def test_each_request_proves_that_its_client_has_the_key(
    transport: str, revision: str, with_nonces: bool, autojump_clock: object
) -> None:
    auth = login(token_seconds=600, dpop="required", dpop_nonces=with_nonces)
    street = Street(auth, transport, {"dpop": "required"})

    async with street.open(), street.client(person(auth, dpop=True), revision=revision) as client:
        assert await said(client, "whoami") == "ada"
        await trio.sleep(700)
        auth.renew_nonce()
        assert await said(client, "whoami") == "ada"
        assert await said(client, "buy") == "ada buys"

    assert auth.refreshes == 1
    shown = [seen.headers for seen in street.requests if "authorization" in seen.headers]
    proofs = [headers["dpop"] for headers in shown]
    assert len({*proofs}) == len(proofs)
    assert all(headers["authorization"].startswith("DPoP ") for headers in shown)


# Machines.


def credentials(street: Street, signer: Signer) -> ClientAuth:
    street.auth.settings.clients = (KnownClient("job", secret="s3cret"),)
    return ClientCredentials("job", secret="s3cret", issuer=ISSUER, clock=trio.current_time)


def key(street: Street, signer: Signer) -> ClientAuth:
    street.auth.settings.clients = (KnownClient("job", keys=signer.jwks),)
    pem = signer.key.as_pem(private=True).decode()
    return ClientCredentials("job", private_key=PrivateKey(pem), dpop=True, clock=trio.current_time)


def workload(street: Street, signer: Signer) -> ClientAuth:
    street.auth.settings.trusted_issuers = {PLATFORM: signer.jwks}

    async def assertion() -> str:
        now = int(trio.current_time())
        return signer.sign({"iss": PLATFORM, "sub": "job", "aud": ISSUER, "iat": now, "exp": now + 60})

    return WorkloadIdentity(assertion, clock=trio.current_time)


def enterprise(street: Street, signer: Signer) -> ClientAuth:
    idp = street.others[IDP]
    assert isinstance(idp, AuthorizationServer)
    street.auth.settings.trusted_issuers = {IDP: idp.jwks}
    street.auth.settings.clients = (KnownClient("desk", secret="x"),)

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
    ("make", "who"),
    [(credentials, "client job"), (key, "client job"), (workload, "client job"), (enterprise, "job")],
)
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_a_program_gets_in_without_any_person_and_gets_further_too(
    make: Any, who: str, revision: str, autojump_clock: object
) -> None:
    clients = [KnownClient("sso", secret="s3cret", known_as={ISSUER: "desk"})]
    street = Street(login(token_seconds=600), others={IDP: login(IDP, clients=clients)})
    auth, who = make(street, Signer()), "job" if make is enterprise else "client job"

    async with street.open(), street.client(auth, revision=revision) as client:
        assert await said(client, "whoami") == who
        await trio.sleep(700)
        assert await said(client, "whoami") == who
        assert await said(client, "buy") == f"{who} buys"

    assert len(street.auth.asked("token")) == 3
    assert street.auth.asked("authorize") == []


async def test_a_token_that_the_application_has_got_is_shown_and_another_one_when_it_is_refused(
    autojump_clock: object,
) -> None:
    street = Street(login(token_seconds=600))

    async def token() -> str:
        return street.auth.issue_token(resource=URL, subject="eve")

    async with street.open(), street.client(Bearer(token)) as client:
        assert await said(client, "whoami") == "eve"
        await trio.sleep(700)
        assert await said(client, "whoami") == "eve"


# What is kept.


@pytest.mark.requirement("C.2-18")
async def test_the_next_client_uses_what_is_in_the_storage_and_asks_nobody(autojump_clock: object) -> None:
    street, storage = Street(login(token_seconds=600)), MemoryTokenStorage()

    async with street.open():
        async with street.client(person(street.auth, storage=storage)) as client:
            assert await said(client, "buy") == "ada buys"
        asked = len(street.auth.requests)
        for revision in (MODERN, LATEST):
            async with street.client(nobody(storage=storage), revision=revision) as client:
                assert await said(client, "buy") == "ada buys"
        assert len(street.auth.requests) == asked
        await trio.sleep(700)
        async with street.client(nobody(storage=storage)) as client:
            assert await said(client, "buy") == "ada buys"

    assert (street.auth.refreshes, len(street.auth.asked("register"))) == (1, 1)


def moving() -> tuple[Street, Street]:
    """Return a shop, and the same one when it has gone over to another authorization server."""
    known = [KnownClient("desk", redirect_uris=[BACK])]
    return Street(login(clients=known)), Street(login(NEW, users={"bea": "x"}, clients=known))


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize("by_hand", [False, True])
async def test_when_a_server_moves_to_another_authorization_server_nothing_of_the_old_one_is_shown_there(
    by_hand: bool, autojump_clock: object
) -> None:
    storage, streets = MemoryTokenStorage(), moving()

    for street, who in zip(streets, ("ada", "bea"), strict=True):
        desk = Registration("desk", method="none", issuer=street.auth.issuer) if by_hand else None
        async with street.open(), street.client(person(street.auth, storage=storage, client=desk)) as client:
            assert await said(client, "whoami") == who

    _, new = streets
    assert [asked.parameters["grant_type"] for asked in new.auth.asked("token")] == ["authorization_code"]
    if not by_hand:
        first, second = (street.auth.asked("authorize")[0].parameters["client_id"] for street in streets)
        assert first != second


@pytest.mark.requirement("C.2-9")
async def test_a_client_that_may_be_the_old_authorization_server_s_does_not_go_over_to_the_new_one(
    autojump_clock: object,
) -> None:
    storage, desk, (street, moved) = MemoryTokenStorage(), Registration("desk", method="none"), moving()

    async with street.open(), street.client(person(street.auth, storage=storage, client=desk)) as client:
        assert await said(client, "whoami") == "ada"
    async with moved.open():
        with pytest.raises(AuthorizationFailed, match=NEW):
            async with moved.client(person(moved.auth, storage=storage, client=desk)):
                raise AssertionError

    assert {request.endpoint for request in moved.auth.requests} <= {"metadata", "jwks"}


async def test_accounts_of_one_storage_are_not_mixed_up(autojump_clock: object) -> None:
    street, storage = Street(), MemoryTokenStorage()

    async with street.open():
        for name in ("ada", "bea", "ada", "bea"):
            street.auth.settings.users = {name: "x"}
            async with street.client(person(street.auth, storage=storage, account=name)) as client:
                assert await said(client, "whoami") == name

    assert len(street.auth.asked("authorize")) == 2


# On sockets, with a browser's way back.


@pytest.mark.requirement("C.2-16", "C.2-18")
@pytest.mark.parametrize("revision", [MODERN, LATEST])
async def test_over_sockets_a_browser_comes_back_and_what_it_brings_is_kept_in_a_file(
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
                assert await said(client, "whoami") == "ada"
                assert await said(client, "erase") == "erased by ada"
            asked = len(auth.requests)
            async with open_http_client(url, auth=OAuth(show=fail, storage=storage), revision=revision) as client:
                assert await said(client, "erase") == "erased by ada"

        assert len(auth.requests) == asked
        redirects = {request.parameters["redirect_uri"] for request in auth.asked("authorize")}
    assert all(uri.startswith("http://127.0.0.1:") for uri in redirects)
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert BACK not in redirects
