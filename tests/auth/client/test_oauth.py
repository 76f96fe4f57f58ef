"""The options of the OAuth grant: valid combinations, defaults and the custom browser step."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from tests.auth.client.flow_script import (
    ISSUER,
    REDIRECT_URI,
    FlowScript,
    issuer_with,
    json_reply,
    token_ask,
    token_reply,
)
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import OAuth, Registration
from trio_mcp.auth.client._browser import CustomBrowserAgent, open_loopback_browser

REGISTRATION = json_reply({"client_id": "new"}, status=201)


async def return_redirect(url: str) -> str:
    await trio.lowlevel.checkpoint()
    return f"{REDIRECT_URI}?state=s&for={url}"


async def do_nothing(url: str) -> None:
    await trio.lowlevel.checkpoint()


def test_a_sign_in_needs_no_options() -> None:
    oauth = OAuth()
    script = FlowScript([REGISTRATION, token_reply(refresh_token="r3fresh"), token_reply(access_token="next")])

    first = script.run(oauth.obtain(token_ask()))
    second = script.run(oauth.refresh(token_ask(), "r3fresh"))

    assert (first.access_token, second.access_token, second.refresh_token) == ("t0ken", "next", "r3fresh")
    assert oauth.interactive
    assert json.loads(script.calls[0].body)["client_name"] == "trio-mcp client"


def test_further_parameters_are_in_the_authorization_request_alone() -> None:
    oauth = OAuth(
        authorization_parameters={"access_type": "offline", "prompt": "select_account", "login_hint": "a@b&c"}
    )
    script = FlowScript([REGISTRATION, token_reply()])

    script.run(oauth.obtain(token_ask("offline_access")))

    (step,), (form,) = script.sign_ins, script.forms
    further = {name: step[name] for name in ("access_type", "prompt", "login_hint")}
    assert further == {"access_type": "offline", "prompt": "select_account", "login_hint": "a@b&c"}
    assert not further.keys() & form.keys()
    assert "login_hint" not in json.loads(script.calls[0].body)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"state": "x"}, "authorization_parameters: the client sets 'state' itself"),
        ({"request_uri": "https://a.example"}, "authorization_parameters: the client sets 'request_uri' itself"),
        ({"scope": "read"}, "authorization_parameters: the client sets 'scope' itself: use scopes="),
        ({"max_age": 5}, "authorization_parameters['max_age']: expected str, such as 'offline', and got int"),
    ],
)
def test_a_parameter_that_the_client_sets_itself_or_that_is_no_string_is_refused(parameters: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        OAuth(authorization_parameters=parameters)

    assert str(raised.value) == message


def test_every_parameter_of_the_plain_request_is_one_that_the_client_sets_itself() -> None:
    script = FlowScript([REGISTRATION, token_reply()])

    script.run(OAuth().obtain(token_ask("read")))

    for name, value in script.sign_ins[0].items():
        with pytest.raises(ValueError, match=f"the client sets '{name}' itself"):
            OAuth(authorization_parameters={name: value})


def test_the_client_metadata_for_the_consent_page_are_registered() -> None:
    oauth = OAuth(
        client_name="Me",
        client_uri="https://me.example",
        logo_uri="https://me.example/logo.png",
        policy_uri="https://me.example/policy",
        tos_uri="https://me.example/terms",
        contacts=["me@me.example"],
    )
    script = FlowScript([REGISTRATION, token_reply()])

    script.run(oauth.obtain(token_ask()))

    members = json.loads(script.calls[0].body)
    assert {name: members[name] for name in members if name.endswith(("_uri", "_name")) or name == "contacts"} == {
        "client_name": "Me",
        "client_uri": "https://me.example",
        "logo_uri": "https://me.example/logo.png",
        "policy_uri": "https://me.example/policy",
        "tos_uri": "https://me.example/terms",
        "contacts": ["me@me.example"],
    }


@pytest.mark.parametrize(
    ("oauth", "client_id", "redirect_uri"),
    [
        (OAuth(client=Registration("mine", redirect_uri="http://127.0.0.1/cb")), "mine", "http://127.0.0.1/cb"),
        (OAuth(client=Registration("mine"), redirect_uri="http://localhost:1/cb"), "mine", "http://localhost:1/cb"),
        (
            OAuth(client_metadata_url="https://me.example/client.json", redirect_uri="http://[::1]/cb"),
            "https://me.example/client.json",
            "http://[::1]/cb",
        ),
    ],
)
def test_a_known_client_uses_its_registered_redirect_uri(oauth: OAuth, client_id: str, redirect_uri: str) -> None:
    script = FlowScript([token_reply()], picks=None)

    script.run(oauth.obtain(token_ask(token_issuer=issuer_with(client_id_metadata_document_supported=True))))

    assert (script.sign_ins[0]["client_id"], script.sign_ins[0]["redirect_uri"]) == (client_id, redirect_uri)


def test_clients_have_distinct_identities_that_contain_no_secret() -> None:
    oauths = [
        OAuth(),
        OAuth(client_name="another"),
        OAuth(client_metadata_url="https://me.example/client.json"),
        OAuth(client=Registration("mine", secret="s3cret")),
    ]
    identities = [oauth.identity for oauth in oauths]

    assert len(set(identities)) == 4
    assert not any("s3cret" in identity for identity in identities)
    assert OAuth().identity == OAuth().identity
    assert "s3cret" not in repr(oauths)


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize(
    ("client", "stays"),
    [
        (None, False),
        (Registration("mine"), True),
        (Registration("mine", issuer=ISSUER), False),
        (Registration("https://me.example/client.json"), False),
        (Registration("https://me.example/client.json", secret="s3cret"), True),
    ],
)
def test_a_preregistered_client_without_an_issuer_stays_with_the_first_authorization_server(
    client: Registration | None, stays: bool
) -> None:
    assert OAuth(client=client).stays_with_issuer is stays


def test_accounts_in_one_storage_have_separate_registrations() -> None:
    script = FlowScript([REGISTRATION, token_reply()] * 2)

    for account in ("home", "work"):
        script.run(OAuth(account=account).obtain(token_ask()))

    assert len(script.values) == 2


@pytest.mark.requirement("C.2-7")
@pytest.mark.parametrize(
    ("options", "redirect_uri", "kind"),
    [
        ({}, "http://127.0.0.1/callback", "native"),
        ({"redirect_uri": "http://localhost/cb"}, "http://localhost/cb", "native"),
        ({"redirect_uri": "https://me.example/cb", "visit": return_redirect}, "https://me.example/cb", "web"),
    ],
)
def test_the_metadata_document_of_a_client_describes_it(options: dict[str, Any], redirect_uri: str, kind: str) -> None:
    oauth = OAuth(client_name="Me", client_metadata_url="https://me.example/client.json", **options)

    assert oauth.client_metadata() == {
        "client_id": "https://me.example/client.json",
        "client_name": "Me",
        "redirect_uris": [redirect_uri],
        "application_type": kind,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def test_a_client_without_a_metadata_url_has_no_metadata_document() -> None:
    with pytest.raises(ValueError, match="pass client_metadata_url"):
        OAuth().client_metadata()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"redirect_uri": "http://app.example/cb"}, "redirect_uri="),
        ({"client": Registration("mine", redirect_uri="cb")}, "redirect_uri="),
        (
            {"client": Registration("mine", redirect_uri="http://127.0.0.1/a"), "redirect_uri": "http://127.0.0.1/b"},
            "redirect_uri=.* registered with",
        ),
        ({"redirect_uri": "https://app.example/cb"}, "redirect_uri=.* pass visit"),
        ({"client": Registration("mine", redirect_uri="https://localhost/cb")}, "redirect_uri=.* pass visit"),
        ({"client_metadata_url": "http://me.example/client.json"}, "client_metadata_url="),
        ({"visit": return_redirect}, "visit: it requires redirect_uri"),
        ({"visit": return_redirect, "show": do_nothing, "redirect_uri": REDIRECT_URI}, "show, visit"),
        ({"visit_seconds": 0}, "visit_seconds=0"),
        ({"visit_seconds": float("nan")}, "visit_seconds=nan"),
        ({"scopes": "read write"}, "scopes='read write'"),
        ({"scopes": ["read write"]}, "scopes="),
        ({"scopes": ['re"ad']}, "scopes="),
        ({"scopes": [""]}, "scopes="),
        ({"scopes": [1]}, "scopes="),
    ],
)
def test_invalid_options_are_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        OAuth(**options)


def test_scopes_may_be_any_sequence_of_strings() -> None:
    assert OAuth(scopes=("read", "https://api.example/write")).scopes == ("read", "https://api.example/write")
    assert OAuth(scopes=[]).scopes == []


async def test_the_visit_function_opens_the_page() -> None:
    async with OAuth(visit=return_redirect, redirect_uri="https://app.example/cb").agent() as agent:
        redirect_uri = await agent.pick_redirect("http://127.0.0.1/another")
        response_url = await agent.sign_in(f"{ISSUER}/authorize", redirect_uri)

    assert redirect_uri == "https://app.example/cb"
    assert response_url == f"{REDIRECT_URI}?state=s&for={ISSUER}/authorize"


async def test_by_default_the_redirect_uri_is_on_the_local_host() -> None:
    async with OAuth(show=do_nothing).agent() as agent:
        redirect_uri = await agent.pick_redirect(None)

    assert redirect_uri.startswith("http://127.0.0.1:")


async def test_the_redirect_uri_has_the_registered_path() -> None:
    oauth = OAuth(client=Registration("mine", redirect_uri="http://127.0.0.1/registered"), show=do_nothing)

    async with oauth.agent() as agent:
        redirect_uri = await agent.pick_redirect("http://127.0.0.1/registered")

    assert redirect_uri.endswith("/registered")


def test_the_default_agent_opens_the_browser_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    from trio_mcp.auth import open_browser
    from trio_mcp.auth.client import _authorization_code

    opened: list[dict[str, Any]] = []
    real = open_loopback_browser

    def record(**options: Any) -> Any:
        opened.append(options)
        return real(**options)

    monkeypatch.setattr(_authorization_code, "open_loopback_browser", record)
    OAuth(visit_seconds=7).agent()

    assert opened == [{"show": open_browser, "seconds": 7, "redirect_uri": None}]


async def test_an_exception_of_the_visit_function_fails_one_authorization() -> None:
    async def fail(url: str) -> str:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("the window is missing")

    agent = CustomBrowserAgent(fail, REDIRECT_URI, 10)

    with pytest.raises(AuthorizationFailed, match=r"https://auth\.example\.com/authorize: RuntimeError") as caught:
        await agent.sign_in(f"{ISSUER}/authorize?state=s3cret", REDIRECT_URI)

    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "s3cret" not in str(caught.value)


async def test_the_visit_function_may_raise_the_reason_of_the_failure() -> None:
    async def refuse(url: str) -> str:
        await trio.lowlevel.checkpoint()
        raise AuthorizationFailed("the user has closed the window")

    with pytest.raises(AuthorizationFailed, match=r"^the user has closed the window$"):
        await CustomBrowserAgent(refuse, REDIRECT_URI, 10).sign_in(f"{ISSUER}/authorize", REDIRECT_URI)


async def test_the_visit_function_has_a_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def wait(url: str) -> str:
        await trio.sleep_forever()
        return url

    with pytest.raises(AuthorizationFailed, match="within 300 s"):
        await CustomBrowserAgent(wait, REDIRECT_URI, 300).sign_in(f"{ISSUER}/authorize", REDIRECT_URI)

    assert trio.current_time() == pytest.approx(300, abs=1)


@pytest.mark.parametrize("returned", [None, b"http://127.0.0.1/", 7])
async def test_an_invalid_result_of_the_visit_function_is_reported(returned: Any) -> None:
    async def return_value(url: str) -> Any:
        await trio.lowlevel.checkpoint()
        return returned

    with pytest.raises(AuthorizationFailed, match=f"returned {type(returned).__name__}, not a URL"):
        await CustomBrowserAgent(return_value, REDIRECT_URI, 10).sign_in(f"{ISSUER}/authorize", REDIRECT_URI)


async def test_a_sign_in_is_cancelled_together_with_its_request() -> None:
    async def wait(url: str) -> str:
        await trio.sleep_forever()
        return url

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(CustomBrowserAgent(wait, REDIRECT_URI, 10).sign_in, f"{ISSUER}/authorize", REDIRECT_URI)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught
