"""The grants of programs without a user: client credentials and workload identities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.auth.client.flow_script import (
    ISSUER,
    NOW,
    RESOURCE,
    TOKEN_ISSUER,
    FlowScript,
    error_reply,
    issuer_with,
    token_ask,
    token_reply,
)
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import ClientCredentials, Grant, PrivateKey, WorkloadIdentity
from trio_mcp.auth._dpop import DpopKey, DpopProver

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.mark.requirement("C.4-1")
def test_a_client_sends_its_secret_and_gets_a_token() -> None:
    script = FlowScript([token_reply(refresh_token="r3fresh")])

    tokens = script.run(ClientCredentials("me", secret="s3cret").obtain(token_ask("read", "write")))

    assert (tokens.access_token, tokens.expires_at, tokens.refresh_token) == ("t0ken", NOW + 3600, None)
    form = {"grant_type": "client_credentials", "scope": "read write", "resource": RESOURCE, "client_id": "me"}
    assert script.forms == [form]
    assert script.calls[0].headers["authorization"] == "Basic bWU6czNjcmV0"


def test_a_client_authenticates_with_the_configured_method() -> None:
    script = FlowScript([token_reply()])

    script.run(ClientCredentials("me", secret="s3cret", method="client_secret_post").obtain(token_ask()))

    assert (script.forms[0]["client_id"], script.forms[0]["client_secret"]) == ("me", "s3cret")


@pytest.mark.requirement("C.4-1")
def test_a_client_with_a_key_sends_a_signed_assertion() -> None:
    key = ECKey.generate_key("P-256")
    private = PrivateKey(key.as_pem(private=True).decode())
    script = FlowScript([token_reply()])

    script.run(ClientCredentials("me", private_key=private).obtain(token_ask()))

    (form,) = script.forms
    claims = jwt.decode(form["client_assertion"], key, algorithms=["ES256"]).claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", ISSUER)
    assert "client_id" not in form
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def test_a_client_needs_either_a_secret_or_a_key() -> None:
    with pytest.raises(ValueError, match="either secret or private_key"):
        ClientCredentials("me")
    with pytest.raises(ValueError, match="either secret or private_key"):
        ClientCredentials("me", secret="s3cret", private_key=PrivateKey("pem"))


def test_a_refresh_requests_a_new_token_instead_of_using_a_refresh_token() -> None:
    script = FlowScript([token_reply(access_token="next")])

    tokens = script.run(ClientCredentials("me", secret="s3cret").refresh(token_ask("read"), "r3fresh"))

    assert tokens.access_token == "next"
    form = {"grant_type": "client_credentials", "scope": "read", "resource": RESOURCE, "client_id": "me"}
    assert script.forms == [form]


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize(
    ("grant", "what"),
    [
        (ClientCredentials("me", secret="s3cret", issuer=f"{ISSUER}/"), "the client 'me'"),
        (WorkloadIdentity("s3cret", issuer=f"{ISSUER}/"), "the workload's assertion"),
    ],
)
def test_credentials_for_one_issuer_are_not_sent_to_another(grant: Grant, what: str) -> None:
    script = FlowScript()

    with pytest.raises(AuthorizationFailed, match=rf"{what} is for https://auth\.example\.com/, but") as caught:
        script.run(grant.obtain(token_ask()))

    assert script.steps == []
    assert "s3cret" not in str(caught.value)


@pytest.mark.requirement("C.2-9")
def test_credentials_without_an_issuer_stay_with_the_first_issuer() -> None:
    assert ClientCredentials("me", secret="s3cret").stays_with_issuer
    assert WorkloadIdentity("jwt").stays_with_issuer
    assert not ClientCredentials("me", secret="s3cret", issuer=ISSUER).stays_with_issuer
    assert not WorkloadIdentity("jwt", issuer=ISSUER).stays_with_issuer


def test_credentials_are_sent_to_their_issuer() -> None:
    script = FlowScript([token_reply(), token_reply()])

    script.run(ClientCredentials("me", secret="s3cret", issuer=ISSUER).obtain(token_ask()))
    script.run(WorkloadIdentity("jwt", issuer=ISSUER).obtain(token_ask()))

    assert len(script.calls) == 2


def test_a_workload_sends_the_assertion_of_its_platform() -> None:
    script = FlowScript([token_reply()])

    script.run(WorkloadIdentity("the.platforms.jwt", client_id="me").obtain(token_ask("read")))

    assert script.forms == [
        {
            "grant_type": JWT_BEARER,
            "assertion": "the.platforms.jwt",
            "scope": "read",
            "resource": RESOURCE,
            "client_id": "me",
        }
    ]


def test_a_workload_needs_no_client_id() -> None:
    script = FlowScript([token_reply()])

    script.run(WorkloadIdentity("jwt").obtain(token_ask()))

    assert script.forms == [{"grant_type": JWT_BEARER, "assertion": "jwt", "resource": RESOURCE}]
    assert "authorization" not in script.calls[0].headers


def test_the_assertion_function_is_called_for_each_token() -> None:
    counter = iter(range(1, 3))

    async def statement() -> str:
        return f"jwt-{next(counter)}"

    script = FlowScript([token_reply(), token_reply()])
    grant = WorkloadIdentity(statement)

    script.run(grant.obtain(token_ask()))
    script.run(grant.refresh(token_ask(), ""))

    assert [form["assertion"] for form in script.forms] == ["jwt-1", "jwt-2"]


async def raising() -> str:
    raise OSError("no such file: s3cret")


async def refusing() -> str:
    raise AuthorizationFailed("the platform has no identity for this program")


async def empty() -> str:
    return ""


async def wrong() -> Any:
    return b"jwt"


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (raising, "^the workload's assertion could not be obtained: OSError$"),
        (refusing, "^the platform has no identity for this program$"),
        (empty, "the function returned str, not a string"),
        (wrong, "the function returned bytes, not a string"),
    ],
)
def test_a_failing_assertion_function_fails_one_request(source: Callable[[], Any], fault: str) -> None:
    script = FlowScript()

    with pytest.raises(AuthorizationFailed, match=fault):
        script.run(WorkloadIdentity(source).obtain(token_ask()))

    assert script.calls == []


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_scope", "unauthorized_client", "use_dpop_nonce"])
@pytest.mark.parametrize("grant", [ClientCredentials("me", secret="s3cret"), WorkloadIdentity("s3cret.jwt")])
def test_a_refusal_is_final_and_causes_no_further_request(grant: Grant, code: str) -> None:
    script = FlowScript([error_reply(code, "s3cret.jwt is bad")])

    with pytest.raises(AuthorizationFailed, match=code) as caught:
        script.run(grant.obtain(token_ask()))

    assert caught.value.error == code
    assert len(script.calls) == 1
    assert "s3cret" not in str(caught.value)


def test_a_token_of_a_program_may_be_bound_to_a_key() -> None:
    script = FlowScript([token_reply(token_type="DPoP")])
    proofs = DpopProver(DpopKey.generate())

    tokens = script.run(ClientCredentials("me", secret="s3cret", dpop=True).obtain(token_ask(proofs=proofs)))

    assert tokens.token_type == "DPoP"
    assert "dpop" in script.calls[0].headers


def test_machine_grants_have_distinct_identities_need_no_user_and_hide_secrets() -> None:
    grants: list[Grant] = [
        ClientCredentials("me", secret="s3cret"),
        ClientCredentials("you", secret="s3cret"),
        WorkloadIdentity("s3cret"),
        WorkloadIdentity("s3cret", client_id="me"),
    ]

    assert len({grant.identity for grant in grants}) == 4
    assert "s3cret" not in repr(grants) + "".join(grant.identity for grant in grants)
    assert not any(grant.interactive for grant in grants)
    with pytest.raises(RuntimeError, match="ClientCredentials uses no browser"):
        grants[0].agent()


def test_a_server_without_an_authorization_endpoint_is_sufficient_for_a_program() -> None:
    token_issuer = issuer_with(authorization_endpoint=None, code_challenge_methods_supported=None)
    assert token_issuer != TOKEN_ISSUER
    script = FlowScript([token_reply()])

    assert (
        script.run(ClientCredentials("me", secret="s3cret").obtain(token_ask(token_issuer=token_issuer))).access_token
        == "t0ken"
    )
