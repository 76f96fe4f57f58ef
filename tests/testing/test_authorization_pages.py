"""Browsers at the development authorization server: redirects, and the page on which users decide."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from attrs import define

from trio_mcp.testing import AccessAsk, KnownClient

from .authorization_bench import BACK, ISSUER, RESOURCE, Bench, Reply


@define
class Browser:
    """A browser that shows pages and keeps cookies."""

    bench: Bench
    cookie: str = ""

    async def open(self, **changed: str | None) -> Reply:
        """Open the authorization endpoint, as the client requests."""
        page = await self.bench.authorize(**changed)
        self.cookie = page.headers.get("set-cookie", "").partition(";")[0]
        return page

    async def decide(self, page: Reply, decision: str = "allow", **form: str) -> Reply:
        """Fill in the form of a page, and submit it."""
        (ticket,) = re.findall(r'name="ticket" value="([^"]+)"', page.body.decode())
        filled = {"ticket": ticket, "username": "user", "password": "password", "decision": decision, **form}
        return await self.bench.post("/decide", filled, {"cookie": self.cookie} if self.cookie else {})


def interactive_browser(**options: Any) -> Browser:
    """Return a browser for which the server shows pages."""
    return Browser(Bench(auto_consent=False, **options))


async def test_with_automatic_consent_the_browser_is_redirected_at_once() -> None:
    answer = await Bench().authorize()

    assert answer.status == 302
    assert answer.headers["location"].startswith(f"{BACK}?")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.back.pop("code")
    assert {**answer.back, "code": ""} == {"code": "", "state": "of mind", "iss": ISSUER}


async def test_a_test_may_act_as_the_browser() -> None:
    bench = Bench(f"{ISSUER}/tenant%201")
    query = {
        "response_type": "code",
        "client_id": "public",
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
    }

    back = await bench.auth.visit(f"{bench.auth.issuer}/authorize?{urlencode(query)}")

    assert back.startswith(f"{BACK}?code=")
    with pytest.raises(
        ValueError, match=r"the server responded with a page instead of a redirect: .*the client is unknown"
    ):
        await bench.auth.visit(f"{bench.auth.issuer}/authorize")


async def test_the_query_of_the_redirect_uri_is_kept_and_no_state_is_added() -> None:
    bench = Bench(clients=[KnownClient("public", redirect_uris=[f"{BACK}?a=1"])])

    answer = await bench.authorize(redirect_uri=None, state=None)

    assert answer.headers["location"].startswith(f"{BACK}?a=1&code=")
    assert set(answer.back) == {"a", "code", "iss"}


@pytest.mark.parametrize(
    ("registered", "requested", "is_the_same"),
    [
        ("https://app.test/cb", "https://app.test/cb", True),
        ("https://app.test/cb", "https://app.test/cb/", False),
        ("https://app.test/cb", "https://app.test:8443/cb", False),
        ("https://app.test/cb", "https://app.test/cb?x=1", False),
        ("https://app.test/cb", "https://APP.test/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:3456/cb", True),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:3456/cb", True),
        ("http://[::1]/cb", "http://[::1]:3456/cb", True),
        ("http://localhost/cb", "http://localhost:3456/cb", True),
        ("http://localhost/cb", "http://127.0.0.1:3456/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:3456/other", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:3456/cb#x", False),
        ("http://127.0.0.1/cb", "http://user@127.0.0.1:3456/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:99999/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:0/cb", False),
        ("http://127.0.0.1/cb", "https://127.0.0.1:3456/cb", False),
        ("http://127.0.0.1/cb", "http://[oops/cb", False),
        ("app.test:/cb", "app.test:/cb", True),
        ("app.test:/cb", "app.test:/other", False),
    ],
)
async def test_redirect_uris_are_compared_exactly_except_for_loopback_ports(
    registered: str, requested: str, is_the_same: bool
) -> None:
    bench = Bench(clients=[KnownClient("public", redirect_uris=[registered])])

    answer = await bench.authorize(redirect_uri=requested)

    assert answer.status == (302 if is_the_same else 400)
    assert ("location" in answer.headers) == is_the_same


@pytest.mark.parametrize(
    "changed", [{"client_id": "unknown"}, {"client_id": None}, {"redirect_uri": "https://evil.test/"}]
)
async def test_a_browser_is_not_redirected_if_the_client_or_the_redirect_uri_is_unknown(
    changed: dict[str, Any],
) -> None:
    bench = Bench()

    answer = await bench.authorize(**changed)

    assert (answer.status, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
    assert "location" not in answer.headers
    assert bench.auth.requests[-1].error is not None


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"resource": "no url"}, "invalid_target"),
        ({"scope": "unheard-of"}, "invalid_scope"),
    ],
)
async def test_an_error_is_reported_to_the_client_by_redirect_with_the_issuer(
    changed: dict[str, Any], error: str
) -> None:
    bench = Bench(scopes=["read", "write"])

    answer = await bench.authorize(**changed)

    assert answer.status == 302
    back = answer.back
    assert back.pop("error_description")
    assert back == {"error": error, "state": "of mind", "iss": ISSUER}
    assert bench.auth.asked("authorize")[-1].error == error


async def test_a_user_signs_in_and_grants_the_request() -> None:
    browser = interactive_browser()

    page = await browser.open()
    text = unescape(page.body.decode())
    assert page.status == 200
    assert all(each in text for each in ("An editor", "read", "write", RESOURCE, BACK, "not for production"))
    back = await browser.decide(page)

    assert back.status == 303
    answer = await browser.bench.redeem(back.back["code"])
    assert browser.bench.claims(answer.json["access_token"])["sub"] == "user"


async def test_the_page_escapes_the_values_that_a_client_supplies() -> None:
    evil = KnownClient("public", name="<script>alert(1)</script>", redirect_uris=[BACK])
    browser = interactive_browser(clients=[evil])

    page = await browser.open(scope='"><img>', resource=None)

    text = page.body.decode()
    assert "<script" not in text
    assert "<img" not in text
    assert "an unnamed server" in text
    rules = page.headers["content-security-policy"]
    assert "default-src 'none'" in rules
    assert "frame-ancestors 'none'" in rules
    assert "form-action 'self' http:" in rules
    assert page.headers["cache-control"] == "no-store"


async def test_the_page_shows_that_a_client_requests_no_specific_scope() -> None:
    page = await interactive_browser().open(scope=None)

    assert "no specific scope" in page.body.decode()


async def test_a_user_may_deny_the_request() -> None:
    browser = interactive_browser()

    back = await browser.decide(await browser.open(), "deny")

    assert (back.status, back.back["error"], back.back["iss"]) == (303, "access_denied", ISSUER)


async def test_the_policy_may_deny_a_request_that_the_user_allows() -> None:
    def policy(_: AccessAsk) -> None:
        return None

    browser = interactive_browser(policy=policy)

    back = await browser.decide(await browser.open())

    assert (back.status, back.back["error"]) == (303, "access_denied")


@pytest.mark.parametrize(
    "form", [{"password": "wrong"}, {"password": ""}, {"username": "x"}, {"username": "x", "password": ""}]
)
async def test_a_wrong_password_is_reported_on_a_page_that_can_be_submitted_again(form: dict[str, str]) -> None:
    browser = interactive_browser()
    page = await browser.open()

    again = await browser.decide(page, **form)

    assert again.status == 403
    assert "password is wrong" in again.body.decode()
    assert (await browser.decide(again)).back["code"]


async def test_a_page_ends_after_ten_wrong_passwords() -> None:
    browser = interactive_browser()
    page = await browser.open()

    for _ in range(10):
        await browser.decide(page, password="wrong")

    assert "This page has expired" in (await browser.decide(page)).body.decode()


async def test_a_page_can_be_submitted_once() -> None:
    browser = interactive_browser()
    page = await browser.open()
    await browser.decide(page)

    assert (await browser.decide(page)).status == 403


async def test_a_page_ends_after_ten_minutes() -> None:
    browser = interactive_browser()
    page = await browser.open()
    browser.bench.clock.now += 600.0

    assert (await browser.decide(page)).status == 403


@pytest.mark.parametrize("cookie", ["", "trio-mcp-development=guessed", "trio-mcp-development=" + "x" * 43, "a,b=1;;="])
async def test_a_form_is_accepted_only_from_the_browser_that_received_it(cookie: str) -> None:
    browser = interactive_browser()
    page = await browser.open()
    browser.cookie = cookie

    assert (await browser.decide(page)).status == 403


async def test_a_browser_may_have_several_pages_open() -> None:
    browser = interactive_browser()
    first = await browser.open()
    second = await browser.bench.get("/authorize?" + first_query(browser), cookie=browser.cookie)

    assert (await browser.decide(first)).back["code"]
    assert (await browser.decide(second)).back["code"]


def first_query(browser: Browser) -> str:
    """Return the parameters of the first authorization request, as a query."""
    parameters = browser.bench.auth.asked("authorize")[0].parameters
    return urlencode({**parameters, "state": "another"})


@pytest.mark.parametrize(
    ("issuer", "path", "is_secure"),
    [("http://127.0.0.1:9000", "/", False), ("https://auth.test/tenant1", "/tenant1", True)],
)
async def test_the_cookie_is_limited_to_the_authorization_server(issuer: str, path: str, is_secure: bool) -> None:
    browser = Browser(Bench(issuer, auto_consent=False))

    page = await browser.open()

    _, *rules = page.headers["set-cookie"].split("; ")
    assert rules == [f"Path={path}", "HttpOnly", "SameSite=Lax", *(["Secure"] if is_secure else [])]
    assert urlsplit(issuer).path + "/decide" in page.body.decode()


async def test_the_number_of_open_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._authorize._MAX_TICKETS", 1)
    browser = interactive_browser()
    first = await browser.open()
    await browser.bench.authorize()

    assert (await browser.decide(first)).status == 403
