"""A client is known by hand, by its document, from earlier, or is registered now: in this order, and to one issuer."""

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


def known_in(
    script: FlowScript,
    profile: ClientProfile = PROFILE,
    token_issuer: TokenIssuer = TOKEN_ISSUER,
    scopes: tuple[str, ...] | None = ("read",),
    *,
    dpop: bool = False,
) -> UsableRegistration:
    return script.run(ensure_registration(token_issuer, profile, scopes, dpop=dpop))


def picked(script: FlowScript) -> list[str | None]:
    return [step.preferred for step in script.steps if isinstance(step, PickRedirect)]


@pytest.mark.requirement("C.2-6")
def test_a_client_registered_by_hand_is_never_registered_again() -> None:
    client = Registration("mine", secret="s3cret", issuer=ISSUER, redirect_uri="http://127.0.0.1/callback")
    script = FlowScript()

    usable = known_in(script, evolve(PROFILE, registration=client, metadata_url=DOCUMENT), READS_DOCUMENTS)

    assert usable == UsableRegistration(registration=evolve(client, redirect_uri=REDIRECT_URI))
    assert usable.redirect_uri == REDIRECT_URI
    assert picked(script) == ["http://127.0.0.1/callback"]
    assert script.calls == []


@pytest.mark.requirement("C.2-9")
def test_a_client_registered_by_hand_elsewhere_is_an_error() -> None:
    client = Registration("mine", secret="s3cret", issuer="https://auth.example.com/")

    with pytest.raises(AuthorizationFailed, match=r"'mine' is for https://auth\.example\.com/, but") as caught:
        known_in(FlowScript(), evolve(PROFILE, registration=client))

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("issuer", [None, ISSUER])
def test_what_is_for_the_issuer_or_for_any_is_shown(issuer: str | None) -> None:
    check_issuer(issuer, TOKEN_ISSUER, "it")


@pytest.mark.requirement("C.2-6", "C.2-7")
def test_a_server_that_reads_documents_knows_a_client_by_the_url_of_its_document() -> None:
    script = FlowScript()

    usable = known_in(script, evolve(PROFILE, metadata_url=DOCUMENT, redirect_uri=REDIRECT_URI), READS_DOCUMENTS)

    assert usable.registration == Registration(DOCUMENT, method="none", issuer=ISSUER, redirect_uri=REDIRECT_URI)
    assert usable.key is None
    assert picked(script) == [REDIRECT_URI]
    assert script.calls == []


@pytest.mark.requirement("C.2-6")
def test_a_server_that_reads_none_is_registered_at() -> None:
    script = FlowScript([registered()])

    usable = known_in(script, evolve(PROFILE, metadata_url=DOCUMENT))

    assert usable.registration.client_id == "new"


@pytest.mark.requirement("C.2-8")
def test_a_client_that_is_unknown_is_registered_and_stored() -> None:
    script = FlowScript([registered(client_secret="s3cret", token_endpoint_auth_method="client_secret_post")])

    usable = known_in(script)

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


def test_a_client_that_was_registered_earlier_is_known() -> None:
    script = FlowScript([registered()])
    first = known_in(script)

    second = known_in(script)

    assert second == evolve(first, is_new=False)
    assert len(script.calls) == 1
    assert picked(script) == [None, REDIRECT_URI]
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
def test_a_registration_is_for_one_issuer_server_client_and_account(
    profile: ClientProfile, token_issuer: TokenIssuer
) -> None:
    script = FlowScript([registered("first"), registered("second")])
    known_in(script)

    assert script.run(find_registration(token_issuer, profile)) is None
    assert known_in(script, profile, token_issuer).registration.client_id == "second"
    assert len(script.values) == 2


def test_all_spellings_of_a_server_without_metadata_share_a_registration() -> None:
    script = FlowScript([registered()])
    old = evolve(TOKEN_ISSUER, resource=None)
    known_in(script, token_issuer=evolve(old, url="https://MCP.example.com:443/mcp/"))

    usable = known_in(script, token_issuer=evolve(old, url="https://mcp.example.com/mcp"))

    assert usable.registration.client_id == "new"
    assert len(script.calls) == 1


def test_a_registration_whose_redirect_uri_is_taken_is_made_anew_in_its_place() -> None:
    script = FlowScript([registered("first"), registered("second")])
    known_in(script)
    script.picks = "http://127.0.0.1:4712/callback"

    usable = known_in(script)

    assert usable.registration == Registration("second", method="none", issuer=ISSUER, redirect_uri=script.picks)
    assert list(script.values.values()) == [usable.text]


def test_a_registration_whose_secret_has_ended_is_made_anew() -> None:
    script = FlowScript(
        [registered("first", client_secret="s", client_secret_expires_at=NOW + 5), registered("second")]
    )
    known_in(script)
    script.time = NOW + 5

    assert known_in(script).registration.client_id == "second"


def test_a_secret_that_never_ends_stays() -> None:
    script = FlowScript([registered("first", client_secret="s", client_secret_expires_at=0)])
    known_in(script)
    script.time = NOW * 1000

    assert known_in(script).registration.client_id == "first"


def test_a_registration_that_may_not_ask_for_enough_is_made_anew() -> None:
    script = FlowScript([registered("first"), registered("second")])
    known_in(script, scopes=("read",))

    usable = known_in(script, scopes=("read", "write"))

    assert usable.registration.client_id == "second"
    assert json.loads(script.calls[1].body)["scope"] == "read write"


SCOPED = evolve(
    TOKEN_ISSUER,
    resource=ResourceMetadata(
        resource="https://mcp.example.com/mcp", authorization_servers=(ISSUER,), scopes_supported=("read", "write", "x")
    ),
)


