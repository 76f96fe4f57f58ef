"""The authorization code grant: the authorization request, the checks of its response, and the token request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from tests.auth.client.flow_script import (
    ISSUER,
    NOW,
    REDIRECT_URI,
    RESOURCE,
    TOKEN_ISSUER,
    FlowScript,
    error_reply,
    issuer_with,
    json_reply,
    query_of,
    redirected_with,
    token_ask,
    token_reply,
)
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import Registration
from trio_mcp.auth._dpop import DpopKey, DpopProver
from trio_mcp.auth.client._authorization_code import Pkce, authorize, refresh
from trio_mcp.auth.client._registration import ClientProfile
from trio_mcp.auth.client._steps import BrowserStep
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens

PREREGISTERED = ClientProfile(
    identity="me",
    account="",
    registration=Registration("me", method="none"),
    metadata_url=None,
    redirect_uri=None,
)
REGISTERED = evolve(PREREGISTERED, registration=None)
PROMISES_ISSUER = issuer_with(authorization_response_iss_parameter_supported=True)


def run(script: FlowScript, ask: TokenAsk | None = None, profile: ClientProfile = PREREGISTERED) -> Tokens:
    return script.run(authorize(ask or token_ask(), profile))


def run_refresh(script: FlowScript, profile: ClientProfile = PREREGISTERED) -> Tokens:
    return script.run(refresh(token_ask("read"), profile, "r3fresh"))


@pytest.mark.requirement("C.2-10", "C.2-11")
def test_a_user_authorizes_the_client_and_the_code_is_exchanged_for_tokens() -> None:
    script = FlowScript([token_reply(refresh_token="r3fresh")])

    tokens = run(script, token_ask("read", "write"))

    assert (tokens.access_token, tokens.refresh_token, tokens.expires_at) == ("t0ken", "r3fresh", NOW + 3600)
    (step,) = script.sign_ins
    (form,) = script.forms
    assert step == {
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": REDIRECT_URI,
        "code_challenge": Pkce.of(form["code_verifier"]).challenge,
        "code_challenge_method": "S256",
        "state": step["state"],
        "scope": "read write",
        "resource": RESOURCE,
    }
    assert form == {
        "grant_type": "authorization_code",
        "code": "kc0de",
        "redirect_uri": REDIRECT_URI,
        "code_verifier": form["code_verifier"],
        "resource": RESOURCE,
        "client_id": "me",
    }


def test_each_authorization_has_a_new_state_and_a_new_code_verifier() -> None:
    script = FlowScript([token_reply(), token_reply()])

    run(script)
    run(script)

    assert len({step["state"] for step in script.sign_ins}) == 2
    assert len({form["code_verifier"] for form in script.forms}) == 2
    assert all(len(step["state"]) >= 32 for step in script.sign_ins)


def test_a_server_without_metadata_gets_no_resource_parameter_and_need_not_announce_pkce() -> None:
    token_issuer = evolve(issuer_with(code_challenge_methods_supported=None, is_assumed=True), resource=None)
    script = FlowScript([token_reply()])

    run(script, token_ask(token_issuer=token_issuer))

    assert not {"resource", "scope"} & set(script.sign_ins[0])
    assert script.sign_ins[0]["code_challenge_method"] == "S256"
    assert "resource" not in script.forms[0]


@pytest.mark.requirement("C.2-10")
def test_a_server_without_pkce_is_refused_before_any_request() -> None:
    script = FlowScript()

    with pytest.raises(AuthorizationFailed, match="PKCE"):
        run(script, token_ask(token_issuer=issuer_with(code_challenge_methods_supported=None)), REGISTERED)

    assert script.steps == []


def test_a_server_without_an_authorization_endpoint_is_refused() -> None:
    with pytest.raises(AuthorizationFailed, match=r"https://auth\.example\.com has no authorization endpoint"):
        run(FlowScript(), token_ask(token_issuer=issuer_with(authorization_endpoint=None)))


def test_query_parameters_of_the_authorization_endpoint_are_kept_unless_the_client_sets_them() -> None:
    endpoint = f"{ISSUER}/authorize?tenant=a%2Fb&&client%5Fid=other&flag"
    script = FlowScript([token_reply()])

    run(script, token_ask(token_issuer=issuer_with(authorization_endpoint=endpoint)))

    (step,) = (each for each in script.steps if isinstance(each, BrowserStep))
    assert step.url.startswith(f"{ISSUER}/authorize?tenant=a%2Fb&flag&response_type=code&client_id=me&")


def test_offline_access_requires_the_prompt_for_consent() -> None:
    script = FlowScript([token_reply()])

    run(script, token_ask("read", "offline_access"))

    assert script.sign_ins[0]["prompt"] == "consent"


def test_the_code_and_the_tokens_are_bound_to_the_same_dpop_key() -> None:
    proofs = DpopProver(DpopKey.generate())
    script = FlowScript([token_reply(token_type="DPoP")])

    run(script, token_ask(proofs=proofs))

    assert script.sign_ins[0]["dpop_jkt"] == proofs.key.thumbprint
    assert "dpop" in script.calls[0].headers


def test_the_repr_of_a_step_contains_no_secret_of_the_authorization() -> None:
    script = FlowScript([token_reply()])

    run(script)

    assert script.sign_ins[0]["state"] not in repr(script.steps)
    assert script.forms[0]["code_verifier"] not in repr(script.steps)


def assert_refused(script: FlowScript, fault: str, ask: TokenAsk | None = None) -> AuthorizationFailed:
    """Run an authorization whose response must not lead to a token request."""
    with pytest.raises(AuthorizationFailed, match=fault) as caught:
        run(script, ask)

    assert script.calls == []
    assert len(script.sign_ins) == 1
    assert "https://auth.example.com" in str(caught.value)
    assert "kc0de" not in str(caught.value)
    return caught.value


def redirected_to(url: str) -> Callable[[BrowserStep], str]:
    """Return a user whose browser is redirected to *url*, in which ``STATE`` stands for the right state."""
    return lambda step: url.replace("STATE", query_of(step.url)["state"])


@pytest.mark.requirement("C.2-16")
@pytest.mark.parametrize(
    "person",
    [
        redirected_with(state="another", code="kc0de"),
        redirected_with(state="", code="kc0de"),
        redirected_with(state="another", error="access_denied"),
        redirected_to(f"{REDIRECT_URI}?code=kc0de"),
        redirected_to(f"{REDIRECT_URI}?error=access_denied"),
        redirected_to(f"{REDIRECT_URI}?code=kc0de&state=STATE%00"),
        redirected_to(f"{REDIRECT_URI}?code=kc0de&state=%ff\ud800"),
        redirected_to(f"{REDIRECT_URI}#code=kc0de&state=STATE"),
        redirected_to(REDIRECT_URI),
        redirected_to(""),
    ],
)
def test_a_response_with_a_wrong_state_or_redirect_uri_is_refused(person: Callable[[BrowserStep], str]) -> None:
    failure = assert_refused(FlowScript(person=person), r"\(state\)")

    assert failure.error is None
    assert "access_denied" not in str(failure)


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("token_issuer", [TOKEN_ISSUER, PROMISES_ISSUER], ids=["unannounced", "announced"])
@pytest.mark.parametrize(
    "iss",
    [
        "https://evil.example.com",
        f"{ISSUER}/",
        "https://AUTH.example.com",
        f"{ISSUER}:443",
        f" {ISSUER}",
        "",
    ],
)
@pytest.mark.parametrize(
    "parameters", [{"code": "kc0de"}, {"error": "access_denied", "error_description": "evil words"}]
)
def test_a_response_of_another_issuer_is_refused_without_showing_its_error(
    token_issuer: Any, iss: str, parameters: dict[str, str]
) -> None:
    failure = assert_refused(
        FlowScript(person=redirected_with(iss=iss, **parameters)), r"\(iss\)", token_ask(token_issuer=token_issuer)
    )

    assert failure.error is None
    assert "access_denied" not in str(failure)
    assert "evil" not in str(failure)


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("parameters", [{"code": "kc0de"}, {"error": "access_denied"}])
def test_a_response_without_the_announced_iss_parameter_is_refused(parameters: dict[str, str]) -> None:
    failure = assert_refused(
        FlowScript(person=redirected_with(**parameters)), r"\(iss\)", token_ask(token_issuer=PROMISES_ISSUER)
    )

    assert failure.error is None


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("token_issuer", [TOKEN_ISSUER, PROMISES_ISSUER], ids=["unannounced", "announced"])
def test_a_response_with_the_right_iss_parameter_is_accepted_even_if_it_was_not_announced(token_issuer: Any) -> None:
    script = FlowScript([token_reply()], person=redirected_with(code="kc0de", iss=ISSUER))

    assert run(script, token_ask(token_issuer=token_issuer)).access_token == "t0ken"


def test_a_denial_by_the_user_is_reported() -> None:
    person = redirected_with(error="access_denied", error_description="not\x07 today", iss=ISSUER)

    failure = assert_refused(FlowScript(person=person), r"was refused: access_denied \(not\? today\)")

    assert failure.error == "access_denied"


@pytest.mark.parametrize("parameters", [{"code": ""}, {"error": ""}, {"other": "x"}])
def test_a_response_without_a_code_is_refused(parameters: dict[str, str]) -> None:
    assert_refused(FlowScript(person=redirected_with(**parameters)), "contains no code")


@pytest.mark.parametrize("name", ["code", "state", "iss", "error"])
def test_a_response_with_a_duplicate_parameter_is_refused(name: str) -> None:
    person = redirected_to(f"{REDIRECT_URI}?code=kc0de&state=STATE&iss={ISSUER}&error=no&{name}=x")

    assert_refused(FlowScript(person=person), "contains a parameter twice")


@pytest.mark.parametrize("more", ["&x=1" * 60, f"&x={'1' * 70_000}"])
def test_a_response_that_is_too_long_is_refused(more: str) -> None:
    assert_refused(FlowScript(person=redirected_to(f"{REDIRECT_URI}?code=kc0de&state=STATE{more}")), "too long")


def test_unknown_parameters_of_a_response_are_ignored() -> None:
    person = redirected_to(f"{REDIRECT_URI}?code=k%2Bc+1&state=STATE&session_state=a&session_state=b#_=_")
    script = FlowScript([token_reply()], person=person)

    run(script)

    assert script.forms[0]["code"] == "k+c 1"


def test_a_refused_code_is_not_sent_again() -> None:
    script = FlowScript([error_reply("invalid_grant", "kc0de is used up")])

    with pytest.raises(AuthorizationFailed, match=r"invalid_grant \(\[secret\] is used up\)") as caught:
        run(script)

    assert caught.value.error == "invalid_grant"
    assert len(script.calls) == 1


def never_returns(_: BrowserStep) -> str:
    raise AuthorizationFailed("the browser did not return")


REGISTRATION = json_reply({"client_id": "new"}, status=201)


def test_a_new_registration_is_kept_if_the_user_does_not_return() -> None:
    script = FlowScript([REGISTRATION], person=never_returns)

    with pytest.raises(AuthorizationFailed, match="the browser did not return"):
        run(script, profile=REGISTERED)

    assert len(script.values) == 1


def test_an_old_registration_is_dropped_if_the_user_does_not_return() -> None:
    script = FlowScript([REGISTRATION, token_reply(), REGISTRATION, token_reply()])
    run(script, profile=REGISTERED)
    script.person = never_returns
    with pytest.raises(AuthorizationFailed, match="the browser did not return"):
        run(script, profile=REGISTERED)

    assert script.values == {}
    script.person = redirected_with()
    assert run(script, profile=REGISTERED).access_token == "t0ken"


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client", "invalid_redirect_uri", "invalid_scope"])
def test_a_registration_that_the_authorization_endpoint_refuses_is_renewed_the_next_time(code: str) -> None:
    script = FlowScript([REGISTRATION, REGISTRATION, token_reply()], person=redirected_with(error=code))
    with pytest.raises(AuthorizationFailed, match=code):
        run(script, profile=REGISTERED)

    script.person = redirected_with()

    assert run(script, profile=REGISTERED).access_token == "t0ken"


def test_a_registration_that_the_token_endpoint_does_not_know_is_renewed_the_next_time() -> None:
    script = FlowScript([REGISTRATION, error_reply("invalid_client", status=401), REGISTRATION, token_reply()])
    with pytest.raises(AuthorizationFailed, match="invalid_client"):
        run(script, profile=REGISTERED)

    assert run(script, profile=REGISTERED).access_token == "t0ken"


@pytest.mark.parametrize(
    "person", [redirected_with(error="access_denied"), redirected_with(state="x"), redirected_with(iss="x")]
)
def test_a_registration_is_kept_after_a_denial_and_after_a_forged_response(
    person: Callable[[BrowserStep], str],
) -> None:
    script = FlowScript([REGISTRATION, token_reply()])
    run(script, profile=REGISTERED)
    script.person = person

    with pytest.raises(AuthorizationFailed):
        run(script, profile=REGISTERED)

    assert len(script.values) == 1


@pytest.mark.requirement("C.2-11")
def test_a_refresh_returns_new_tokens_and_keeps_the_refresh_token_if_it_is_not_replaced() -> None:
    script = FlowScript([token_reply(), token_reply(refresh_token="next")])

    assert run_refresh(script).refresh_token == "r3fresh"
    assert run_refresh(script).refresh_token == "next"
    assert script.forms[0] == {
        "grant_type": "refresh_token",
        "refresh_token": "r3fresh",
        "resource": RESOURCE,
        "client_id": "me",
    }


def test_a_refresh_token_is_sent_by_the_client_that_obtained_it() -> None:
    script = FlowScript([json_reply({"client_id": "new"}, status=201), token_reply(), token_reply()])
    run(script, token_ask("read"), REGISTERED)

    run_refresh(script, REGISTERED)

    assert script.forms[1]["client_id"] == "new"
    assert len(script.sign_ins) == 1


@pytest.mark.parametrize("becomes", ["nothing", "another"])
def test_a_refresh_works_after_the_registration_was_changed_or_deleted(becomes: str) -> None:
    script = FlowScript([json_reply({"client_id": "first"}, status=201), token_reply()])
    tokens = run(script, profile=REGISTERED)
    script.values.clear()
    if becomes == "another":
        script.replies = [json_reply({"client_id": "second"}, status=201), token_reply()]
        run(script, profile=REGISTERED)

    script.replies = [token_reply()]
    script.run(refresh(evolve(token_ask("read"), client=tokens.client), REGISTERED, "r3fresh"))

    assert script.forms[-1]["client_id"] == "first"
    assert len(script.values) == (becomes == "another")


def test_a_refresh_that_is_refused_for_the_old_client_keeps_the_new_registration() -> None:
    script = FlowScript([json_reply({"client_id": "second"}, status=201), token_reply(), error_reply("invalid_client")])
    run(script, profile=REGISTERED)
    ask = evolve(token_ask("read"), client=Registration("first", issuer=ISSUER))

    with pytest.raises(AuthorizationFailed, match="invalid_client"):
        script.run(refresh(ask, REGISTERED, "r3fresh"))

    assert len(script.values) == 1


def test_the_tokens_of_a_preregistered_client_do_not_store_the_client() -> None:
    assert run(FlowScript([token_reply()])).client is None


def test_a_refresh_token_without_a_known_client_cannot_be_used() -> None:
    script = FlowScript()

    with pytest.raises(AuthorizationFailed, match="is missing") as caught:
        run_refresh(script, REGISTERED)

    assert caught.value.error == "invalid_client"
    assert script.calls == []


def test_a_refused_refresh_is_reported_without_showing_the_token() -> None:
    script = FlowScript([error_reply("invalid_grant", "r3fresh is used up")])

    with pytest.raises(AuthorizationFailed, match="invalid_grant") as caught:
        run_refresh(script)

    assert caught.value.error == "invalid_grant"
    assert "r3fresh" not in str(caught.value)


def test_a_refresh_that_is_refused_for_an_unknown_client_deletes_the_registration() -> None:
    script = FlowScript([REGISTRATION, token_reply(), error_reply("invalid_client", status=401)])
    run(script, profile=REGISTERED)

    with pytest.raises(AuthorizationFailed, match="invalid_client"):
        run_refresh(script, REGISTERED)

    assert script.values == {}
