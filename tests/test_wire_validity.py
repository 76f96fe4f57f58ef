"""The judge of `nox -s spec`: it sees every message, and it can fail.

The normal forms in `schema/` replace the upstream files here, which lie outside the project. The tests of the verdicts
are in test_wire_validity_verdicts.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import make_server
from tests.interaction.openers import OPENERS
from tests.interaction.over_http import carries
from tests.interaction.raw_http_client import RawHttpClient
from tests.wire_validity.plugin import check_child
from tests.wire_validity.stand_in import ROOT, judge
from tests.wire_validity.tap import RECORDS, TEST, Role, install, watched
from trio_mcp import Client, ErrorResponse, Limits, http_app, open_client, serve_stream, types
from trio_mcp.lowlevel import Admission, IncomingRequest, Peer, ServerSession
from trio_mcp.peer import NO_ORIGIN, MessageOrigin
from trio_mcp.testing import AsgiEngine

PROGRAM = ROOT / "tests" / "interaction" / "conversation_server.py"
MODERN = "2026-07-28"
BATCHES = "2025-03-26"

Json: TypeAlias = dict[str, Any]
ENVELOPE: Json = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


# -- Real connections.


async def converse(client: Client) -> None:
    """Send every kind of message: requests, refused requests, progress, a cancellation and a failing tool."""
    assert len((await client.list_tools()).tools) > 5
    await client.read_resource("memo://today")
    await client.get_prompt("review", {"code": "x"})
    assert (await client.call_tool("fail")).is_error
    with pytest.raises(ErrorResponse):
        await client.call_tool("refuse")
    async with client.open_call("count", {"steps": 3}) as call:
        assert (await call.result()).content
    async with client.open_call("hang", {"key": "k"}) as call:
        await anext(call.updates)  # then leave the call
    await client.call_tool("when_stopped", {"key": "k"})


KINDS: list[tuple[Role, str]] = [
    ("client", "request"),
    ("client", "notification"),
    ("server", "notification"),
    ("server", "result"),
    ("server", "error"),
]


PRODUCT = [(opener, revision) for opener in OPENERS for revision in types.REVISIONS if carries(opener, revision)]


@pytest.mark.parametrize(("opener", "revision"), PRODUCT)
async def test_both_ends_of_a_connection_in_this_process_are_checked(
    opener: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = judge()
    install(here, monkeypatch.setattr)

    async with OPENERS[opener](make_server(), revision=revision) as client:
        await converse(client)

    unneeded = [("client", "notification")] if (opener, revision) == ("http", MODERN) else []
    assert here.faults == []
    assert [kind for kind in KINDS if not here.counts.judged[revision, *kind]] == unneeded
    assert here.counts.invented.total() == 0
    for role in ("client", "server"):  # a tap sees each message at both ends; the judge checks it at its sender
        assert here.counts.judged[revision, role, "request" if role == "client" else "result"] >= 7


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_child_process_records_its_messages_and_they_are_checked(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RECORDS, str(tmp_path))
    monkeypatch.setenv(TEST, "the test that started it")
    here, there = judge(), judge()
    install(here, monkeypatch.setattr)

    with trio.fail_after(60):
        async with open_client([sys.executable, str(PROGRAM)], revision=revision) as client:
            await converse(client)
    (record,) = list(tmp_path.iterdir())  # noqa: ASYNC240 # no task runs any more
    check_child(record, there)

    assert here.faults == there.faults == []
    assert {role for _, role, _ in here.counts.judged} == {"client"}
    assert {role for _, role, _ in there.counts.judged} == {"server"}
    assert [kind for kind in KINDS if not (here.counts.judged + there.counts.judged)[revision, *kind]] == []
    assert there.counts.children == 1
    assert json.loads(record.read_text("utf-8").splitlines()[0])["test"] == "the test that started it"


async def test_a_child_process_that_serves_http_records_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = tmp_path / "records"
    records.mkdir()
    monkeypatch.setenv(RECORDS, str(records))
    monkeypatch.setenv(TEST, "the test that started it")
    program = [sys.executable, str(PROGRAM.with_name("stopping_server.py")), str(tmp_path), "http"]
    there = judge()

    with trio.fail_after(60):
        child = await trio.lowlevel.open_process(program, stdout=subprocess.PIPE, env=watched(os.environ))
        assert child.stdout is not None
        line = await child.stdout.receive_some()
        for revision in types.REVISIONS:
            async with open_client(bytes(line).decode().split()[-1], revision=revision) as client:
                await client.call_tool("pid")
        child.terminate()
        await child.wait()
    (record,) = list(records.iterdir())
    check_child(record, there)

    assert there.faults == []
    assert [each for each in types.REVISIONS if there.counts.judged[each, "server", "result"] < 2] == []


async def test_only_the_complete_records_of_a_killed_child_process_are_checked(tmp_path: Path) -> None:
    record, there = tmp_path / "1.jsonl", judge()
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "made/up"})
    observed = {"connection": 1, "role": "client", "ours": True, "line": f"{line}\n"}
    lines: list[Json] = [{"test": "t", "command": ["python", "x.py"]}, {"connection": 1, "agreed": None}, observed]
    record.write_text("".join(json.dumps(each) + "\n" for each in lines) + '{"connection": 1, "ro', "utf-8")

    check_child(record, there)

    (fault,) = there.faults
    assert fault.startswith("t, in python x.py\n")
    assert "no client sends a request 'made/up'" in fault


class InvalidServing:
    """A serving that answers every request with a list of one invalid tool."""

    limits = Limits()

    def admission(self) -> Admission:
        return ServerSession(types.REVISIONS)

    def answer(self, exchange: IncomingRequest) -> None:
        exchange.respond({"tools": [7]})

    def notified(self, method: str, params: Json, peer: Peer, envelope: MessageOrigin = NO_ORIGIN) -> None:
        """Ignore the notification."""

    def stop(self) -> None:
        """Do nothing."""


async def test_an_invalid_answer_of_a_link_is_reported_with_its_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = judge("the test")
    install(here, monkeypatch.setattr)
    ours, theirs = trio.testing.memory_stream_pair()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, InvalidServing(), theirs)
        request: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
        await ours.send_all(json.dumps(request).encode() + b"\n")
        assert json.loads(await ours.receive_some())["result"] == {"tools": [7]}
        await ours.aclose()

    (fault,) = here.faults
    assert fault.startswith(f"the test\n  result of the server in {MODERN}, against ListToolsResultResponse, ")
    assert 'result: "resultType" is a required property\n' in fault
    assert "$.result.tools.0: 7 is not" in fault
    assert fault.endswith('{"jsonrpc": "2.0", "id": 1, "result": {"tools": [7]}}')


class InvalidHttpServing(InvalidServing):
    """The same serving for HTTP."""

    revisions = types.REVISIONS

    @asynccontextmanager
    async def serving(
        self, *, asking: Any = None, home: Callable[[], str] = str, shared: Any = None
    ) -> AsyncGenerator[InvalidHttpServing]:
        yield self

    serving_one = serving

    def input_schema(self, tool: str, access: object) -> None:
        """There is no tool."""

    def needed_scopes(self, method: str, params: Json, access: object) -> frozenset[str]:
        return frozenset()

    def session_record(self, peer: object) -> None:
        """There is no other process."""

    def restore_session(self, peer: object, record: Json, access: object) -> None:
        """There is no other process."""


@pytest.mark.parametrize("revision", types.REVISIONS[-2:])
async def test_an_invalid_answer_in_an_http_response_is_reported_with_its_test(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = judge("the test")
    install(here, monkeypatch.setattr)
    engine = AsgiEngine(http_app(InvalidHttpServing()))

    async with engine.lifespan():
        client = RawHttpClient(engine, revision)
        if revision != MODERN:
            await client.greet()
        assert (await client.post(client.request("tools/list"))).answer["result"] == {"tools": [7]}

    assert f"the test\n  result of the server in {revision}, against " in here.faults[-1]
    assert "$.result.tools.0: 7 is not" in here.faults[-1]


# -- Runs of pytest.


PASSES = """
from trio_mcp import Server, open_client


