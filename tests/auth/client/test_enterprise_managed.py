"""Enterprise-managed authorization: the identity provider issues an assertion that is exchanged for a token."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from tests.auth.client.flow_script import (
    ISSUER,
    RESOURCE,
    TOKEN_ISSUER,
    FlowScript,
    Reply,
    error_reply,
    issuer_with,
    json_reply,
    token_ask,
    token_reply,
)
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import CallFailed, EnterpriseManaged, HttpReply, Registration
from trio_mcp.auth._dpop import DpopKey, DpopProver

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
GRANTED = json_reply({"access_token": "the.id.jag", "issued_token_type": ID_JAG, "token_type": "N_A"})


def grant(**options: Any) -> EnterpriseManaged:
    whole: dict[str, Any] = {
        "client": Registration("me", secret="s3cret", issuer=ISSUER),
        "idp_client_id": "me-at-idp",
        "idp_issuer": "https://idp.example.com",
        "idp_token_endpoint": "https://idp.example.com/token",
        "id_token": "the.id.token",
        **options,
    }
    return EnterpriseManaged(whole.pop("client"), **whole)


@pytest.mark.requirement("C.4-2")
def test_a_sign_in_at_the_identity_provider_is_exchanged_for_a_token_of_the_server() -> None:
    script = FlowScript([GRANTED, token_reply()])

    tokens = script.run(grant().obtain(token_ask("read")))

    assert tokens.access_token == "t0ken"
    assert [(call.url, call.named_by) for call in script.calls] == [
        ("https://idp.example.com/token", "user"),
        (f"{ISSUER}/token", "server"),
    ]
    exchange, bearer = script.forms
    assert exchange == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": ID_JAG,
        "audience": ISSUER,
        "resource": RESOURCE,
        "subject_token": "the.id.token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "scope": "read",
        "client_id": "me-at-idp",
    }
    assert bearer == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "the.id.jag",
        "scope": "read",
        "resource": RESOURCE,
        "client_id": "me",
    }
    assert "authorization" not in script.calls[0].headers
    assert script.calls[1].headers["authorization"] == "Basic bWU6czNjcmV0"


def test_a_server_without_metadata_is_identified_by_its_url() -> None:
    script = FlowScript([GRANTED, token_reply()])
    token_issuer = evolve(TOKEN_ISSUER, resource=None, url="https://MCP.example.com/mcp/")

    script.run(grant().obtain(token_ask(token_issuer=token_issuer)))

    assert script.forms[0]["resource"] == RESOURCE
    assert "resource" not in script.forms[1]


def test_the_client_may_authenticate_at_the_provider_and_may_use_a_saml_assertion() -> None:
    script = FlowScript([GRANTED, token_reply()])

    script.run(grant(idp_secret="idp-s3cret", id_token_type="saml2").obtain(token_ask()))

    assert script.calls[0].headers["authorization"].startswith("Basic ")
    assert script.forms[0]["subject_token_type"] == "urn:ietf:params:oauth:token-type:saml2"


def test_the_function_provides_the_id_token_for_each_request() -> None:
    counter = iter(range(1, 3))

    async def sign_in() -> str:
        return f"id-{next(counter)}"

    script = FlowScript([GRANTED, token_reply(), GRANTED, token_reply()])
    managed = grant(id_token=sign_in)

    script.run(managed.obtain(token_ask()))
    script.run(managed.refresh(token_ask(), ""))

    assert [form["subject_token"] for form in script.forms[::2]] == ["id-1", "id-2"]


def test_without_an_id_token_the_authorization_fails() -> None:
    async def sign_in() -> str:
        raise LookupError("no user is signed in")

    with pytest.raises(AuthorizationFailed, match="the user's ID token could not be obtained: LookupError"):
        FlowScript().run(grant(id_token=sign_in).obtain(token_ask()))


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (error_reply("invalid_grant", "the.id.token has expired"), r"invalid_grant \(\[secret\] has expired\)"),
        (CallFailed("no route"), r"\(token-exchange\) to https://idp\.example\.com/token failed: no route"),
        (HttpReply(status=200, body=b"hello"), "not a JSON object"),
        (json_reply({"access_token": "x", "issued_token_type": "other"}), "returned no token of the type"),
        (json_reply({"access_token": "x"}), "returned no token of the type"),
        (json_reply({"access_token": 7, "issued_token_type": ID_JAG}), "returned no token of the type"),
        (json_reply({"issued_token_type": ID_JAG}), "returned no token of the type"),
    ],
)
def test_a_refusal_of_the_identity_provider_fails_the_authorization(reply: Reply, fault: str) -> None:
    script = FlowScript([reply])

    with pytest.raises(AuthorizationFailed, match=fault):
        script.run(grant().obtain(token_ask()))

    assert len(script.calls) == 1


def test_a_refusal_of_the_authorization_server_fails_the_authorization() -> None:
    script = FlowScript([GRANTED, error_reply("invalid_grant", "the.id.jag is not for us")])

    with pytest.raises(AuthorizationFailed, match=r"invalid_grant \(\[secret\] is not for us\)") as caught:
        script.run(grant().obtain(token_ask()))

    assert caught.value.error == "invalid_grant"
    assert len(script.calls) == 2


@pytest.mark.requirement("C.2-9", "C.4-2")
def test_no_assertion_is_requested_for_another_authorization_server_than_the_registered_one() -> None:
    script = FlowScript()

    with pytest.raises(AuthorizationFailed, match=r"'me' is for https://auth\.example\.com, but"):
        script.run(grant().obtain(token_ask(token_issuer=issuer_with(issuer="https://evil.example.com"))))

    assert script.steps == []


@pytest.mark.requirement("C.2-9")
def test_a_client_without_an_issuer_stays_with_its_first_authorization_server() -> None:
    assert grant(client=Registration("me", secret="s3cret")).stays_with_issuer
    assert not grant().stays_with_issuer


def test_only_the_token_of_the_protected_server_is_bound_to_a_key() -> None:
    script = FlowScript([GRANTED, token_reply(token_type="DPoP")])

    script.run(grant(dpop=True).obtain(token_ask(proofs=DpopProver(DpopKey.generate()))))

    assert ["dpop" in call.headers for call in script.calls] == [False, True]


@pytest.mark.parametrize(
    "endpoint", ["http://idp.example.com/token", "idp.example.com", "https://u:p@idp.example.com/"]
)
def test_an_unsafe_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="idp_token_endpoint: the token endpoint of the identity provider") as caught:
        grant(idp_token_endpoint=endpoint)

    assert "u:p" not in str(caught.value)


def test_an_endpoint_on_a_local_or_trusted_host_needs_no_tls() -> None:
    grant(idp_token_endpoint="http://localhost:1/token")
    grant(idp_token_endpoint="http://idp.internal/token", trusted_hosts=["idp.internal"])


def test_clients_and_providers_have_distinct_identities_that_contain_no_secret() -> None:
    grants = [
        grant(),
        grant(idp_issuer="https://other.example.com"),
        grant(idp_client_id="you"),
        grant(client=Registration("you")),
    ]

    assert len({each.identity for each in grants}) == 4
    assert not any(secret in repr(grants) for secret in ("s3cret", "the.id.token"))
