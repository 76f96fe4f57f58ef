"""Views of apps in Chromium, with `trio-mcp app`: what they can do, what they cannot, and pictures of them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.preview import Preview, previewing
from tests.web.webdriver import Browser

CHART = str(Path(__file__).parents[2] / "examples" / "chart_server.py")
PAGES = str(Path(__file__).with_name("app_pages.py"))
NOWHERE = "http://127.0.0.1:1"
SANDBOX, VIEW = "#place iframe", "iframe"
PICTURE = (900, 600)


async def eventually(browser: Browser, condition: str) -> None:
    """Wait until an expression is true in the page."""
    with trio.fail_after(60):
        while not await browser.run(f"return {condition}"):
            pass


@asynccontextmanager
async def showing(browser: Browser, *arguments: str, server: Sequence[str]) -> AsyncGenerator[Preview]:
    """Preview an app, and go into its view."""
    async with previewing(*arguments, "--no-browser", "--json", server=server) as preview:
        await browser.go(preview.url)
        await eventually(browser, "document.getElementById('log').textContent.includes('ui/initialize')")
        await browser.enter(SANDBOX, VIEW)
        yield preview


# --- A chart ---


async def test_a_view_shows_the_result_calls_back_and_has_its_size(browser: Browser) -> None:
    async with showing(browser, "sales", "year=2026", server=[CHART]) as preview:
        await eventually(browser, "document.getElementById('title').textContent === 'Sales 2026'")
        await browser.click("#before")
        await eventually(browser, "document.getElementById('title').textContent === 'Sales 2025'")
        needed = await browser.run("return Math.ceil(document.documentElement.getBoundingClientRect().height)")
        await browser.enter()
        await eventually(browser, f"document.querySelector('{SANDBOX}').getBoundingClientRect().height === {needed}")
        await browser.click("#theme")
        await browser.enter(SANDBOX, VIEW)
        await eventually(browser, "document.documentElement.classList.contains('dark')")
        status, output = await preview.stop()
        await browser.enter()
        ended = await browser.text("#ended")

    messages = [json.loads(line)["message"] for line in output.splitlines()]
    methods = [each.get("method") for each in messages]
    assert methods.count("tools/call") == 1
    assert methods.index("ui/notifications/initialized") < methods.index("ui/notifications/tool-input")
    assert methods[-2:] == ["ui/resource-teardown", None]
    assert (status, ended) == (130, "The view has ended.")


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_link_is_opened_only_with_consent(is_allowed: bool, browser: Browser) -> None:
    async with showing(browser, "sales", "year=2026", server=[CHART]):
        await browser.click("#about")
        await browser.enter()
        await eventually(browser, "document.getElementById('consent').open")
        assert await browser.text("#subject") == "https://modelcontextprotocol.io/extensions/apps/overview"
        assert await browser.run("return document.activeElement.id") == "refuse"
        assert await browser.windows() == 1
        await browser.click("#allow" if is_allowed else "#refuse")
        await browser.enter(SANDBOX, VIEW)
        if not is_allowed:
            await eventually(browser, "document.getElementById('status').textContent === 'the user has refused'")
        await browser.click("#before")
        await eventually(browser, "document.getElementById('title').textContent === 'Sales 2025'")
        assert await browser.windows() == (2 if is_allowed else 1)


async def test_the_user_closes_a_view(browser: Browser) -> None:
    async with showing(browser, "sales", "year=2026", server=[CHART]):
        await browser.enter()
        await browser.click("#close")
        assert await browser.text("#ended") == "The view has ended."
        assert await browser.run(f"return document.querySelector('{SANDBOX}')") is None


# --- A view that tries to leave ---


@asynccontextmanager
async def open_victim() -> AsyncGenerator[tuple[str, list[str]]]:
    """Serve at an origin of its own; yield the origin, and the requests that arrive."""
    requests = list[str]()

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            requests.append((await stream.receive_some()).decode("latin-1").partition(" HTTP")[0])
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\naccess-control-allow-origin: *\r\n\r\n")

    async with trio.open_nursery() as nursery:
        start = partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
        listeners: list[trio.SocketListener] = await nursery.start(start)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}", requests
        nursery.cancel_scope.cancel()


async def test_a_view_cannot_leave_its_sandbox(browser: Browser) -> None:
    async with open_victim() as (victim, requests), showing(browser, "leave", server=[PAGES, victim, ""]) as preview:
        host = await browser.run("return await began")
        tried = await browser.run("return await outcomes")
        await browser.click("#top")
        await browser.click("#submit")
        for place in ("/self", "data:text/html,x", "blob:x", "javascript:document.title='x'"):
            target = f"{victim}{place}" if place.startswith("/") else place
            await browser.run("setTimeout(() => { location = $[0] })", target)
            await browser.enter(SANDBOX, VIEW)
        await browser.enter()
        url, windows = await browser.url(), await browser.windows()

    assert host["hostCapabilities"]["sandbox"]["csp"] == {"connectDomains": [], "resourceDomains": []}
    refused: dict[str, Any] = {
        "fetch": "TypeError",
        "socket": {"refused", "SecurityError"},
        "source": {"refused", "nothing", "SecurityError"},
        "worker": {"refused", "SecurityError"},
        "eval": "EvalError",
        "parent": "SecurityError",
        "top": "SecurityError",
        "topLocation": "SecurityError",
        "parentLocation": "SecurityError",
        "popup": "null",
        "storage": "SecurityError",
        "cookie": "SecurityError",
        "origin": "null",
        "camera": {False},
    }
    for name, outcomes in refused.items():
        assert tried[name] in (outcomes if isinstance(outcomes, set) else {outcomes}), (name, tried[name])
    assert requests == []
    assert (url, windows) == (preview.url, 1)


async def test_a_view_reaches_what_its_server_declares(browser: Browser) -> None:
    fetched = "return await fetch($[0] + '/fetch').then(answer => answer.status, error => error.name)"
    async with open_victim() as (victim, requests), showing(browser, "stay", server=[PAGES, victim, ""]):
        await browser.run("await began")
        assert await browser.run(fetched, victim) == 200
        assert await browser.run(fetched, victim.replace("127.0.0.1", "localhost")) == "TypeError"

    assert requests == ["GET /fetch"]


async def test_a_view_cannot_pretend_to_be_its_sandbox(browser: Browser) -> None:
    async with showing(browser, "leave", server=[PAGES, NOWHERE, ""]) as preview:
        await browser.run("await began; send({method: 'ui/notifications/sandbox-proxy-ready', params: {}})")
        await browser.run("return await request('ping')")
        _, output = await preview.stop()

    assert output.count("sandbox-proxy-ready") == 1


async def test_a_page_elsewhere_cannot_hold_the_preview(browser: Browser) -> None:
    async with (
        previewing("leave", "--no-browser", server=[PAGES, NOWHERE, ""]) as preview,
        open_victim() as (victim, _),
    ):
        await browser.go(victim)
        for url in (preview.url, (await preview.settings())["sandbox"]):
            held = """
                const frame = document.createElement("iframe");
                frame.src = $[0];
                const loaded = new Promise(resolve => { frame.onload = resolve });
                document.body.append(frame);
                await loaded;
                return frame.contentDocument === null;
            """
            assert await browser.run(held, url)
            await browser.enter("iframe")
            assert "chrome-error" in await browser.run("return location.href")
            await browser.enter()
            await browser.run("document.querySelector('iframe').remove()")


# --- A view that is made with the library of the extension's authors ---


async def test_a_view_of_the_ext_apps_library(ext_apps: str, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "library.js").write_text(ext_apps, encoding="utf-8")
    library = str(tmp_path / "library.js")
    async with showing(browser, "sold", "year=2026", server=[PAGES, NOWHERE, library]) as preview:
        await eventually(browser, "window.isConnected")
        await eventually(browser, "heard.length >= 2")
        heard = await browser.run("return heard")
        about = await browser.run("return [app.getHostVersion(), app.getHostCapabilities(), app.getHostContext()]")
        called = await browser.run("return await app.callServerTool({name: 'sold', arguments: {year: 1}})")
        read = await browser.run("return await app.readServerResource({uri: 'ui://escape'})")
        mode = await browser.run("return await app.requestDisplayMode({mode: 'fullscreen'})")
        await browser.run("await app.updateModelContext({content: [{type: 'text', text: 'x'}]})")
        await browser.run("await app.sendLog({level: 'info', data: 'drawn'})")
        refused = await browser.run(
            "return await app.openLink({url: 'javascript:1'}).then(() => 'opened', error => error.message)"
        )
        for script, button in (
            ("app.openLink({url: 'https://example.com/'})", "#refuse"),
            ("app.sendMessage({role: 'user', content: [{type: 'text', text: 'hello'}]})", "#allow"),
        ):
            await browser.run(f"window.asked = {script}.then(() => 'allowed', error => error.message)")
            await browser.enter()
            await eventually(browser, "document.getElementById('consent').open")
            await browser.click(button)
            await browser.enter(SANDBOX, VIEW)
            expected = "the user has refused" if button == "#refuse" else "allowed"
            assert expected in await browser.run("return await asked")
        await browser.enter()
        await eventually(browser, f"document.querySelector('{SANDBOX}').getBoundingClientRect().height >= 400")
        await browser.click("#theme")
        await browser.enter(SANDBOX, VIEW)
        await eventually(browser, "heard.length >= 3")
        changed = (await browser.run("return heard"))[2]
        status, output = await preview.stop()

    assert heard == [["input", {"year": 2026}], ["result", {"year": 2026}]]
    assert about[0]["name"] == "trio-mcp"
    assert about[1]["serverTools"] == {}
    assert about[2]["toolInfo"]["tool"]["name"] == "sold"
    assert called["structuredContent"] == {"year": 1}
    assert read["contents"][0]["mimeType"] == "text/html;profile=mcp-app"
    assert mode["mode"] == "inline"
    assert "address of a web page" in refused
    assert changed == ["context", "dark"]
    assert json.loads(output.splitlines()[-1])["message"]["result"] == {}
    assert status == 130


# --- Pictures for the documentation ---


async def test_a_picture_of_the_preview(browser: Browser, screenshots: Path) -> None:
    pictures: list[tuple[str, Any]] = [("preview.png", None), ("preview-consent.png", "#about")]
    await browser.resize(*PICTURE)
    async with showing(browser, "sales", "year=2026", server=[CHART]):
        for name, button in pictures:
            await eventually(browser, "document.getElementById('title').textContent === 'Sales 2026'")
            if button is not None:
                await browser.click(button)
            await browser.enter()
            if button is not None:
                await eventually(browser, "document.getElementById('consent').open")
            picture = await browser.screenshot()
            assert picture.startswith(b"\x89PNG")
            assert len(picture) < 200_000
            (screenshots / name).write_bytes(picture)
            await browser.enter(SANDBOX, VIEW)
