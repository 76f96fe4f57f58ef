"""The commands against servers in child processes, with pipes at both ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import PROGRAMS, SAMPLE, raw, run
from tests.cli.conftest import Command

MODERN = "2026-07-28"
SERVER = str(PROGRAMS / "sample_server.py")


def test_tools_are_plain_lines_without_a_terminal(command: Command) -> None:
    done = command("tools", *SAMPLE)

    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[:2] == [
        "add\ta=INTEGER b=INTEGER\tAdd two numbers.",
        "crunch\tsteps=INTEGER\tWork for a while and report progress.",
    ]
    assert "fail\t[why=STRING]\tFail." in done.out


def test_resources_and_templates_are_one_list(command: Command) -> None:
    assert command("resources", *SAMPLE).out.splitlines() == [
        "bytes://all\tAll bytes\tapplication/octet-stream\tEvery byte.",
        "greeting://{name}\tGreeting\t\tA greeting for one person.",
    ]


def test_optional_arguments_of_prompts_are_in_brackets(command: Command) -> None:
    assert command("prompts", *SAMPLE).out == "review\tcode=TEXT [tone=TEXT]\tAsk for a code review.\n"


@pytest.mark.parametrize("revision", [MODERN, "2025-06-18"])
def test_info_shows_name_and_version_of_the_server(revision: str, command: Command) -> None:
    lines = command("info", "--revision", revision, *SAMPLE).out.splitlines()

    assert lines[:3] == ["name\tsample", "version\t2.5", f"revision\t{revision}"]
    assert ("supported" in lines[3]) == (revision == MODERN)
    assert "offers tools\t" in "\n".join(lines)
    assert lines[-2:] == ["instructions\tRead this first.", "instructions\tThen that."]


def test_info_omits_details_that_the_server_does_not_send(command: Command) -> None:
    done = command("info", *raw(capabilities={"tools": {"listChanged": True}}, info={"title": "Raw"}))

    assert done.out.splitlines() == [
        "name\traw",
        "version\t0",
        "title\tRaw",
        "revision\t2025-11-25",
        'offers tools\t{"listChanged":true}',
    ]


def test_info_omits_the_name_and_version_of_an_anonymous_server(command: Command) -> None:
    modern: Any = {"supportedVersions": [MODERN], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}

    done = command("info", *raw(answers={"server/discover": modern}))

    assert done.out == f"revision\t{MODERN}\nsupported\t{MODERN}\n"


@pytest.mark.parametrize(
    ("arguments", "members"),
    [
        (["tools"], {"tools"}),
        (["resources"], {"resources", "resourceTemplates"}),
        (["prompts"], {"prompts"}),
        (["info"], {"serverInfo", "protocolVersion", "supportedVersions", "capabilities", "instructions"}),
        (["call", "add", "a=1", "b=2"], {"content", "structuredContent", "resultType"}),
        (["read", "greeting://Ada"], {"contents", "resultType"}),
        (["prompt", "review", "code=x"], {"messages", "resultType"}),
    ],
    ids=["tools", "resources", "prompts", "info", "call", "read", "prompt"],
)
def test_json_output_is_the_message_of_the_wire_as_one_document(
    arguments: list[str], members: set[str], command: Command
) -> None:
    done = command(*arguments, "--json", *SAMPLE)

    document: dict[str, Any] = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert members <= {*document}
    assert done.out.count("\n") == 1


def test_json_output_has_the_form_of_the_agreed_revision(command: Command) -> None:
    done = command("call", "add", "a=1", "b=2", "--json", "--revision", "2024-11-05", *SAMPLE)

    assert json.loads(done.out) == {"content": [{"type": "text", "text": "3"}]}


def test_an_empty_list_is_reported_with_status_0(command: Command) -> None:
    done = command("prompts", *raw(answers={"prompts/list": {"prompts": []}}))

    assert (done.status, done.out, done.err) == (0, "", "the server has no prompts\n")


def test_properties_without_a_known_type_are_shown_as_values(command: Command) -> None:
    schemas: list[Any] = [{"type": "object", "properties": {"a": True, "b": {"type": ["string", "null"]}}}, {}]
    tools = [{"name": f"t{at}", "inputSchema": {"type": "object"} | schema} for at, schema in enumerate(schemas)]

    done = command("tools", *raw(answers={"tools/list": {"tools": tools}}))

    assert done.out == "t0\t[a=VALUE] [b=STRING]\t\nt1\t\t\n"


def test_a_call_prints_only_the_text_if_structured_content_is_the_same(command: Command) -> None:
    assert command("call", "add", "a=1", "b=-3", *SAMPLE).out == "-2\n"


def test_structured_content_is_printed_with_indentation(command: Command) -> None:
    done = command("call", "place", 'where:={"name": "x"}', 'tags=["y", "z"]', *SAMPLE)

    assert done.out == '{\n  "name": "x y+z",\n  "height": null\n}\n'


OTHER = "the result also has structured content; --json prints it\n"


@pytest.mark.parametrize(
    ("texts", "structured", "out", "err"),
    [
        (["about it"], {"result": 1}, "about it\n", OTHER),
        (["one", "two\n"], [1], "one\ntwo\n", OTHER),
        (["one", "2"], {"result": ["one", 2]}, "one\n2\n", ""),
        (["one", "2"], ["one", 3], "one\n2\n", OTHER),
        (['["one",2]'], {"result": ["one", 2]}, '[\n  "one",\n  2\n]\n', ""),
        (['{"result":["one"]}'], {"result": ["one"]}, '{\n  "result": [\n    "one"\n  ]\n}\n', ""),
        (["2"], {"result": 2}, "2\n", ""),
        (["two"], "two", "two\n", ""),
        ([], {"result": 1}, '{\n  "result": 1\n}\n', ""),
        ([""], {"a": None}, '{\n  "a": null\n}\n', ""),
        ([""], {"result": ""}, "\n", ""),
    ],
)
def test_a_result_is_printed_once(texts: list[str], structured: Any, out: str, err: str, command: Command) -> None:
    blocks = [{"type": "text", "text": text} for text in texts]

    done = command("call", "book", *raw(answers={"tools/call": {"content": blocks, "structuredContent": structured}}))

    assert (done.out, done.err) == (out, err)


def test_an_image_is_described_and_saved_to_a_file(tmp_path: Path, command: Command) -> None:
    described = command("call", "picture", *SAMPLE)
    saved = command("call", "picture", "-o", str(tmp_path / "p.png"), *SAMPLE)

    assert described.out == "[image, image/png, 4 bytes]\n"
    assert (saved.out, saved.err) == ("", f"written: {tmp_path}/p.png\n")
    assert (tmp_path / "p.png").read_bytes() == b"\x89PNG"


def test_an_image_goes_to_standard_output_on_request() -> None:
    assert run("call", "picture", "-o", "-", *SAMPLE).stdout == b"\x89PNG"


def test_a_failed_tool_is_reported_in_one_line_with_status_1(command: Command) -> None:
    done = command("call", "fail", "why=it\nbroke", *SAMPLE)

    assert (done.status, done.out) == (1, "")
    assert done.err.endswith("trio-mcp call: tool 'fail' failed: it\n    broke\n")


def test_a_failed_tool_is_also_printed_as_json(command: Command) -> None:
    done = command("call", "fail", "--json", *SAMPLE)

    assert done.status == 1
    assert json.loads(done.out)["isError"] is True


def test_arguments_come_from_an_object_a_file_and_standard_input(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text('{"a": 5, "b": 6}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 7, "b": 8}')))

    assert command("call", "add", "--arguments", '{"a": 1}', "b=2", *SAMPLE).out == "3\n"
    assert command("call", "add", "--arguments", f"@{tmp_path}/a.json", *SAMPLE).out == "11\n"
    assert command("call", "add", "--arguments", "-", *SAMPLE).out == "15\n"


def test_invalid_arguments_are_reported_before_the_call_is_sent(tmp_path: Path, command: Command) -> None:
    done = command("call", "add", "a=one", "c=3", "--trace", str(tmp_path / "wire"), *SAMPLE)

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "trio-mcp call: the arguments do not fit, nothing was sent: $.a: expected integer, got the string 'one'; "
        "$.b: required, but missing; $.c: unknown, not allowed here\n"
    )
    wire = (tmp_path / "wire").read_text()
    assert "tools/list" in wire
    assert "tools/call" not in wire


def test_an_unknown_tool_is_a_usage_error_that_suggests_similar_names(command: Command) -> None:
    assert command("call", "ad", *SAMPLE).err == "trio-mcp call: the server has no tool 'ad'; did you mean add?\n"
    assert command("call", "xyz", *SAMPLE).err.startswith("trio-mcp call: the server has no tool 'xyz'; there are add,")
    none = command("call", "xyz", *raw(answers={"tools/list": {"tools": []}}))
    assert (none.status, none.err) == (2, "trio-mcp call: the server has no tool 'xyz'; there are none\n")


def test_a_schema_that_cannot_be_used_does_not_stop_a_call(command: Command) -> None:
    tool = {"name": "book", "inputSchema": {"type": "object", "$schema": "https://example.org/custom"}}

    done = command("call", "book", "n=1", *raw(answers={"tools/list": {"tools": [tool]}}))

    assert (done.status, done.out) == (0, "done\n")
    assert "the arguments are not checked, because the tool's schema cannot be used" in done.err


def test_a_text_resource_is_printed_unchanged(command: Command) -> None:
    assert command("read", "greeting://Ada", *SAMPLE).out == "Hello, Ada!"


def test_bytes_of_a_resource_are_printed_and_saved_unchanged(tmp_path: Path) -> None:
    done = run("read", "bytes://all", *SAMPLE)
    saved = run("read", "bytes://all", "-o", "b.bin", *SAMPLE, cwd=tmp_path)
    both = run("read", "greeting://Ada", "--json", "-o", "t.txt", *SAMPLE, cwd=tmp_path)

    assert done.stdout == (tmp_path / "b.bin").read_bytes() == bytes(range(256))
    assert (saved.stdout, saved.stderr) == (b"", b"written: b.bin\n")
    assert (tmp_path / "t.txt").read_text() == "Hello, Ada!"
    assert json.loads(both.stdout)["contents"][0]["text"] == "Hello, Ada!"


def test_each_part_of_a_resource_is_on_its_own_line(command: Command) -> None:
    parts = [{"uri": "a://b", "text": "one"}, {"uri": "a://c", "text": "two"}]

    assert command("read", "a://b", *raw(answers={"resources/read": {"contents": parts}})).out == "one\ntwo\n"


def test_a_prompt_shows_the_role_of_each_message(command: Command) -> None:
    assert command("prompt", "review", "code=1+1", *SAMPLE).out == "user: Be kind.\nuser: 1+1\n"


def test_suggestions_are_printed_one_per_line(command: Command, tmp_path: Path) -> None:
    more = raw(answers={"completion/complete": {"completion": {"values": ["py", "perl"], "hasMore": True}}})
    total = raw(answers={"completion/complete": {"completion": {"values": ["py"], "hasMore": True, "total": 9}}})
    complete = raw(answers={"completion/complete": {"completion": {"values": ["py"]}}})
    trace = ["--trace", str(tmp_path / "wire")]

    done = command("complete", "prompt:review", "language", "p", "--context", "code=x", *trace, *more)

    assert (done.out, done.err) == ("py\nperl\n", "there are more\n")
    params: Any = {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": "p"}}
    params["context"] = {"arguments": {"code": "x"}}
    sent = next(line for line in (tmp_path / "wire").read_text().splitlines() if "completion/complete" in line)
    assert json.loads(sent.split("--> ")[1])["params"] == params
    assert command("complete", "a://{b}", "b", *total).err == "there are 9 in all\n"
    assert command("complete", "a://{b}", "b", *complete).err == ""
    assert json.loads(command("complete", "a://{b}", "b", "--json", *total).out)["completion"]["values"] == ["py"]


@pytest.mark.parametrize("reference", ["review", "prompt:", ":"])
def test_a_completion_needs_a_prompt_or_a_template(reference: str, command: Command) -> None:
    done = command("complete", reference, "b", *raw())

    assert done.status == 2
    assert f"expected prompt:NAME or a URI template, got {reference!r}" in done.err


def test_log_messages_are_printed_only_on_request(command: Command) -> None:
    without = command("call", "chatter", *SAMPLE)
    with_logs = command("call", "chatter", "--log-level", "info", *SAMPLE)

    assert (without.out, without.err) == ("logged\n", "")
    assert with_logs.out == "logged\n"
    assert with_logs.err == '[info] all is well\n[warning] disk: {"disk":"full"}\n'


def test_a_server_without_log_messages_is_used_anyway(command: Command) -> None:
    done = command("call", "book", "--log-level", "info", *raw())

    assert (done.status, done.out) == (0, "done\n")
    assert done.err.startswith("the server sends no log messages: the server has not declared 'logging'")


def test_given_roots_are_declared_and_have_to_exist(tmp_path: Path, command: Command) -> None:
    done = command("tools", "--root", str(tmp_path), "--trace", str(tmp_path / "wire"), *raw())

    assert done.status == 0
    assert '"capabilities":{"roots":{"listChanged":true}}' in (tmp_path / "wire").read_text()
    assert command("tools", "--root", "/no/such", *raw()).err == "trio-mcp tools: --root /no/such: no such folder\n"


def test_elicitation_is_not_declared_without_a_terminal(tmp_path: Path, command: Command) -> None:
    command("tools", "--trace", str(tmp_path / "wire"), *raw())

    assert '"capabilities":{}' in (tmp_path / "wire").read_text()


def test_a_trace_shows_each_message_with_its_time_and_direction(tmp_path: Path, command: Command) -> None:
    command("tools", "--trace", str(tmp_path / "wire"), *raw(info={"title": "\x9b31m"}))
    on_stderr = command("tools", "--trace", "-", *raw())

    lines = (tmp_path / "wire").read_text().splitlines()
    messages = [json.loads(line[15:]) for line in lines]
    assert [line[11:14] for line in lines] == ["-->", "<--", "-->", "<--", "-->", "-->", "<--"]
    assert sorted(lines, key=lambda line: float(line[:10])) == lines
    assert messages[0]["method"] == "server/discover"
    assert messages[3]["result"]["serverInfo"]["title"] == "\x9b31m"
    assert "\x9b" not in "".join(lines)
    assert on_stderr.err.count("-->") == 4


def test_a_trace_file_that_cannot_be_written_is_reported(command: Command) -> None:
    done = command("tools", "--trace", "/no/such/file", *raw())

    assert (done.status, done.err) == (2, "trio-mcp tools: cannot write /no/such/file: No such file or directory\n")


def test_a_command_in_a_pipe_does_not_import_rich_or_the_schema_validator() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "trio_mcp", "tools", *raw()]

    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "trio" in loaded
    assert loaded & {"rich", "jsonschema_rs"} == set()


def test_an_invalid_result_is_shown_as_json(command: Command) -> None:
    contents = [{"uri": "a://b", "blob": "!!!"}]

    done = command("read", "a://b", "--json", *raw(answers={"resources/read": {"contents": contents}}))

    assert (done.status, json.loads(done.out)["contents"]) == (3, contents)
    assert "is not base64" in done.err


@pytest.mark.parametrize(("revision", "method"), [(MODERN, "server/discover"), ("2025-11-25", "ping")])
def test_ping_shows_the_time_of_each_round_trip(revision: str, method: str, tmp_path: Path, command: Command) -> None:
    done = command("ping", "--count", "3", "--revision", revision, "--trace", str(tmp_path / "wire"), *SAMPLE)

    lines = [line.split("\t") for line in done.out.splitlines()]
    assert (done.status, done.err) == (0, "")
    assert [name for name, _ in lines] == ["revision", f"{method} 1", f"{method} 2", f"{method} 3", "median"]
    assert lines[0][1] == revision
    times = [float(words.removesuffix(" ms")) for _, words in lines[1:]]
    assert sorted(times[:3])[1] == times[3] > 0
    assert (tmp_path / "wire").read_text().count(f'"method":"{method}"') >= 3


def test_ping_as_json_has_the_times_in_seconds(command: Command) -> None:
    document = json.loads(command("ping", "--json", *raw(answers={"ping": {}})).out)

    assert (document["protocolVersion"], document["method"]) == ("2025-11-25", "ping")
    assert len(document["seconds"]) == 4
    assert min(document["seconds"]) > 0
