"""The chat host example: a real process, real servers, and a scripted model endpoint."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import pytest
from attrs import define, field

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = str(EXAMPLES / "chat_host.py")
TIMEOUT = 60  # seconds for a program
ALLOWED = "Allow it? [y/N] "

Turn: TypeAlias = "dict[str, Any] | tuple[int, object]"
"""A message of the model, or an HTTP status and a body."""


@define(eq=False)
class Endpoint:
    """A scripted chat-completions endpoint that records its requests."""

    script: Iterator[tuple[int, object]]
    url: str = ""
    requests: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(factory=list[dict[str, str]])

    def messages(self) -> list[Any]:
        """The messages of the last request."""
        messages: list[Any] = self.requests[-1]["messages"]
        return messages

    def results(self) -> list[str]:
        """The results of the model's calls in the last request."""
        return [each["content"] for each in self.messages() if each["role"] == "tool"]


@contextmanager
def endpoint(*script: Turn) -> Generator[Endpoint]:
    """Serve the responses of *script*."""
    served = Endpoint(each if isinstance(each, tuple) else (200, completion(each)) for each in script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            served.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            served.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, body = next(served.script)
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # the name that the base class gives it
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def completion(message: object) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def assistant_message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*wanted: tuple[str, str]) -> dict[str, Any]:
    """Return a message in which the model requests these calls, each with a name and a JSON string of arguments."""
    written = [
        {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(wanted)
    ]
    return {"role": "assistant", "content": None, "tool_calls": written}


@pytest.fixture
def mcp_json(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    servers = {"sums": {"command": sys.executable, "args": ["-W", "error", str(EXAMPLES / "server.py")]}}
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def environment(url: str, **settings: str) -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return outside | {"LLM_BASE_URL": url, "LLM_MODEL": "a model", "PYTHONIOENCODING": "utf-8"} | settings


def run(mcp_json: Path, url: str, *lines: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the host, type *lines*, and end the input."""
    return subprocess.run(
        [sys.executable, "-W", "error", PROGRAM, str(mcp_json)],
        input="".join(f"{line}\n" for line in lines),
        env=environment(url, **settings),
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )


def test_with_consent_the_call_is_made_and_the_model_receives_its_result(mcp_json: Path) -> None:
    with endpoint(
        calls(("add", '{"a": 1, "b": 2}')), assistant_message("It is 3."), assistant_message("Bye.")
    ) as model:
        done = run(mcp_json, model.url, "What is 1 + 2?", "y", "", "Thanks.", LLM_API_KEY="a key")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "2 tools of 1 servers: sums\n"
        "> The model requests a tool call:\n"
        "  tool       add\n"
        "  server     sums\n"
        '  arguments  {"a": 1, "b": 2}\n'
        f"{ALLOWED}It is 3.\n"
        "> > Bye.\n"
        "> \n"
    )
    first, second, third = model.requests
    assert first["model"] == "a model"
    assert first["messages"] == [{"role": "user", "content": "What is 1 + 2?"}]
    assert [each["function"]["name"] for each in first["tools"]] == ["add", "crunch"]
    assert first["tools"][0]["function"]["parameters"]["required"] == ["a", "b"]
    assert second["messages"] == [
        *first["messages"],
        calls(("add", '{"a": 1, "b": 2}')),
        {"role": "tool", "tool_call_id": "call-0", "content": "3"},
    ]
    assert third["messages"] == [
        *second["messages"],
        assistant_message("It is 3."),
        {"role": "user", "content": "Thanks."},
    ]
    assert {each["authorization"] for each in model.headers} == {"Bearer a key"}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (["n"], "Error: the user has refused this call: n"),
        ([""], "Error: the user has refused this call"),
        (["use 3 instead"], "Error: the user has refused this call: use 3 instead"),
        ([], "Error: the user has refused this call"),
    ],
)
def test_without_consent_no_call_is_made_and_the_model_receives_the_refusal(
    mcp_json: Path, answer: list[str], result: str
) -> None:
    with endpoint(calls(("add", '{"a": 1, "b": 2}')), assistant_message("As you like.")) as model:
        done = run(mcp_json, model.url, "Add.", *answer)

    assert (done.returncode, done.stderr) == (0, "")
    assert "As you like." in done.stdout
    assert model.results() == [result]


def test_the_model_receives_the_errors_of_its_calls(mcp_json: Path) -> None:
    wanted = calls(("add", '{"a": "one"}'), ("add", '{"a": 1, '), ("sub", "{}"), ("add", '{"a": 20, "b": 22}'))

    with endpoint(wanted, assistant_message("So be it.")) as model:
        done = run(mcp_json, model.url, "Add.", "y", "y")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(ALLOWED) == 2
    failed, unreadable, unknown, fine = model.results()
    assert failed.startswith("Error: ")
    assert "expected integer, got string" in failed
    assert unreadable.startswith("Error: the arguments are not JSON")
    assert unknown == "Error: there is no function 'sub'"
    assert fine == "42"


def test_displayed_strings_contain_no_control_characters(mcp_json: Path) -> None:
    hostile = json.dumps({"a": 1, "b": "\x1b[2K\u202e"}, ensure_ascii=False)

    with endpoint(calls(("add", hostile)), assistant_message("\x1b[2Jdone")) as model:
        done = run(mcp_json, model.url, "Add.", "n")

    assert "\x1b" not in done.stdout
    assert '  arguments  {"a": 1, "b": "\\u001b[2K\\u202e"}\n' in done.stdout
    assert "\\x1b[2Jdone\n" in done.stdout


FAULTS: list[tuple[Turn, str]] = [
    ((401, {"error": {"message": "no such\n key"}}), 'HTTP 401: {"error": {"message": "no such\\n key"}}'),
    ((500, "<html>\n<p>oh"), "HTTP 500: <html> <p>oh"),
    ((200, "<html>"), "returned no message: <html>"),
    ((200, {"choices": []}), 'returned no message: {"choices": []}'),
    ((200, completion(None)), "returned no message: "),
    (
        assistant_message("") | {"tool_calls": [7]},
        "an assistant's message: 'tool_calls' must be a list of objects, got [7]",
    ),
]


@pytest.mark.parametrize(("fault", "reported"), FAULTS)
def test_an_error_of_the_endpoint_is_reported_in_one_line_and_the_chat_continues(
    mcp_json: Path, fault: Turn, reported: str
) -> None:
    with endpoint(fault, assistant_message("Here again.")) as model:
        done = run(mcp_json, model.url, "Hello?", "Hello again?")

    assert done.returncode == 0
    assert done.stderr.startswith(f"chat_host: {model.url}/ {reported}")
    assert done.stderr.count("\n") == 1
    assert "Here again." in done.stdout


def test_an_unreachable_endpoint_is_reported_in_one_line(mcp_json: Path) -> None:
    with endpoint() as model:
        pass

    done = run(mcp_json, model.url, "Hello?")

    assert done.returncode == 0
    assert done.stderr.startswith(f"chat_host: {model.url}/ cannot be reached: ")
    assert done.stderr.count("\n") == 1


def test_the_number_of_tool_rounds_is_bounded(mcp_json: Path) -> None:
    again = calls(("add", '{"a": 1, "b": 1}'))

    with endpoint(again, again, assistant_message("Two.")) as model:
        done = run(mcp_json, model.url, "Add for ever.", "y", "y", "And?", LLM_ROUNDS="2")

    assert done.returncode == 0
    assert done.stderr == "chat_host: stopped after 2 rounds of tool calls; enter a message to continue\n"
    assert "Two." in done.stdout
    assert [each["role"] for each in model.messages()] == ["user", "assistant", "tool", "assistant", "tool", "user"]


def test_a_failing_server_is_named_and_the_chat_continues(mcp_json: Path) -> None:
    servers = {"broken": {"command": str(mcp_json.with_name("no such program"))}}
    mcp_json.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    with endpoint(assistant_message("Hello.")) as model:
        done = run(mcp_json, model.url, "Hello?")

    assert done.returncode == 0
    assert done.stderr.startswith("chat_host: server 'broken' cannot be used: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == "0 tools of 0 servers: \n> Hello.\n> \n"
    assert "tools" not in model.requests[0]


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"LLM_BASE_URL": ""}, "chat_host: set LLM_BASE_URL and LLM_MODEL"),
        ({"LLM_MODEL": ""}, "chat_host: set LLM_BASE_URL and LLM_MODEL"),
        ({"LLM_ROUNDS": "0"}, "LLM_ROUNDS must be a positive number"),
        ({"LLM_ROUNDS": "many"}, "LLM_ROUNDS must be a positive number"),
        ({"LLM_BASE_URL": "http://localhost:port"}, "chat_host: "),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(mcp_json: Path, settings: dict[str, str], reported: str) -> None:
    done = run(mcp_json, "http://localhost/v1", **settings)

    assert done.returncode == 1
    assert reported in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_an_unusable_configuration_file_is_reported_in_one_line(mcp_json: Path, content: str | None) -> None:
    mcp_json.unlink()
    if content is not None:
        mcp_json.write_text(content, encoding="utf-8")

    done = run(mcp_json, "http://localhost/v1")

    assert done.returncode == 1
    assert str(mcp_json) in done.stderr
    assert done.stderr.count("\n") == 1


ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="terminals are POSIX's")
def test_the_user_consents_on_a_terminal_and_control_c_ends_the_chat(mcp_json: Path) -> None:
    with endpoint(calls(("add", '{"a": 1, "b": 2}')), assistant_message("It is 3.")) as model:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, "-W", "error", PROGRAM, str(mcp_json)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(model.url),
            start_new_session=True,
        ) as process:
            os.close(theirs)
            read_until(ours, b"> ")
            os.write(ours, b"Add.\n")
            read_until(ours, ALLOWED.encode())
            os.write(ours, b"y\n")
            output = read_until(ours, b"> ")
            os.write(ours, b"\x03")
            left = process.wait(TIMEOUT)
            rest = read_until(ours, None)
        os.close(ours)

    assert b"It is 3." in output
    assert left == 130
    assert b"Traceback" not in rest
    assert model.results() == ["3"]


def read_until(terminal: int, end: bytes | None) -> bytes:
    """Read up to *end*; if it is None, read until the other side of the terminal is closed."""
    read = b""
    while end is None or not read.endswith(end):
        try:
            data = os.read(terminal, 4096)
        except OSError:  # on Linux the other side of the terminal is closed
            assert end is None, read
            return read
        if not data:
            assert end is None, read
            return read
        read += data
    return read
