"""Client identification: preregistered clients, metadata documents, stored registrations and dynamic registration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from tests.auth.client.flow_script import (
    ISSUER,
    NOW,
    REDIRECT_URI,
    TOKEN_ISSUER,
    FlowScript,
    Reply,
    error_reply,
    issuer_with,
    json_reply,
)
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import CallFailed, HttpReply, Registration
from trio_mcp.auth.client._discovery import ResourceMetadata, TokenIssuer
from trio_mcp.auth.client._registration import (
    ClientProfile,
    UsableRegistration,
    check_issuer,
    ensure_registration,
    find_registration,
    forget_registration,
)
from trio_mcp.auth.client._steps import PickRedirect, Swap

DOCUMENT = "https://me.example/client.json"
PROFILE = ClientProfile(
    identity="me", account="", registration=None, metadata_url=None, redirect_uri=None, names={"client_name": "Me"}
)
READS_DOCUMENTS = issuer_with(client_id_metadata_document_supported=True)


def registered(client_id: str = "new", **members: Any) -> HttpReply:
    return json_reply({"client_id": client_id, **members}, status=201)


def registration_in(
    script: FlowScript,
    profile: ClientProfile = PROFILE,
    token_issuer: TokenIssuer = TOKEN_ISSUER,
    scopes: tuple[str, ...] | None = ("read",),
    *,
    dpop: bool = False,
) -> UsableRegistration:
    return script.run(ensure_registration(token_issuer, profile, scopes, dpop=dpop))


def preferred_uris(script: FlowScript) -> list[str | None]:
    return [step.preferred for step in script.steps if isinstance(step, PickRedirect)]


@pytest.mark.requirement("C.2-6")
def test_a_preregistered_client_is_never_registered_again() -> None:
    client = Registration("mine", secret="s3cret", issuer=ISSUER, redirect_uri="http://127.0.0.1/callback")
    script = FlowScript()

    usable = registration_in(script, evolve(PROFILE, registration=client, metadata_url=DOCUMENT), READS_DOCUMENTS)

    assert usable == UsableRegistration(registration=evolve(client, redirect_uri=REDIRECT_URI))
    assert usable.redirect_uri == REDIRECT_URI
    assert preferred_uris(script) == ["http://127.0.0.1/callback"]
    assert script.calls == []


@pytest.mark.requirement("C.2-9")
def test_a_client_that_is_preregistered_with_another_issuer_is_an_error() -> None:
    client = Registration("mine", secret="s3cret", issuer="https://auth.example.com/")

    with pytest.raises(AuthorizationFailed, match=r"'mine' is for https://auth\.example\.com/, but") as caught:
        registration_in(FlowScript(), evolve(PROFILE, registration=client))

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("issuer", [None, ISSUER])
def test_a_preregistered_client_is_used_with_its_issuer_or_any_issuer(issuer: str | None) -> None:
    check_issuer(issuer, TOKEN_ISSUER, "it")


@pytest.mark.requirement("C.2-6", "C.2-7")
def test_a_server_with_metadata_document_support_gets_the_url_of_the_document_as_client_id() -> None:
    script = FlowScript()

    usable = registration_in(script, evolve(PROFILE, metadata_url=DOCUMENT, redirect_uri=REDIRECT_URI), READS_DOCUMENTS)

    assert usable.registration == Registration(DOCUMENT, method="none", issuer=ISSUER, redirect_uri=REDIRECT_URI)
    assert usable.key is None
    assert preferred_uris(script) == [REDIRECT_URI]
    assert script.calls == []


@pytest.mark.requirement("C.2-6")
def test_a_client_is_registered_at_a_server_without_metadata_document_support() -> None:
    script = FlowScript([registered()])

    usable = registration_in(script, evolve(PROFILE, metadata_url=DOCUMENT))

    assert usable.registration.client_id == "new"


@pytest.mark.requirement("C.2-8")
def test_an_unknown_client_is_registered_and_stored() -> None:
    script = FlowScript([registered(client_secret="s3cret", token_endpoint_auth_method="client_secret_post")])

    usable = registration_in(script)

    assert usable.registration == Registration(
        "new", secret="s3cret", method="client_secret_post", issuer=ISSUER, redirect_uri=REDIRECT_URI
    )
    assert usable.is_new
    assert "s3cret" not in repr(usable)
    assert script.values == {usable.key: usable.text}
    (call,) = script.calls
    assert (call.method, call.url, call.named_by) == ("POST", f"{ISSUER}/register", "server")
    assert call.headers["content-type"] == "application/json"
    assert json.loads(call.body) == PROFILE.introduction(TOKEN_ISSUER.server, REDIRECT_URI, ("read",), dpop=False)


def test_a_stored_registration_is_used() -> None:
    script = FlowScript([registered()])
    first = registration_in(script)

    second = registration_in(script)

    assert second == evolve(first, is_new=False)
    assert len(script.calls) == 1
    assert preferred_uris(script) == [None, REDIRECT_URI]
    assert script.run(find_registration(TOKEN_ISSUER, PROFILE)) == second


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize(
    ("profile", "token_issuer"),
    [
        (PROFILE, issuer_with(issuer="https://other.example.com")),
        (PROFILE, evolve(TOKEN_ISSUER, resource=None, url="https://mcp.example.com/other")),
        (
            PROFILE,
            evolve(
                TOKEN_ISSUER,
                resource=ResourceMetadata(resource="https://mcp.example.com", authorization_servers=(ISSUER,)),
            ),
        ),
        (evolve(PROFILE, identity="you"), TOKEN_ISSUER),
        (evolve(PROFILE, account="work"), TOKEN_ISSUER),
    ],
)
def test_a_registration_is_specific_to_issuer_server_client_and_account(
    profile: ClientProfile, token_issuer: TokenIssuer
) -> None:
    script = FlowScript([registered("first"), registered("second")])
    registration_in(script)

    assert script.run(find_registration(token_issuer, profile)) is None
    assert registration_in(script, profile, token_issuer).registration.client_id == "second"
    assert len(script.values) == 2


def test_all_spellings_of_a_server_url_without_metadata_share_a_registration() -> None:
    script = FlowScript([registered()])
    old = evolve(TOKEN_ISSUER, resource=None)
    registration_in(script, token_issuer=evolve(old, url="https://MCP.example.com:443/mcp/"))

    usable = registration_in(script, token_issuer=evolve(old, url="https://mcp.example.com/mcp"))

    assert usable.registration.client_id == "new"
    assert len(script.calls) == 1


def test_a_registration_with_an_occupied_redirect_uri_is_replaced() -> None:
    script = FlowScript([registered("first"), registered("second")])
    registration_in(script)
    script.picks = "http://127.0.0.1:4712/callback"

    usable = registration_in(script)

    assert usable.registration == Registration("second", method="none", issuer=ISSUER, redirect_uri=script.picks)
    assert list(script.values.values()) == [usable.text]


def test_a_registration_with_an_expired_secret_is_replaced() -> None:
    script = FlowScript(
        [registered("first", client_secret="s", client_secret_expires_at=NOW + 5), registered("second")]
    )
    registration_in(script)
    script.time = NOW + 5

    assert registration_in(script).registration.client_id == "second"


def test_a_registration_with_a_permanent_secret_is_kept() -> None:
    script = FlowScript([registered("first", client_secret="s", client_secret_expires_at=0)])
    registration_in(script)
    script.time = NOW * 1000

    assert registration_in(script).registration.client_id == "first"


def test_a_registration_without_the_required_scopes_is_replaced() -> None:
    script = FlowScript([registered("first"), registered("second")])
    registration_in(script, scopes=("read",))

    usable = registration_in(script, scopes=("read", "write"))

    assert usable.registration.client_id == "second"
    assert json.loads(script.calls[1].body)["scope"] == "read write"


SCOPED = evolve(
    TOKEN_ISSUER,
    resource=ResourceMetadata(
        resource="https://mcp.example.com/mcp", authorization_servers=(ISSUER,), scopes_supported=("read", "write", "x")
    ),
)


@pytest.mark.parametrize(
    ("token_issuer", "scopes", "scope"),
    [
        (SCOPED, ("admin", "read"), "admin read write x"),
        (evolve(SCOPED, server=evolve(TOKEN_ISSUER.server, scopes_supported=("write",))), ("read",), "read write"),
        (evolve(TOKEN_ISSUER, resource=None), ("read",), "read"),
        (SCOPED, None, None),
    ],
)
def test_a_client_registers_all_scopes_that_it_may_need_later(
    token_issuer: TokenIssuer, scopes: tuple[str, ...] | None, scope: str | None
) -> None:
    script = FlowScript([registered()])

    registration_in(script, token_issuer=token_issuer, scopes=scopes)

    assert json.loads(script.calls[0].body).get("scope") == scope


def test_a_malformed_stored_registration_is_replaced() -> None:
    script = FlowScript([registered("first"), registered("second")])
    key = registration_in(script).key
    assert key is not None
    script.values[key] = '{"version": 2}'

    usable = registration_in(script)

    assert usable.registration.client_id == "second"
    assert script.values == {key: usable.text}


def test_two_processes_that_register_at_the_same_time_use_the_same_registration() -> None:
    other = FlowScript([registered("theirs")])

    def answer_late(_: object) -> HttpReply:
        registration_in(other)
        script.values.update(other.values)
        return registered("ours")

    script = FlowScript([answer_late])

    usable = registration_in(script)

    assert usable.registration.client_id == "theirs"
    assert script.values == other.values


def test_an_unsuitable_registration_of_another_process_is_replaced() -> None:
    other = FlowScript([registered("theirs")], picks="http://127.0.0.1:4712/callback")

    def answer_late(_: object) -> HttpReply:
        registration_in(other)
        script.values.update(other.values)
        return registered("ours")

    script = FlowScript([answer_late])

    usable = registration_in(script)

    assert usable.registration.client_id == "ours"
    assert list(script.values.values()) == [usable.text]


def test_registration_gives_up_if_the_storage_keeps_changing() -> None:
    class Busy(FlowScript):
        def _swap(self, key: str, old: str | None, new: str | None) -> bool:
            return False

    script = Busy([registered()])

    with pytest.raises(AuthorizationFailed, match="could not be stored"):
        registration_in(script)

    assert sum(isinstance(step, Swap) for step in script.steps) == 4


@pytest.mark.requirement("C.2-6")
@pytest.mark.parametrize("reads", [True, False])
def test_without_dynamic_registration_the_error_names_the_option_to_pass(reads: bool) -> None:
    token_issuer = issuer_with(registration_endpoint=None, client_id_metadata_document_supported=reads)

    with pytest.raises(AuthorizationFailed, match=r"client=Registration\('its client id'\)") as caught:
        registration_in(FlowScript(), token_issuer=token_issuer)

    assert ("client_metadata_url=" in str(caught.value)) is reads


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (error_reply("invalid_redirect_uri", "no loopback"), r"was refused: invalid_redirect_uri \(no loopback\)"),
        (HttpReply(status=403), "HTTP status 403"),
        (HttpReply(status=302, headers={"location": "https://evil.example/"}), "HTTP status 302"),
        (CallFailed("no route"), "failed: no route"),
        (HttpReply(status=201, body=b"welcome"), "not a JSON object"),
        (registered(""), "client_id is missing"),
        (json_reply({"client_id": 7}), "client_id is not a string"),
        (registered(client_secret=7), "client_secret is not a string"),
        (registered(token_endpoint_auth_method="client_secret_post"), "client_secret is missing"),
        (registered(token_endpoint_auth_method="private_key_jwt"), "the authentication method 'private_key_jwt'"),
        (registered(token_endpoint_auth_method=7), "the authentication method '7'"),
        (registered(client_secret="s", client_secret_expires_at="soon"), "client_secret_expires_at is not a number"),
        (registered(client_secret="s", client_secret_expires_at=True), "client_secret_expires_at is not a number"),
    ],
)
def test_a_failed_registration_is_reported_and_stores_nothing(reply: Reply, fault: str) -> None:
    script = FlowScript([reply])

    with pytest.raises(AuthorizationFailed, match=fault) as caught:
        registration_in(script)

    assert "the registration at https://auth.example.com/register" in str(caught.value)
    assert script.values == {}
    assert len(script.calls) == 1


def test_a_refused_registration_carries_the_error_code() -> None:
    with pytest.raises(AuthorizationFailed) as caught:
        registration_in(FlowScript([error_reply("invalid_client_metadata")]))

    assert caught.value.error == "invalid_client_metadata"


@pytest.mark.requirement("C.2-17")
@pytest.mark.parametrize(
    ("listed", "members", "method"),
    [
        (("none",), {"client_secret": "s"}, "none"),  # issues a secret to every client
        (None, {"client_secret": "s"}, None),  # changes a requested value
        (None, {}, "none"),
        (("client_secret_post",), {"client_secret": "s"}, "client_secret_post"),
        (("none",), {"client_secret": "s", "token_endpoint_auth_method": "client_secret_basic"}, "client_secret_basic"),
    ],
)
def test_the_authentication_method_is_the_returned_or_else_the_requested_one(
    listed: tuple[str, ...] | None, members: dict[str, Any], method: str | None
) -> None:
    token_issuer = issuer_with(token_endpoint_auth_methods_supported=listed)

    assert registration_in(FlowScript([registered(**members)]), token_issuer=token_issuer).registration.method == method


def test_a_client_with_bound_tokens_registers_that() -> None:
    script = FlowScript([registered()])

    registration_in(script, dpop=True)

    assert json.loads(script.calls[0].body)["dpop_bound_access_tokens"] is True


def test_a_deleted_registration_is_gone() -> None:
    script = FlowScript([registered()])
    usable = registration_in(script)

    script.run(forget_registration(usable))

    assert script.values == {}
    assert script.run(find_registration(TOKEN_ISSUER, PROFILE)) is None


def test_a_registration_that_another_process_has_replaced_is_not_deleted() -> None:
    script = FlowScript([registered()])
    usable = registration_in(script)
    assert usable.key is not None
    script.values[usable.key] = "newer"

    script.run(forget_registration(usable))

    assert script.values == {usable.key: "newer"}


def test_a_registration_that_was_not_stored_is_not_deleted() -> None:
    script = FlowScript(values={"k": "v"})

    script.run(forget_registration(UsableRegistration(registration=Registration("mine"))))

    assert (script.values, script.steps) == ({"k": "v"}, [])


def test_a_failure_to_pick_a_redirect_uri_prevents_the_registration() -> None:
    script = FlowScript(picks=AuthorizationFailed("no port is free"))

    with pytest.raises(AuthorizationFailed, match="no port is free"):
        registration_in(script)

    assert script.calls == []
