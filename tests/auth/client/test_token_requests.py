"""Token requests: parameters, client authentication, proofs, and the checks of the response."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tests.auth.client.flow_script import (
    ISSUER,
    NOW,
    RESOURCE,
    TOKEN_ISSUER,
    FlowScript,
    error_reply,
    issuer_with,
    json_reply,
    token_ask,
    token_reply,
)
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import CallFailed, HttpReply, Registration
from trio_mcp.auth._dpop import DpopKey, DpopProver
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens, request_tokens, scope_member

CLIENT = Registration("me", method="none")
FORM = {"grant_type": "authorization_code", "code": "kc0de-1234"}


def request(script: FlowScript, ask: TokenAsk | None = None, registration: Registration | None = CLIENT) -> Tokens:
    return script.run(request_tokens(ask or token_ask(), registration, FORM))


def claims_of(proof: str) -> dict[str, Any]:
    payload = proof.split(".")[1]
    return dict(json_reply_of(base64.urlsafe_b64decode(payload + "==")))


def json_reply_of(data: bytes) -> dict[str, Any]:
    from trio_mcp.wire import decode

    members: dict[str, Any] = decode(data)
    return members


@pytest.mark.requirement("C.2-11")
def test_a_request_contains_the_resource_unchanged_and_returns_tokens() -> None:
    script = FlowScript([token_reply(refresh_token="r3fresh", scope="read write read")])

    tokens = request(script)

    assert tokens == Tokens(
        access_token="t0ken",
        token_type="Bearer",
        expires_at=NOW + 3600,
        refresh_token="r3fresh",
        scopes=("read", "write"),
    )
    assert script.forms == [{**FORM, "resource": RESOURCE, "client_id": "me"}]
    (call,) = script.calls
    assert (call.method, call.url, call.named_by) == ("POST", f"{ISSUER}/token", "server")
    assert call.headers["accept"] == "application/json"
    assert "dpop" not in call.headers


def test_a_request_for_a_server_without_metadata_contains_no_resource() -> None:
    script = FlowScript([token_reply()])

    request(script, token_ask(token_issuer=evolve(TOKEN_ISSUER, resource=None)))

    assert script.forms == [{**FORM, "client_id": "me"}]


@pytest.mark.requirement("C.2-17")
@pytest.mark.parametrize(
    ("methods", "in_header", "members"),
    [
        (("client_secret_basic",), True, {"client_id"}),
        (("client_secret_post",), False, {"client_id", "client_secret"}),
        (("none",), False, {"client_id"}),
    ],
)
def test_the_client_authenticates_with_a_method_of_the_server(
    methods: tuple[str, ...], in_header: bool, members: set[str]
) -> None:
    script = FlowScript([token_reply()])

    request(
        script,
        token_ask(token_issuer=issuer_with(token_endpoint_auth_methods_supported=methods)),
        Registration("me", secret="x"),
    )

    assert ("authorization" in script.calls[0].headers) is in_header
    assert set(script.forms[0]) - {*FORM, "resource"} == members


def test_a_request_may_be_sent_without_a_client() -> None:
    script = FlowScript([token_reply()])

    request(script, registration=None)

    assert script.forms == [{**FORM, "resource": RESOURCE}]
    assert "authorization" not in script.calls[0].headers


def test_expiry_and_scopes_may_be_missing() -> None:
    tokens = request(FlowScript([token_reply(expires_in=None)]))

    assert (tokens.expires_at, tokens.scopes, tokens.refresh_token) == (None, None, None)


@pytest.mark.parametrize("scope", ["", "  "])
def test_an_empty_list_of_scopes_counts_as_missing(scope: str) -> None:
    assert request(FlowScript([token_reply(scope=scope, refresh_token="")])).scopes is None


def test_the_lifetime_of_a_token_is_counted_from_before_the_request() -> None:
    script = FlowScript()

    def answer_late(_: object) -> HttpReply:
        script.time += 50
        return token_reply(expires_in=100)

    script.replies = [answer_late]

    assert request(script).expires_at == NOW + 100


@pytest.mark.parametrize(("seconds", "lifetime"), [(0, 0), (1.5, 1.5), ("3600", 3600), (10**400, 10 * 365 * 86_400)])
def test_the_lifetime_is_read_as_a_number_of_seconds(seconds: object, lifetime: float) -> None:
    assert request(FlowScript([token_reply(expires_in=seconds)])).expires_at == NOW + lifetime


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"access_token": None}, "access_token is missing"),
        ({"access_token": 17}, "access_token is missing"),
        ({"access_token": ""}, "access_token is missing"),
        ({"access_token": "t0ken\r\nx-evil: 1"}, "a header field cannot carry it"),
        ({"access_token": "t0ken t0ken"}, "a header field cannot carry it"),
        ({"access_token": "t0kén"}, "a header field cannot carry it"),
        ({"token_type": None}, "token_type is ''"),
        ({"token_type": "mac"}, "token_type is 'mac'"),
        ({"token_type": "DPoP"}, "token_type is 'DPoP', but 'Bearer' was requested"),
        ({"token_type": ["Bearer"]}, "token_type is ''"),
        ({"expires_in": "soon"}, "expires_in"),
        ({"expires_in": "٣"}, "expires_in"),
        ({"expires_in": True}, "expires_in"),
        ({"expires_in": -1}, "expires_in"),
        ({"expires_in": [1]}, "expires_in"),
        ({"scope": ["read"]}, "scope is not a string"),
        ({"refresh_token": 1}, "refresh_token is not a string"),
    ],
)
def test_a_response_with_an_invalid_member_is_refused(members: dict[str, Any], fault: str) -> None:
    with pytest.raises(AuthorizationFailed, match=fault) as caught:
        request(FlowScript([token_reply(**members)]))

    assert caught.value.error is None
    assert "t0ken" not in str(caught.value)
    assert "the token request (authorization_code) to https://auth.example.com/token" in str(caught.value)


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN"])
def test_an_infinite_lifetime_is_refused(number: bytes) -> None:
    body = b'{"access_token": "t", "token_type": "Bearer", "expires_in": %s}' % number

    with pytest.raises(AuthorizationFailed):
        request(FlowScript([HttpReply(status=200, body=body)]))


@pytest.mark.parametrize("token_type", ["bearer", "BEARER", "Bearer"])
def test_the_token_type_is_case_insensitive(token_type: str) -> None:
    assert request(FlowScript([token_reply(token_type=token_type)])).token_type == "Bearer"


@pytest.mark.parametrize("body", [b"", b"access_token=t0ken&token_type=bearer", b"[]", b"[" * 100_000])
def test_a_response_that_is_not_a_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(AuthorizationFailed, match="not a JSON object"):
        request(FlowScript([HttpReply(status=200, body=body)]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=2)
)


@given(st.dictionaries(st.sampled_from(["access_token", "token_type", "expires_in", "scope", "refresh_token"]), JSON))
def test_any_response_leads_to_tokens_or_a_failure(members: dict[str, Any]) -> None:
    script = FlowScript([json_reply({"access_token": "t", "token_type": "Bearer", **members})])

    try:
        tokens = request(script)
    except AuthorizationFailed:
        return

    assert tokens.access_token.isascii()
    assert tokens.expires_at is None or tokens.expires_at >= NOW


def test_a_refusal_carries_its_code_and_no_secret() -> None:
    client = Registration("me", secret="s3cret-value", method="client_secret_post")
    script = FlowScript([error_reply("invalid_grant", "no kc0de-1234 for s3cret-value")])

    with pytest.raises(AuthorizationFailed, match=r"invalid_grant \(no \[secret\] for \[secret\]\)") as caught:
        request(script, registration=client)

    assert caught.value.error == "invalid_grant"
    assert len(script.calls) == 1


@pytest.mark.parametrize("status", [201, 302, 401, 503])
def test_a_response_with_another_status_fails_and_the_request_is_not_repeated(status: int) -> None:
    script = FlowScript([HttpReply(status=status, headers={"location": "https://evil.example/"}, body=b"{}")])

    with pytest.raises(AuthorizationFailed, match=f"HTTP status {status}"):
        request(script)

    assert len(script.calls) == 1


def test_a_request_that_cannot_be_sent_reports_the_reason() -> None:
    with pytest.raises(AuthorizationFailed, match="failed: no route") as caught:
        request(FlowScript([CallFailed("no route")]))

    assert caught.value.error is None


def test_a_bound_token_is_requested_with_a_proof() -> None:
    proofs = DpopProver(DpopKey.generate())
    script = FlowScript([token_reply(token_type="dpop")])

    tokens = request(script, token_ask(proofs=proofs))

    assert tokens.token_type == "DPoP"
    claims = claims_of(script.calls[0].headers["dpop"])
    assert (claims["htm"], claims["htu"], claims["iat"]) == ("POST", f"{ISSUER}/token", int(NOW))
    assert "nonce" not in claims


def test_a_bearer_token_is_refused_if_a_bound_token_was_requested() -> None:
    with pytest.raises(AuthorizationFailed, match="'Bearer', but 'DPoP' was requested"):
        request(FlowScript([token_reply()]), token_ask(proofs=DpopProver(DpopKey.generate())))


def test_a_server_that_requires_a_nonce_gets_a_second_request_with_a_new_proof() -> None:
    proofs = DpopProver(DpopKey.generate())
    client = Registration("me", secret="s3cret", method="client_secret_basic")
    again = error_reply("use_dpop_nonce", dpop_nonce="n0nce")
    script = FlowScript([again, evolve(token_reply(token_type="DPoP"), headers={"dpop-nonce": "next"})])

    request(script, token_ask(proofs=proofs), client)

    first, second = (claims_of(call.headers["dpop"]) for call in script.calls)
    assert second["nonce"] == "n0nce"
    assert first["jti"] != second["jti"]
    assert proofs.nonces == {ISSUER: "next"}
    assert script.forms[0] == script.forms[1]


def test_a_server_that_refuses_its_own_nonce_is_not_asked_again() -> None:
    again = error_reply("use_dpop_nonce", dpop_nonce="n0nce")
    script = FlowScript([again, again])

    with pytest.raises(AuthorizationFailed) as caught:
        request(script, token_ask(proofs=DpopProver(DpopKey.generate())))

    assert caught.value.error == "use_dpop_nonce"
    assert len(script.calls) == 2


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_nonce_error_without_a_nonce_or_without_a_key_is_a_refusal(is_bound: bool) -> None:
    reply = error_reply("use_dpop_nonce") if is_bound else error_reply("use_dpop_nonce", dpop_nonce="n0nce")
    script = FlowScript([reply])

    with pytest.raises(AuthorizationFailed, match="use_dpop_nonce"):
        request(script, token_ask(proofs=DpopProver(DpopKey.generate()) if is_bound else None))

    assert len(script.calls) == 1


def test_scopes_are_sent_in_one_parameter_which_is_omitted_if_there_are_none() -> None:
    assert scope_member(("read", "write")) == {"scope": "read write"}
    assert scope_member(()) == {}
    assert scope_member(None) == {}
