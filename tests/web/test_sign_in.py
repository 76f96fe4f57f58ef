"""A user signs in with a real browser at a real authorization server for a real protected server."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest
import trio
from attrs import define, field

from tests.auth.protected_server import serving_protected
from tests.auth.signed_tokens import Clock
from tests.web.webdriver import Browser
from trio_mcp import Client, open_http_client, types
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import OAuth
from trio_mcp.testing import open_authorization_server

USER, PASSWORD = "ada", "correct horse"
LAST_PAGE = "h1:first-child"
"""The heading of the last page; the consent page has a warning before its heading. A click may return earlier."""


@define(eq=False)
class Person:
    """A user with a browser who signs in on every page that an application opens."""

    browser: Browser
    allows: bool = True
    pages: list[str] = field(factory=list[str], init=False)
    """The visible text of each consent page."""

    async def show(self, url: str) -> None:
        await self.browser.go(url)
        self.pages.append(await self.browser.text())
        if not self.allows:
            await self.browser.click("button[value=deny]")
            return
        await self.browser.type("input[name=username]", USER)
        await self.browser.type("input[name=password]", PASSWORD)
        await self.browser.click("button[value=allow]")


async def answer(client: Client, tool: str) -> str:
    """call"""
    (block,) = (await client.call_tool(tool, raise_on_error=True)).content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("dpop", [False, True], ids=["bearer", "dpop"])
async def test_consent_redirect_token_call_expiry_refresh_and_step_up(dpop: bool, browser: Browser) -> None:
    clock, person = Clock(time.time()), Person(browser)
    auth = OAuth(client_name="the application", show=person.show, clock=clock, dpop=dpop)

    async with (
        open_authorization_server(
            users={USER: PASSWORD}, clock=clock, token_seconds=600, dpop_nonces=True
        ) as authorization,
        serving_protected(authorization.issuer, scopes=["read"], clock=clock) as url,
        open_http_client(url, auth=auth) as client,
    ):
        assert await answer(client, "whoami") == USER
        assert [request.parameters["scope"] for request in authorization.asked("authorize")] == ["read"]
        assert ("dpop_jkt" in authorization.asked("authorize")[0].parameters) is dpop
        assert "Allow the application?" in person.pages[0]
        assert url in person.pages[0]
        assert await browser.text(LAST_PAGE) == "Back to the application"
        assert (await browser.url()).startswith("http://127.0.0.1:")

        clock.now += 3600
        assert await answer(client, "whoami") == USER
        assert (authorization.refreshes, len(person.pages)) == (1, 1)

        assert await answer(client, "erase") == f"erased by {USER}"
        assert len(person.pages) == 2
        assert {"read", "write"} <= set(authorization.asked("authorize")[1].parameters["scope"].split())
        assert "write" in person.pages[1]

        clock.now += 3600
        assert await answer(client, "erase") == f"erased by {USER}"
        assert (authorization.refreshes, len(person.pages)) == (2, 2)


async def test_without_refresh_tokens_the_user_signs_in_again(browser: Browser) -> None:
    clock, person = Clock(time.time()), Person(browser)

    async with (
        open_authorization_server(
            users={USER: PASSWORD}, clock=clock, token_seconds=600, refresh_tokens="never"
        ) as authorization,
        serving_protected(authorization.issuer, clock=clock) as url,
        open_http_client(url, auth=OAuth(show=person.show, clock=clock)) as client,
    ):
        for _ in range(2):
            assert await answer(client, "whoami") == USER
            clock.now += 3600

    assert (authorization.refreshes, len(person.pages)) == (0, 2)


async def test_a_user_who_refuses_consent_is_not_asked_again(browser: Browser) -> None:
    person = Person(browser, allows=False)

    async with (
        open_authorization_server(users={USER: PASSWORD}) as authorization,
        serving_protected(authorization.issuer) as url,
    ):
        with pytest.raises(AuthorizationFailed) as caught:
            async with open_http_client(url, auth=OAuth(show=person.show)):
                pass

        assert caught.value.error == "access_denied"
        assert await browser.text(LAST_PAGE) == "Not signed in"
        assert len(person.pages) == 1


async def test_a_wrong_password_leads_back_to_the_sign_in_form(browser: Browser) -> None:
    messages = list[str]()

    async def show(url: str) -> None:
        await browser.go(url)
        await sign_in("wrong")
        messages.append(await browser.text("[role=alert]"))
        await sign_in(PASSWORD)

    async def sign_in(password: str) -> None:
        await browser.type("input[name=username]", USER)
        await browser.type("input[name=password]", password)
        await browser.click("button[value=allow]")

    async with (
        open_authorization_server(users={USER: PASSWORD}) as authorization,
        serving_protected(authorization.issuer) as url,
        open_http_client(url, auth=OAuth(show=show)) as client,
    ):
        assert await answer(client, "whoami") == USER

    assert messages == ["The user name or the password is wrong."]
    assert len(authorization.asked("authorize")) == 1


async def test_the_command_line_client_signs_in(browser: Browser, tmp_path: Path) -> None:
    person = Person(browser)
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "BROWSER": "true"}

    async with (
        open_authorization_server(users={USER: PASSWORD}) as authorization,
        serving_protected(authorization.issuer) as url,
        trio.open_nursery() as nursery,
    ):
        line = [sys.executable, "-m", "trio_mcp", "call", "whoami", "--login", "--", url]
        for _ in range(2):
            process = await nursery.start(partial(trio.run_process, line, stdout=PIPE, stderr=PIPE, env=environment))
            stderr = b""
            async for chunk in process.stderr:
                stderr += chunk
                if b"\n    http" in stderr and stderr.endswith(b"\n") and not person.pages:
                    await person.show(stderr.decode().splitlines()[1].strip())
            assert b"".join([chunk async for chunk in process.stdout]) == f"{USER}\n".encode()

    assert len(person.pages) == 1
    assert "Allow trio-mcp?" in person.pages[0]
