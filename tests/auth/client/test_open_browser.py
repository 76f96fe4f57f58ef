"""The functions that open a sign-in page in a browser or print its URL."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

import pytest
import trio

from trio_mcp import auth
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth.client._browser import host_of

PAGE = "https://auth.example.org/authorize?client_id=c&scope=a%20b&state=s#x"
PRINTED = f"To sign in at auth.example.org, visit:\n    {PAGE}\n"
OPENED = f"To sign in at auth.example.org, use the page that your browser opens, or visit:\n    {PAGE}\n"
NO_BROWSER = "(no browser could be opened here)\n"


@pytest.fixture
def no_browsers(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Reset the browser detection of the standard library and simulate a machine without browsers."""
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    return monkeypatch


def make_program(folder: Path, name: str, text: str) -> str:
    """Write an executable Python program; return its path."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_print_url_prints_the_url(capsys: pytest.CaptureFixture[str]) -> None:
    await auth.print_url(PAGE)

    assert capsys.readouterr() == ("", PRINTED)


async def test_the_browser_gets_the_url_as_one_argument_and_the_user_gets_a_message(
    no_browsers: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    browser = make_program(
        tmp_path, "browser", "import json, sys; json.dump(sys.argv[1:], open(__file__ + '.seen', 'w'))"
    )
    no_browsers.setenv("BROWSER", browser)

    await auth.open_browser(f"{PAGE}&x=$(touch%20{tmp_path}/gotten)&y=';id")

    assert (tmp_path / "browser.seen").read_text() == f'["{PAGE}&x=$(touch%20{tmp_path}/gotten)&y=\';id"]'
    assert not (tmp_path / "gotten").exists()
    assert capsys.readouterr().err.startswith("To sign in at auth.example.org, use the page that your browser opens,")


async def test_without_a_browser_the_message_says_so(
    no_browsers: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await auth.open_browser(PAGE)

    assert capsys.readouterr() == ("", OPENED + NO_BROWSER)


async def test_a_browser_that_cannot_be_started_counts_as_missing(
    no_browsers: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(webbrowser.BaseBrowser):
        def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
            raise PermissionError("no")

    no_browsers.setattr(webbrowser, "_browsers", {"broken": [None, Broken()]})
    no_browsers.setattr(webbrowser, "_tryorder", ["broken"])

    await auth.open_browser(PAGE)

    assert capsys.readouterr().err == OPENED + NO_BROWSER


async def test_a_text_browser_is_not_started(
    no_browsers: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_program(tmp_path, "w3m", "open(__file__ + '.seen', 'w')")
    no_browsers.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin")
    no_browsers.setenv("TERM", "xterm")

    await auth.open_browser(PAGE)

    assert type(webbrowser.get()) is webbrowser.GenericBrowser
    assert not (tmp_path / "w3m.seen").exists()
    assert capsys.readouterr().err == OPENED + NO_BROWSER


async def test_a_blocking_browser_does_not_delay_a_cancellation(
    no_browsers: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "up")
    os.mkfifo(tmp_path / "end")
    no_browsers.setenv(
        "BROWSER", make_program(tmp_path, "browser", f"open('{tmp_path}/up', 'w').close(); open('{tmp_path}/end')")
    )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(auth.open_browser, PAGE)
        await trio.to_thread.run_sync((tmp_path / "up").read_bytes)
        nursery.cancel_scope.cancel()

    (tmp_path / "end").write_bytes(b"")


async def test_a_closed_standard_error_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)

    await auth.print_url(PAGE)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "--incognito",
        "https://",
        "https:///path",
        "https://[::1",
        "https://auth.example.org/ --flag",
        "https://auth.example.org/\nhttps://evil.example",
        "https://auth.example.org/\x1b[31m",
        'https://auth.example.org/"',
        "https://auth.example.org/`id`",
        "https://auth.example.org/\\x",
        "https://аuth.example.org/",  # noqa: RUF001 # the first letter is Cyrillic, on purpose
        f"https://auth.example.org/{'x' * 20_000}",
    ],
)
async def test_an_unsafe_url_is_not_shown(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AuthorizationFailed, match="http or https URL"):
        await auth.open_browser(url)
    with pytest.raises(AuthorizationFailed, match="http or https URL"):
        await auth.print_url(url)

    assert capsys.readouterr() == ("", "")


def test_the_host_is_shown_without_its_port() -> None:
    assert host_of("http://Localhost:8000/authorize") == "localhost"