@pytest.mark.parametrize(
    ("token_issuer", "asked", "scope"),
    [
        (SCOPED, ("admin", "read"), "admin read write x"),
        (evolve(SCOPED, server=evolve(TOKEN_ISSUER.server, scopes_supported=("write",))), ("read",), "read write"),
        (evolve(TOKEN_ISSUER, resource=None), ("read",), "read"),
        (SCOPED, None, None),
    ],
)
def test_a_client_is_registered_with_what_it_may_need_one_day(
    token_issuer: TokenIssuer, asked: tuple[str, ...] | None, scope: str | None
) -> None:
    script = FlowScript([registered()])

    known_in(script, token_issuer=token_issuer, scopes=asked)

    assert json.loads(script.calls[0].body).get("scope") == scope


def test_a_stored_text_that_is_no_registration_is_replaced() -> None:
    script = FlowScript([registered("first"), registered("second")])
    key = known_in(script).key
    assert key is not None
    script.values[key] = '{"version": 2}'

    usable = known_in(script)

    assert usable.registration.client_id == "second"
    assert script.values == {key: usable.text}


def test_two_processes_that_register_at_once_agree_on_one_registration() -> None:
    other = FlowScript([registered("theirs")])

    def answer_late(_: object) -> HttpReply:
        known_in(other)
        script.values.update(other.values)
        return registered("ours")

    script = FlowScript([answer_late])

    usable = known_in(script)

    assert usable.registration.client_id == "theirs"
    assert script.values == other.values


def test_a_registration_of_another_process_that_does_not_fit_is_replaced() -> None:
    other = FlowScript([registered("theirs")], picks="http://127.0.0.1:4712/callback")

    def answer_late(_: object) -> HttpReply:
        known_in(other)
        script.values.update(other.values)
        return registered("ours")

    script = FlowScript([answer_late])

    usable = known_in(script)

    assert usable.registration.client_id == "ours"
    assert list(script.values.values()) == [usable.text]


def test_a_storage_that_is_never_what_it_was_is_given_up() -> None:
    class Busy(FlowScript):
        def _swap(self, key: str, old: str | None, new: str | None) -> bool:
            return False

    script = Busy([registered()])

    with pytest.raises(AuthorizationFailed, match="could not be stored"):
        known_in(script)

    assert sum(isinstance(step, Swap) for step in script.steps) == 4


@pytest.mark.requirement("C.2-6")
@pytest.mark.parametrize("reads", [True, False])
def test_without_dynamic_registration_the_error_names_the_option_to_pass(reads: bool) -> None:
    token_issuer = issuer_with(registration_endpoint=None, client_id_metadata_document_supported=reads)

    with pytest.raises(AuthorizationFailed, match=r"client=Registration\('its client id'\)") as caught:
        known_in(FlowScript(), token_issuer=token_issuer)

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
def test_a_registration_that_fails_says_why_and_stores_nothing(reply: Reply, fault: str) -> None:
    script = FlowScript([reply])

    with pytest.raises(AuthorizationFailed, match=fault) as caught:
        known_in(script)

    assert "the registration at https://auth.example.com/register" in str(caught.value)
    assert script.values == {}
    assert len(script.calls) == 1


def test_a_refused_registration_carries_the_code() -> None:
    with pytest.raises(AuthorizationFailed) as caught:
        known_in(FlowScript([error_reply("invalid_client_metadata")]))

    assert caught.value.error == "invalid_client_metadata"


@pytest.mark.requirement("C.2-17")
@pytest.mark.parametrize(
    ("listed", "members", "method"),
    [
        (("none",), {"client_secret": "s"}, "none"),  # it gives secrets to everybody
        (None, {"client_secret": "s"}, None),  # it means something else than what was asked for
        (None, {}, "none"),
        (("client_secret_post",), {"client_secret": "s"}, "client_secret_post"),
        (("none",), {"client_secret": "s", "token_endpoint_auth_method": "client_secret_basic"}, "client_secret_basic"),
    ],
)
def test_how_the_client_authenticates_is_what_the_server_says_or_what_was_asked_for(
    listed: tuple[str, ...] | None, members: dict[str, Any], method: str | None
) -> None:
    token_issuer = issuer_with(token_endpoint_auth_methods_supported=listed)

    assert known_in(FlowScript([registered(**members)]), token_issuer=token_issuer).registration.method == method


def test_a_client_whose_tokens_are_bound_is_registered_so() -> None:
    script = FlowScript([registered()])

    known_in(script, dpop=True)

    assert json.loads(script.calls[0].body)["dpop_bound_access_tokens"] is True


def test_a_registration_that_is_forgotten_is_gone() -> None:
    script = FlowScript([registered()])
    usable = known_in(script)

    script.run(forget_registration(usable))

    assert script.values == {}
    assert script.run(find_registration(TOKEN_ISSUER, PROFILE)) is None


def test_a_registration_that_somebody_has_replaced_is_not_forgotten() -> None:
    script = FlowScript([registered()])
    usable = known_in(script)
    assert usable.key is not None
    script.values[usable.key] = "newer"

    script.run(forget_registration(usable))

    assert script.values == {usable.key: "newer"}


def test_a_registration_that_was_not_stored_is_not_deleted() -> None:
    script = FlowScript(values={"k": "v"})

    script.run(forget_registration(UsableRegistration(registration=Registration("mine"))))

    assert (script.values, script.steps) == ({"k": "v"}, [])


def test_a_failed_redirect_ends_it_before_anything_is_registered() -> None:
    script = FlowScript(picks=AuthorizationFailed("no port is free"))

    with pytest.raises(AuthorizationFailed, match="no port is free"):
        known_in(script)

    assert script.calls == []
