"""A client of the WebDriver protocol that drives a headless Chromium.

Specification: https://www.w3.org/TR/webdriver2/
"""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import trio
from attrs import define

FLAGS = (
    "--headless",
    "--no-sandbox",  # the sandbox does not work for root, the user in containers
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
)
TIMEOUT_SECONDS = 30
"""The timeout for a page and its elements."""

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_STARTED = re.compile(rb"started successfully on port (\d+)")


@define(eq=False)
class Browser:
    """A browser with one window."""

    _http: httpx2.AsyncClient
    _window: str

    async def go(self, url: str) -> None:
        """Visit a page and wait until it has loaded."""
        await self._request("POST", "url", url=url)

    async def url(self) -> str:
        """Return the URL of the page."""
        return str(await self._request("GET", "url"))

    async def text(self, css: str = "body") -> str:
        """Wait for an element and return its visible text."""
        return str(await self._request("GET", f"element/{await self._find(css)}/text"))

    async def type(self, css: str, text: str) -> None:
        """Type into an element."""
        await self._request("POST", f"element/{await self._find(css)}/value", text=text)

    async def click(self, css: str) -> None:
        """Click an element and wait until the resulting page has loaded."""
        await self._request("POST", f"element/{await self._find(css)}/click")

    async def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of an async function in the page; return its value, or raise AssertionError with its error."""
        body = f"return (async (...$) => {{ {script} }})(...arguments)"
        return await self._request("POST", "execute/sync", script=body, args=arguments)

    async def enter(self, *frames: str) -> None:
        """Go into a frame of the top page, and into frames within it; each is found by a selector."""
        await self._request("POST", "frame", id=None)
        for css in frames:
            await self._request("POST", "frame", id={_ELEMENT: await self._find(css)})

    async def windows(self) -> int:
        """Return the number of windows and tabs."""
        return len(await self._request("GET", "window/handles"))

    async def resize(self, width: int, height: int) -> None:
        """Change the size of the window, in pixels."""
        await self._request("POST", "window/rect", width=width, height=height)

    async def emulate(self, *, width: int, dark: bool = False) -> None:
        """Lay pages out for a screen of this width in pixels, even narrower than a window can be; in light or dark."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._command("Emulation.setDeviceMetricsOverride", **metrics)
        await self._command("Emulation.setEmulatedMedia", features=[scheme])

    async def errors(self) -> list[str]:
        """Return the errors of scripts and requests since the last time that this was asked."""
        entries = await self._request("POST", "se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    async def screenshot(self) -> bytes:
        """Return a picture of the page, as PNG."""
        return base64.b64decode(await self._request("GET", "screenshot"))

    async def _command(self, name: str, **params: Any) -> None:
        await self._request("POST", "goog/cdp/execute", cmd=name, params=params)

    async def _find(self, css: str) -> str:
        found = await self._request("POST", "element", using="css selector", value=css)
        return str(found[_ELEMENT])

    async def _request(self, method: str, what: str, **members: Any) -> Any:
        body = members if method == "POST" else None
        response = await self._http.request(method, f"/session/{self._window}/{what}", json=body)
        return _value(response)


@asynccontextmanager
async def open_browser(profile: Path) -> AsyncGenerator[Browser]:
    """Start a browser with an empty profile.

    Args:
        profile: an empty folder for the profile.
    """
    async with (
        _driver() as address,
        httpx2.AsyncClient(base_url=address, timeout=2 * TIMEOUT_SECONDS, trust_env=False) as http,
    ):
        chrome = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        limits = dict.fromkeys(("implicit", "pageLoad", "script"), TIMEOUT_SECONDS * 1000)
        wanted: dict[str, Any] = {"browserName": "chrome", "goog:chromeOptions": chrome, "timeouts": limits}
        wanted["goog:loggingPrefs"] = {"browser": "SEVERE"}
        wanted["acceptInsecureCerts"] = True  # those of the tests have no known issuer
        started = _value(await http.post("/session", json={"capabilities": {"alwaysMatch": wanted}}))
        window = started["sessionId"]
        try:
            yield Browser(http, window)
        finally:
            with trio.move_on_after(TIMEOUT_SECONDS, shield=True):
                await http.delete(f"/session/{window}")


@asynccontextmanager
async def _driver() -> AsyncGenerator[str]:
    """Start the WebDriver server; yield its address."""
    async with trio.open_nursery() as nursery:
        process = await nursery.start(_run_driver)
        assert process.stdout is not None
        output = b""
        with trio.fail_after(TIMEOUT_SECONDS):
            while not (started := _STARTED.search(output)):
                chunk = await process.stdout.receive_some()
                assert chunk, f"chromedriver exited: {output.decode(errors='replace')}"
                output += chunk
        nursery.start_soon(_discard, process.stdout)
        yield f"http://127.0.0.1:{started[1].decode()}"
        nursery.cancel_scope.cancel()


async def _run_driver(*, task_status: trio.TaskStatus[trio.Process]) -> None:
    await trio.run_process(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, task_status=task_status
    )


async def _discard(stream: trio.abc.ReceiveStream) -> None:
    async for _ in stream:
        pass


def _value(response: httpx2.Response) -> Any:
    value = response.json()["value"]
    assert response.status_code == 200, value
    return value
