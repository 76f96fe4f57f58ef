"""The command `app`: its pages and who gets them, the view in them, and the consent of the user."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cli.command import run
from tests.cli.preview import SERVER, PlayedPage, previewing
from trio_mcp import types
from trio_mcp.wire import JsonObject

SALES = ["sales", "year=2026", "--no-browser"]


# --- The pages ---


async def test_the_page_and_the_sandbox_have_policies_of_their_own() -> None:
    async with previewing(*SALES) as preview:
        settings = await preview.settings()
        host, sandbox = await preview.get(), await preview.get(port=port_of(settings), path=path_of(settings))

    origin = f"http://127.0.0.1:{preview.port}"
    assert "HTTP/1.1 200" in host
    assert "HTTP/1.1 200" in sandbox
    assert settings["sandboxOrigin"] != origin
    assert settings["title"] == "Sales"
    assert settings["about"] == "ui://chart, an app of The charts; it may use https://api.example.com"
    assert (settings["allow"], settings["border"]) == ("clipboard-write", True)
    policy = field_of(host, "content-security-policy")
    assert f"frame-src {settings['sandboxOrigin']};" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy
    policy = field_of(sandbox, "content-security-policy")
    assert "connect-src https://api.example.com;" in policy
    assert policy.endswith(f"frame-ancestors {origin}")
    for page in (host, sandbox):
        assert field_of(page, "referrer-policy") == "no-referrer"
        assert field_of(page, "cache-control") == "no-store"
    assert origin in sandbox
    assert "<title>Chart</title>" not in sandbox


def port_of(settings: JsonObject) -> int:
    return int(settings["sandboxOrigin"].rpartition(":")[2])


def path_of(settings: JsonObject) -> str:
    return str(settings["sandbox"].removeprefix(settings["sandboxOrigin"]))


def field_of(response: str, name: str) -> str:
    lines = response.partition("\r\n\r\n")[0].splitlines()
    return next(line.partition(": ")[2] for line in lines if line.lower().startswith(f"{name}:"))


async def test_nothing_else_is_served() -> None:
    async with previewing(*SALES) as preview:
        settings = await preview.settings()
        answers = [
            await preview.get("/"),
            await preview.get("/favicon.ico"),
            await preview.get(f"{preview.path}socket"),
            await preview.get(preview.path.rstrip("/")),
            await preview.get(f"/{'x' * 32}/"),
            await preview.get(path_of(settings)),
            await preview.get(host="evil.example"),
            await preview.get(host=f"localhost:{preview.port}"),
            await preview.get(method="POST", content_length="0"),
            await preview.get(preview.path, port=port_of(settings)),
        ]
        head = await preview.get(method="HEAD")

    assert {answer.splitlines()[0] for answer in answers} == {"HTTP/1.1 404 Not Found"}
    assert head.startswith("HTTP/1.1 200")
    assert head.endswith("\r\n\r\n")


async def test_only_the_page_opens_the_websocket() -> None:
    async with previewing(*SALES) as preview:
        settings = await preview.settings()
        host, path = f"127.0.0.1:{preview.port}", f"{preview.path}socket"
        tries: list[tuple[int, str, str, str]] = [
            (preview.port, host, path, settings["sandboxOrigin"]),
            (preview.port, host, path, "null"),
            (preview.port, "evil.example", path, f"http://{host}"),
            (preview.port, host, "/wrong/socket", f"http://{host}"),
            (port_of(settings), settings["sandboxOrigin"][7:], f"{path_of(settings)}socket", settings["sandboxOrigin"]),
        ]
        statuses = list[int | None]()
        for port, name, target, origin in tries:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                page = PlayedPage(stream)
                await page.open(name, target, origin=origin)
                statuses.append(page.refused)
        old = await preview.get(
            path,
            origin=f"http://{host}",
            upgrade="websocket",
            connection="close, upgrade",
            sec_websocket_version="8",
            sec_websocket_key="x",
        )

    assert statuses == [404] * 5
    assert old.startswith("HTTP/1.1 426")


# --- The view ---


async def test_a_view_is_shown_with_the_call_and_every_message_is_printed() -> None:
    async with previewing(*SALES, "--json") as preview:
        async with preview.page() as page:
            await page.begin()
            given = await page.heard("ui/notifications/tool-input")
            result = await page.heard("ui/notifications/tool-result")
            await page.ask("tools/call", {"name": "sales", "arguments": {"year": 1}})
            called = await page.answer()
            await page.tell(context={"theme": "dark"})
            changed = await page.heard("ui/notifications/host-context-changed")
        status, output = await preview.stop()

    assert "the app of sales is at" in preview.shown
    assert given["params"] == {"arguments": {"year": 2026}}
    assert result["params"]["structuredContent"] == {"year": 2026, "calls": 1}
    assert called["result"]["structuredContent"] == {"year": 1, "calls": 2}
    assert changed["params"] == {"theme": "dark"}
    assert status == 130
    printed = [json.loads(line) for line in output.splitlines()]
    senders = [(each["from"], each["message"].get("method", "")) for each in printed]
    assert senders == [
        ("view", "ui/notifications/sandbox-proxy-ready"),
        ("host", "ui/notifications/sandbox-resource-ready"),
        ("view", "ui/initialize"),
        ("host", ""),
        ("view", "ui/notifications/initialized"),
        ("host", "ui/notifications/tool-input"),
        ("host", "ui/notifications/tool-result"),
        ("view", "tools/call"),
        ("host", ""),
        ("host", "ui/notifications/host-context-changed"),
    ]


async def test_messages_are_one_line_each_for_people() -> None:
    async with previewing(*SALES) as preview:
        async with preview.page() as page:
            await page.begin()
            await page.heard("ui/notifications/tool-result")
            await page.ask("ui/unknown", {"text": "a\x1b[2J\nb" + "x" * 300})
            await page.answer()
            await page.tell(view="no message")
            await page.ask("ping", {})
            await page.answer()
        _, output = await preview.stop()

    lines = output.splitlines()
    assert lines[0] == "--> ui/notifications/sandbox-proxy-ready {}"
    assert lines[2].startswith('--> ui/initialize #1 {"appInfo":')
    unknown, error, odd, ping, pong = lines[-5:]
    assert unknown.startswith('--> ui/unknown #2 {"text":"a\\u001b[2J\\nbxx')
    assert len(unknown) <= 210
    assert error.startswith('<-- error #2 {"code":-32601')
    assert (odd, ping, pong) == ('--> result "no message"', "--> ping #3 {}", "<-- result #3 {}")


async def test_a_page_that_is_loaded_again_shows_the_same_call() -> None:
    async with previewing(*SALES) as preview:
        results = list[Any]()
        for _ in range(2):
            async with preview.page() as page:
                await page.begin()
                results.append((await page.heard("ui/notifications/tool-result"))["params"]["structuredContent"])

    assert results == [{"year": 2026, "calls": 1}] * 2


async def test_a_call_that_fails_is_told_to_the_view_and_the_user() -> None:
    async with previewing("sales", "year=-1", "--no-browser") as preview:
        async with preview.page() as page:
            await page.begin()
            cancelled = await page.heard("ui/notifications/tool-cancelled")
        assert preview.process.stderr
        said = (await preview.process.stderr.receive_some()).decode()

    assert cancelled["params"] == {"reason": "the call failed (ErrorResponse)"}
    assert said == "the call of sales failed: no such year (-32050)\n"


async def test_the_user_closes_the_view() -> None:
    async with previewing(*SALES) as preview, preview.page() as page:
        await page.begin()
        await page.heard("ui/notifications/tool-result")
        await page.tell(close=True)
        asked = await page.heard("ui/resource-teardown")
        await page.tell(view={"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        assert await page.next("isClosed") is True
        await page.until_closed()

    assert asked["params"] == {"reason": "the user has closed the view"}


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_view_is_asked_to_end_when_the_command_is_interrupted(is_answered: bool) -> None:
    async with previewing(*SALES) as preview, preview.page() as page, trio.open_nursery() as nursery:
        await page.begin()
        await page.heard("ui/notifications/tool-result")
        statuses = list[int]()

        async def stop() -> None:
            statuses.append((await preview.stop())[0])

        nursery.start_soon(stop)
        asked = await page.heard("ui/resource-teardown")
        if is_answered:
            await page.tell(view={"jsonrpc": "2.0", "id": asked["id"], "result": {}})
            assert await page.next("isClosed") is True

    assert statuses == [130]


async def test_what_a_page_says_wrongly_is_skipped() -> None:
    async with previewing(*SALES) as preview, preview.page() as page:
        for text in (
            "",
            "{",
            "[1]",
            "7",
            "{}",
            '{"answer": {"id": 7, "isAllowed": true}}',
            '{"context": {"theme": 7}}',
        ):
            await page.say(text)
        await page.say(json.dumps({"view": "x" * 21 * 1024 * 1024}))
        await page.begin()
        assert (await page.heard("ui/notifications/tool-result"))["params"]["structuredContent"]["calls"] == 1


# --- Consent ---


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_the_user_is_asked_in_the_page(is_allowed: bool) -> None:
    blob = types.BlobResourceContents(uri="report://inline.bin", blob="/wA=")
    embedded = types.unstructure(types.EmbeddedResource(resource=blob))
    links = [
        types.unstructure(types.ResourceLink(uri=uri, name="x")) for uri in ("report://text/a.csv", "report://bytes")
    ]
    requests: list[tuple[str, JsonObject]] = [
        ("ui/open-link", {"url": "https://example.com/a"}),
        ("ui/message", {"role": "user", "content": [{"type": "text", "text": "Hello"}]}),
        ("ui/download-file", {"contents": [embedded, *links]}),
    ]
    asked = list[Any]()
    responses = list[JsonObject]()
    async with previewing(*SALES) as preview, preview.page() as page:
        await page.begin()
        for method, params in requests:
            await page.ask(method, params)
            asked.append(await page.next("question"))
            await page.tell(answer={"id": asked[-1]["id"], "isAllowed": is_allowed})
            responses.append(await page.answer())
        await page.ask("ui/update-model-context", {"content": []})
        assert (await page.answer())["result"] == {}
        await page.tell(view={"jsonrpc": "2.0", "method": "notifications/message", "params": LOG})

    assert [each["subject"] for each in asked] == [
        "https://example.com/a",
        "Hello",
        "inline.bin (application/octet-stream)\na.csv (text/csv)\nbytes (application/octet-stream)",
    ]
    assert asked[0]["url"] == "https://example.com/a"
    assert [base64.b64decode(each["base64"]) for each in asked[2]["files"]] == [
        b"\xff\x00",
        "a.csv;ä".encode(),
        b"\xff\x00",
    ]
    assert ["result" in each for each in responses] == [is_allowed] * 3


LOG: JsonObject = {"level": "info", "data": "drawn"}


async def test_a_file_that_cannot_be_read_is_not_saved() -> None:
    link = types.unstructure(types.ResourceLink(uri="report://missing", name="x"))
    async with previewing(*SALES) as preview, preview.page() as page:
        await page.begin()
        await page.ask("ui/download-file", {"contents": [link]})
        response = await page.answer()

    assert response["error"] == {"code": -32603, "message": "the host failed"}


async def test_a_question_ends_with_its_page() -> None:
    async with previewing(*SALES) as preview:
        async with preview.page() as page:
            await page.begin()
            await page.ask("ui/open-link", {"url": "https://example.com/a"})
            await page.next("question")
        async with preview.page() as page:
            await page.begin()
            assert await page.heard("ui/notifications/tool-result")


# --- The command line ---


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["plain"], "trio-mcp app: the tool 'plain' has no app"),
        (["sale"], "the server has no tool 'sale'"),
        (["sales"], "the arguments do not fit, nothing was sent"),
        (["sales", "year"], "expected KEY=VALUE, got 'year'"),
    ],
)
def test_a_wrong_command_line_opens_nothing(arguments: list[str], error: str) -> None:
    done = run("app", *arguments, "--no-browser", SERVER)

    assert done.returncode == 2
    assert error in done.stderr.decode()


async def test_the_browser_is_opened(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser.py"
    browser.write_text(f"import sys, pathlib\npathlib.Path({str(opened)!r}).write_text(sys.argv[1])\n")
    async with previewing("sales", "year=1", BROWSER=f"{sys.executable} {browser} %s") as preview:
        while not opened.exists() or not opened.read_text():
            await trio.lowlevel.checkpoint()
        assert (await preview.stop())[0] == 130

    assert opened.read_text() == preview.url


async def test_a_browser_that_is_missing_is_reported() -> None:
    nothing = {"BROWSER": "/does/not/exist %s", "DISPLAY": "", "WAYLAND_DISPLAY": "", "PATH": "/nowhere"}
    async with previewing("sales", "year=1", **nothing) as preview:
        assert preview.process.stderr
        said = preview.shown
        while "could be opened" not in said:
            said += (await preview.process.stderr.receive_some()).decode()

    assert said.endswith("(no browser could be opened here)\n")


async def test_an_output_that_cannot_be_written_ends_the_command() -> None:
    async with previewing(*SALES) as preview:
        assert preview.process.stdout
        await preview.process.stdout.aclose()
        async with preview.page() as page:
            await page.tell(view={"jsonrpc": "2.0", "method": "ui/notifications/sandbox-proxy-ready", "params": {}})
            status = await preview.process.wait()

    assert status == 141


def test_help_names_the_options() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trio_mcp", "app", "--help"], capture_output=True, check=True, env=os.environ
    )

    assert b"--no-browser" in done.stdout