async def test_it() -> None:
    async with open_client(Server("s"), revision="2025-03-26") as client:
        await client.ping()
"""


def run_pytest(tmp_path: Path, folder: Path, *options: str) -> tuple[int, str]:
    (tmp_path / "test_it.py").write_text(PASSES, "utf-8")
    command = ["-m", "pytest", "-p", "tests.wire_validity.plugin", "-c", "pyproject.toml", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *command, *options, "--from", str(folder), str(tmp_path / "test_it.py")],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in {TEST, RECORDS}},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def lay_out(folder: Path) -> Path:
    """Copy the normal forms to the paths of the upstream files."""
    for revision in types.REVISIONS:
        (folder / revision).mkdir(parents=True)
        text = (ROOT / "schema" / f"{revision}.json").read_text("utf-8")
        (folder / revision / "schema.json").write_text(text, "utf-8")
    (folder / "extensions").mkdir()
    shutil.copy(ROOT / "schema" / "extensions" / "tasks.json", folder / "extensions")
    return folder


def test_a_run_of_pytest_passes_if_every_message_is_valid(tmp_path: Path) -> None:
    status, report = run_pytest(tmp_path, lay_out(tmp_path / "upstream"), "--part")
    assert (status, "FAULT" in report) == (0, False), report
    assert "    2025-03-26 client: 2 requests, 1 notifications" in report
    assert "    2025-03-26 server: 2 results" in report


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["by itself", "by workers"])
def test_a_run_of_pytest_fails_with_an_invalid_message_even_if_every_test_passes(
    tmp_path: Path, workers: list[str]
) -> None:
    path = lay_out(tmp_path / "upstream") / BATCHES / "schema.json"
    document = json.loads(path.read_text("utf-8"))
    document["$defs"]["PingRequest"]["required"] = ["method", "politeness"]
    path.write_text(json.dumps(document), "utf-8")

    status, report = run_pytest(tmp_path, tmp_path / "upstream", "--part", *workers)

    assert status == 1, report
    assert "1 passed" in report
    assert "    2025-03-26 client: 2 requests, 1 notifications\n" in report
    assert f"test_it (call)\n  request of the client in {BATCHES}, against JSONRPCMessage, " in report
    assert 'PingRequest:\n    $: "politeness" is a required property\n    {"jsonrpc": "2.0", "id": 2, ' in report
    assert "\n1 faults\n" in report


def test_an_incomplete_run_of_pytest_fails_without_the_option_part(tmp_path: Path) -> None:
    status, report = run_pytest(tmp_path, lay_out(tmp_path / "upstream"))
    assert status == 1, report
    assert "no child process recorded messages" in report


def test_a_run_of_pytest_without_the_upstream_files_names_the_missing_file(tmp_path: Path) -> None:
    status, report = run_pytest(tmp_path, tmp_path / "nowhere")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert f"--from: [Errno 2] No such file or directory: '{tmp_path}/nowhere/2024-11-05/schema.json'" in report
