"""A person authorizes the client, and only the right response of the right server is exchanged for tokens."""

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
    ask_for,
    comes_back,
    error_reply,
    issuer_with,
    json_reply,
    query_of,
    token_reply,
)
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import Registration
from trio_mcp.auth._dpop import DpopKey, DpopProver
from trio_mcp.auth.client._authorization_code import Pkce, authorize, refresh
from trio_mcp.auth.client._registration import ClientProfile
from trio_mcp.auth.client._steps import BrowserStep
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens

BY_HAND = ClientProfile(
    identity="me",
    account="",
    registration=Registration("me", method="none"),
    metadata_url=None,
    redirect_uri=None,
)
REGISTERED = evolve(BY_HAND, registration=None)
PROMISES_ISSUER = issuer_with(authorization_response_iss_parameter_supported=True)


def run(script: FlowScript, ask: TokenAsk | None = None, profile: ClientProfile = BY_HAND) -> Tokens:
    return script.run(authorize(ask or ask_for(), profile))


def run_refresh(script: FlowScript, profile: ClientProfile = BY_HAND) -> Tokens:
    return script.run(refresh(ask_for("read"), profile, "r3fresh"))


@pytest.mark.requirement("C.2-10", "C.2-11")
def test_a_person_authorizes_the_client_and_the_code_becomes_tokens() -> None:
    script = FlowScript([token_reply(refresh_token="r3fresh")])

    tokens = run(script, ask_for("read", "write"))

    assert (tokens.access_token, tokens.refresh_token, tokens.expires_at) == ("t0ken", "r3fresh", NOW + 3600)
    (visit,) = script.sign_ins
    (form,) = script.forms
    assert visit == {
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": REDIRECT_URI,
        "code_challenge": Pkce.of(form["code_verifier"]).challenge,
        "code_challenge_method": "S256",
        "state": visit["state"],
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


def test_each_authorization_has_a_state_and_a_verifier_of_its_own() -> None:
    script = FlowScript([token_reply(), token_reply()])

    run(script)
    run(script)

    assert len({visit["state"] for visit in script.sign_ins}) == 2
    assert len({form["code_verifier"] for form in script.forms}) == 2
    assert all(len(visit["state"]) >= 32 for visit in script.sign_ins)


def test_a_server_without_metadata_is_sent_no_resource_and_need_not_promise_pkce() -> None:
    token_issuer = evolve(issuer_with(code_challenge_methods_supported=None, is_assumed=True), resource=None)
    script = FlowScript([token_reply()])

    run(script, ask_for(token_issuer=token_issuer))

    assert not {"resource", "scope"} & set(script.sign_ins[0])
    assert script.sign_ins[0]["code_challenge_method"] == "S256"
    assert "resource" not in script.forms[0]


@pytest.mark.requirement("C.2-10")
def test_a_server_without_pkce_is_refused_before_anything_is_sent() -> None:
    script = FlowScript()

    with pytest.raises(AuthorizationFailed, match="PKCE"):
        run(script, ask_for(token_issuer=issuer_with(code_challenge_methods_supported=None)), REGISTERED)

    assert script.steps == []


def test_a_server_without_a_page_for_people_is_refused() -> None:
    with pytest.raises(AuthorizationFailed, match=r"https://auth\.example\.com has no authorization endpoint"):
        run(FlowScript(), ask_for(token_issuer=issuer_with(authorization_endpoint=None)))


def test_what_the_endpoint_has_in_its_query_stays_unless_it_is_ours() -> None:
    endpoint = f"{ISSUER}/authorize?tenant=a%2Fb&&client%5Fid=other&flag"
    script = FlowScript([token_reply()])

    run(script, ask_for(token_issuer=issuer_with(authorization_endpoint=endpoint)))

    (visit,) = (step for step in script.steps if isinstance(step, BrowserStep))
    assert visit.url.startswith(f"{ISSUER}/authorize?tenant=a%2Fb&flag&response_type=code&client_id=me&")


def test_access_without_the_person_needs_consent_in_so_many_words() -> None:
    script = FlowScript([token_reply()])

    run(script, ask_for("read", "offline_access"))

    assert script.sign_ins[0]["prompt"] == "consent"


def test_a_code_is_bound_to_the_key_of_the_tokens() -> None:
    proofs = DpopProver(DpopKey.generate())
    script = FlowScript([token_reply(token_type="DPoP")])

    run(script, ask_for(proofs=proofs))

    assert script.sign_ins[0]["dpop_jkt"] == proofs.key.thumbprint
    assert "dpop" in script.calls[0].headers


def test_what_is_secret_in_an_authorization_is_not_shown() -> None:
    script = FlowScript([token_reply()])

    run(script)

    assert script.sign_ins[0]["state"] not in repr(script.steps)
    assert script.forms[0]["code_verifier"] not in repr(script.steps)


def assert_refused(script: FlowScript, fault: str, ask: TokenAsk | None = None) -> AuthorizationFailed:
    """Run an authorization whose response is not to be exchanged for anything."""
    with pytest.raises(AuthorizationFailed, match=fault) as caught:
        run(script, ask)

    assert script.calls == []
    assert len(script.sign_ins) == 1
    assert "https://auth.example.com" in str(caught.value)
    assert "kc0de" not in str(caught.value)
    return caught.value


def lead_to(url: str) -> Callable[[BrowserStep], str]:
    """Make a person whose browser comes back to *url*, in which ``STATE`` is the right state."""
    return lambda visit: url.replace("STATE", query_of(visit.url)["state"])


@pytest.mark.requirement("C.2-16")
@pytest.mark.parametrize(
    "person",
    [
        comes_back(state="another", code="kc0de"),
        comes_back(state="", code="kc0de"),
        comes_back(state="another", error="access_denied"),
        lead_to(f"{REDIRECT_URI}?code=kc0de"),
        lead_to(f"{REDIRECT_URI}?error=access_denied"),
        lead_to(f"{REDIRECT_URI}?code=kc0de&state=STATE%00"),
        lead_to(f"{REDIRECT_URI}?code=kc0de&state=%ff\ud800"),
        lead_to(f"{REDIRECT_URI}#code=kc0de&state=STATE"),
        lead_to(REDIRECT_URI),
        lead_to(""),
    ],
)
def test_a_response_to_no_request_of_ours_is_refused(person: Callable[[BrowserStep], str]) -> None:
    failure = assert_refused(FlowScript(person=person), r"\(state\)")

    assert failure.error is None
    assert "access_denied" not in str(failure)


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("token_issuer", [TOKEN_ISSUER, PROMISES_ISSUER], ids=["silent", "promising"])
@pytest.mark.parametrize(
    "said",
    [
        "https://evil.example.com",
        f"{ISSUER}/",
        "https://AUTH.example.com",
        f"{ISSUER}:443",
        f" {ISSUER}",
        "",
    ],
)
@pytest.mark.parametrize("what", [{"code": "kc0de"}, {"error": "access_denied", "error_description": "evil words"}])
def test_a_response_of_another_issuer_is_refused_and_what_it_says_is_not_shown(
    token_issuer: Any, said: str, what: dict[str, str]
) -> None:
    failure = assert_refused(
        FlowScript(person=comes_back(iss=said, **what)), r"\(iss\)", ask_for(token_issuer=token_issuer)
    )

    assert failure.error is None
    assert "access_denied" not in str(failure)
    assert "evil" not in str(failure)


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("what", [{"code": "kc0de"}, {"error": "access_denied"}])
def test_a_response_without_the_issuer_that_was_promised_is_refused(what: dict[str, str]) -> None:
    failure = assert_refused(FlowScript(person=comes_back(**what)), r"\(iss\)", ask_for(token_issuer=PROMISES_ISSUER))

    assert failure.error is None


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("token_issuer", [TOKEN_ISSUER, PROMISES_ISSUER], ids=["silent", "promising"])
def test_a_response_of_the_issuer_is_good_whether_promised_or_not(token_issuer: Any) -> None:
    script = FlowScript([token_reply()], person=comes_back(code="kc0de", iss=ISSUER))

    assert run(script, ask_for(token_issuer=token_issuer)).access_token == "t0ken"


def test_a_denial_by_the_user_is_reported() -> None:
    person = comes_back(error="access_denied", error_description="not\x07 today", iss=ISSUER)

    failure = assert_refused(FlowScript(person=person), r"was refused: access_denied \(not\? today\)")

    assert failure.error == "access_denied"


@pytest.mark.parametrize("said", [{"code": ""}, {"error": ""}, {"other": "x"}])
def test_a_response_without_a_code_is_refused(said: dict[str, str]) -> None:
    assert_refused(FlowScript(person=comes_back(**said)), "contains no code")


@pytest.mark.parametrize("name", ["code", "state", "iss", "error"])
def test_a_response_that_says_a_thing_twice_is_refused(name: str) -> None:
    person = lead_to(f"{REDIRECT_URI}?code=kc0de&state=STATE&iss={ISSUER}&error=no&{name}=x")

    assert_refused(FlowScript(person=person), "contains a parameter twice")


@pytest.mark.parametrize("more", ["&x=1" * 60, f"&x={'1' * 70_000}"])
def test_a_response_that_is_too_long_is_refused(more: str) -> None:
    assert_refused(FlowScript(person=lead_to(f"{REDIRECT_URI}?code=kc0de&state=STATE{more}")), "too long")


def test_a_response_may_say_more_than_there_is_a_use_for() -> None:
    person = lead_to(f"{REDIRECT_URI}?code=k%2Bc+1&state=STATE&session_state=a&session_state=b#_=_")
    script = FlowScript([token_reply()], person=person)

    run(script)

    assert script.forms[0]["code"] == "k+c 1"


def test_a_code_that_is_refused_is_not_tried_again() -> None:
    script = FlowScript([error_reply("invalid_grant", "kc0de is used up")])

    with pytest.raises(AuthorizationFailed, match=r"invalid_grant \(\[secret\] is used up\)") as caught:
        run(script)

    assert caught.value.error == "invalid_grant"
    assert len(script.calls) == 1


def never_comes_back(_: BrowserStep) -> str:
    raise AuthorizationFailed("nobody came back")


REGISTRATION = json_reply({"client_id": "new"}, status=201)


def test_a_new_registration_outlives_a_person_who_does_not_come_back() -> None:
    script = FlowScript([REGISTRATION], person=never_comes_back)

    with pytest.raises(AuthorizationFailed, match="nobody came back"):
        run(script, profile=REGISTERED)

    assert len(script.values) == 1


def test_an_old_registration_does_not_because_the_server_may_have_forgotten_it() -> None:
    script = FlowScript([REGISTRATION, token_reply(), REGISTRATION, token_reply()])
    run(script, profile=REGISTERED)
    script.person = never_comes_back
    with pytest.raises(AuthorizationFailed, match="nobody came back"):
        run(script, profile=REGISTERED)

    assert script.values == {}
    script.person = comes_back()
    assert run(script, profile=REGISTERED).access_token == "t0ken"


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client", "invalid_redirect_uri", "invalid_scope"])
def test_a_registration_that_the_server_turns_away_is_made_anew_the_next_time(code: str) -> None:
    script = FlowScript([REGISTRATION, REGISTRATION, token_reply()], person=comes_back(error=code))
    with pytest.raises(AuthorizationFailed, match=code):
        run(script, profile=REGISTERED)

    script.person = comes_back()

    assert run(script, profile=REGISTERED).access_token == "t0ken"


def test_a_registration_that_the_token_endpoint_does_not_know_is_made_anew_the_next_time() -> None:
    script = FlowScript([REGISTRATION, error_reply("invalid_client", status=401), REGISTRATION, token_reply()])
    with pytest.raises(AuthorizationFailed, match="invalid_client"):
        run(script, profile=REGISTERED)

    assert run(script, profile=REGISTERED).access_token == "t0ken"


@pytest.mark.parametrize("person", [comes_back(error="access_denied"), comes_back(state="x"), comes_back(iss="x")])
def test_a_registration_outlives_a_person_who_says_no_and_an_attack(person: Callable[[BrowserStep], str]) -> None:
    script = FlowScript([REGISTRATION, token_reply()])
    run(script, profile=REGISTERED)
    script.person = person

    with pytest.raises(AuthorizationFailed):
        run(script, profile=REGISTERED)

    assert len(script.values) == 1


@pytest.mark.requirement("C.2-11")
def test_a_refresh_token_is_exchanged_and_stands_until_it_is_replaced() -> None:
    script = FlowScript([token_reply(), token_reply(refresh_token="next")])

    assert run_refresh(script).refresh_token == "r3fresh"
    assert run_refresh(script).refresh_token == "next"
    assert script.forms[0] == {
        "grant_type": "refresh_token",
        "refresh_token": "r3fresh",
        "resource": RESOURCE,
        "client_id": "me",
    }


def test_a_refresh_token_is_shown_by_the_client_that_it_was_given_to() -> None:
    script = FlowScript([json_reply({"client_id": "new"}, status=201), token_reply(), token_reply()])
    run(script, ask_for("read"), REGISTERED)

    run_refresh(script, REGISTERED)

    assert script.forms[1]["client_id"] == "new"
    assert len(script.sign_ins) == 1


@pytest.mark.parametrize("becomes", ["nothing", "another"])
def test_a_refresh_token_outlives_what_becomes_of_the_registration(becomes: str) -> None:
    script = FlowScript([json_reply({"client_id": "first"}, status=201), token_reply()])
    tokens = run(script, profile=REGISTERED)
    script.values.clear()
    if becomes == "another":
        script.replies = [json_reply({"client_id": "second"}, status=201), token_reply()]
        run(script, profile=REGISTERED)

    script.replies = [token_reply()]
    script.run(refresh(evolve(ask_for("read"), client=tokens.client), REGISTERED, "r3fresh"))

    assert script.forms[-1]["client_id"] == "first"
    assert len(script.values) == (becomes == "another")


def test_a_refresh_that_the_client_of_old_is_turned_away_for_leaves_the_new_one_alone() -> None:
    script = FlowScript([json_reply({"client_id": "second"}, status=201), token_reply(), error_reply("invalid_client")])
    run(script, profile=REGISTERED)
    ask = evolve(ask_for("read"), client=Registration("first", issuer=ISSUER))

    with pytest.raises(AuthorizationFailed, match="invalid_client"):
        script.run(refresh(ask, REGISTERED, "r3fresh"))

    assert len(script.values) == 1


def test_tokens_of_a_client_that_is_known_by_hand_need_not_remember_it() -> None:
    assert run(FlowScript([token_reply()])).client is None


def test_a_refresh_token_whose_client_is_gone_is_of_no_use() -> None:
    script = FlowScript()

    with pytest.raises(AuthorizationFailed, match="is missing") as caught:
        run_refresh(script, REGISTERED)

    assert caught.value.error == "invalid_client"
    assert script.calls == []


def test_a_refused_refresh_says_so_and_does_not_show_the_token() -> None:
    script = FlowScript([error_reply("invalid_grant", "r3fresh is used up")])

    with pytest.raises(AuthorizationFailed, match="invalid_grant") as caught:
        run_refresh(script)

    assert caught.value.error == "invalid_grant"
    assert "r3fresh" not in str(caught.value)


def test_a_refresh_by_a_client_that_the_server_has_forgotten_forgets_it_too() -> None:
    script = FlowScript([REGISTRATION, token_reply(), error_reply("invalid_client", status=401)])
    run(script, profile=REGISTERED)

    with pytest.raises(AuthorizationFailed, match="invalid_client"):
        run_refresh(script, REGISTERED)

    assert script.values == {}
