"""Reading, getting, completing and logging, in every revision and over every transport."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import trio

from tests.interaction.openers import Opener
from tests.interaction.over_http import OVER_SOCKETS
from tests.interaction.surface import META, MODERN, PRIVATE, SharedTests, known, plain, result
from tests.interaction.surface_server import BLOB, LEVELS
from trio_mcp import Client, ErrorResponse, types

shared_tests = SharedTests()

FIRST_WITH_CONTEXT = "2025-06-18"
MARKDOWN = {"uri": "notes://several/1", "mimeType": "text/markdown", "text": "# One", "_meta": META}
PICTURE = {"uri": "notes://several/2", "mimeType": "image/png", "blob": "iVBORw==", "_meta": META}

CONTENTS: dict[str, list[dict[str, Any]]] = {
    "notes://text": [{"mimeType": "text/plain", "text": "grüß"}],
    "notes://bytes": [{"mimeType": "image/png", "blob": base64.b64encode(BLOB).decode()}],
    "notes://several": [MARKDOWN, PICTURE],
    "notes://made": [{"mimeType": "application/json", "text": '{"a": 1}'}],
    "notes://named/Ada": [{"mimeType": "text/markdown", "text": "named Ada"}],
    "notes://named/a%2Fb%20%C3%BC": [{"mimeType": "text/markdown", "text": "named a/b ü"}],
    "notes://named/%2525": [{"mimeType": "text/markdown", "text": "named %25"}],
    "notes://file/a/b.txt": [{"mimeType": "application/octet-stream", "blob": "YS9iLnR4dA=="}],
    "notes://tree/a/b%2Cc": [
        {"mimeType": "text/plain", "text": "tree a|b,c"},
        {"mimeType": "application/octet-stream", "blob": "bGVhZg=="},
    ],
    "notes://search?q=two%20words&limit=3": [{"mimeType": "text/plain", "text": "search 'two words' 3"}],
    "notes://search?q=x": [{"mimeType": "text/plain", "text": "search 'x' 10"}],
    "notes://anywhere/../etc": [{"mimeType": "text/plain", "text": "anywhere ../etc"}],
}
"""The contents of each URI, without the member `uri` where it is the requested one."""

MISSING = {
    "notes://nothing": "",
    "other://text": "",
    "urn:nothing": "",
    "notes://named/": "",
    "notes://named/a/b": "",
    "notes://search?limit=3": ": $.q: required, but missing",
    "notes://search?q=x&limit=three": ": $.limit: expected integer, got the string 'three'",
}
"""Unregistered URIs, with the end of the error message."""

ESCAPING = (
    "notes://file/../secret",
    "notes://file/a/../../secret",
    "notes://file//etc/passwd",
    "notes://named/..",
    "notes://named/%2E%2E%2Fsecret",
    "notes://named/%252E%252E",
    "notes://named/%2Fetc",
    "notes://named/a%00b",
    "notes://tree/a/..",
)
"""URIs whose variables could escape from their folder."""


@shared_tests.add
@pytest.mark.requirement("A.6-P1", "B.21-S2c", "B.21-S5b")
async def test_resources_are_read_completely(surface: Opener, revision: str) -> None:
    async with surface() as client:
        read = {uri: plain(await client.read_resource(uri)) for uri in CONTENTS}
        whole = plain(await client.read_resource("notes://whole"))

    assert read == {
        uri: result(revision, {"contents": [{"uri": uri} | known(revision, each) for each in contents]}, kept=PRIVATE)
        for uri, contents in CONTENTS.items()
    }
    contents = [known(revision, MARKDOWN)]
    assert whole == result(revision, {"contents": contents}, meta=META, kept=(5000, "public"))


@shared_tests.add
@pytest.mark.requirement("B.21-S2a", "B.21-S3a", "B.21-S3b", "B.21-S3c")
async def test_an_unregistered_uri_is_not_found(surface: Opener, revision: str) -> None:
    async with surface() as client:
        for uri, fault in MISSING.items():
            with pytest.raises(ErrorResponse) as missing:
                await client.read_resource(uri)
            assert members_of(missing.value) == (not_found(revision), f"no resource {uri!r}{fault}", {"uri": uri})


@shared_tests.add
@pytest.mark.requirement("B.21-S2b")
async def test_a_uri_that_escapes_its_folder_is_not_found(surface: Opener, revision: str) -> None:
    async with surface() as client:
        for uri in ESCAPING:
            with pytest.raises(ErrorResponse) as missing:
                await client.read_resource(uri)
            assert members_of(missing.value) == (not_found(revision), f"no resource {uri!r}", {"uri": uri})


def members_of(error: ErrorResponse) -> tuple[int, str, Any]:
    return error.code, error.message, error.data


def not_found(revision: str) -> int:
    return -32602 if revision == MODERN else -32002


@shared_tests.add
@pytest.mark.requirement("B.22-S2a", "B.22-S2b")
async def test_string_arguments_of_a_prompt_are_converted_to_its_parameter_types(
    surface: Opener, revision: str
) -> None:
    async with surface() as client:
        fast = plain(await client.get_prompt("plan", {"city": "7", "days": "3", "pace": "fast"}))
        slow = plain(await client.get_prompt("plan", {"city": "Graz", "days": "30"}))
        refusals = {
            "days: required, but missing": {"city": "Graz"},
            "city: required, but missing": {"days": "1"},
            "guide": {"city": "Graz", "days": "1", "guide": "Ada"},
            "expected integer, got the string 'a week'": {"city": "Graz", "days": "a week"},
            "pace": {"city": "Graz", "days": "1", "pace": "sideways"},
        }
        for fault, arguments in refusals.items():
            with pytest.raises(ErrorResponse, match=f"the arguments of prompt 'plan' do not fit: .*{fault}") as refused:
                await client.get_prompt("plan", arguments)
            assert (refused.value.code, refused.value.data) == (-32602, None)
        with pytest.raises(ErrorResponse, match="no prompt 'plot'") as unknown:
            await client.get_prompt("plot")
        assert unknown.value.code == -32602

    for got, words in ((fast, "3 fast days in 7"), (slow, "30 slow days in Graz")):
        messages = [{"role": "user", "content": {"type": "text", "text": words}}]
        assert got == result(revision, {"description": "A description.", "messages": messages})


PLAN = types.PromptReference(name="plan")
NAMED = types.ResourceTemplateReference(uri="notes://named/{name}")
SEARCH = types.ResourceTemplateReference(uri="notes://search{?q,limit}")


@shared_tests.add
@pytest.mark.requirement("B.19-S2", "B.19-C1b")
async def test_arguments_of_prompts_and_variables_of_templates_are_completed(surface: Opener, revision: str) -> None:
    async with surface() as client:
        unresolved = await client.complete(PLAN, "city", "Ge")
        resolved = await client.complete(PLAN, "city", "Ge", context={"pace": "fast", "days": "2"})
        enumerated = await client.complete(PLAN, "pace", "F")
        many = await client.complete(PLAN, "days", "")
        variable = await client.complete(NAMED, "name", "n")
        query = await client.complete(SEARCH, "q", "words", context={"limit": "3"})
        uncompleted = await client.complete(SEARCH, "limit", "1")

    carried = revision >= FIRST_WITH_CONTEXT  # older revisions cannot carry resolved arguments
    assert unresolved == types.Completion(values=["Genoa", "Geneva"], total=2, has_more=False)
    assert resolved == (types.Completion(values=["Geneva"], total=1, has_more=False) if carried else unresolved)
    assert enumerated == types.Completion(values=["fast"], total=1, has_more=False)
    assert many == types.Completion(values=[str(n) for n in range(1, 101)], total=250, has_more=True)
    assert variable == types.Completion(values=["na", "nb"], total=9, has_more=True)
    assert query.values == [f"words of {3 if carried else None}"]
    assert uncompleted == types.Completion(values=[], total=0, has_more=False)


@shared_tests.add
@pytest.mark.requirement("B.19-S3b")
async def test_completion_of_an_unknown_reference_or_argument_is_refused(surface: Opener, revision: str) -> None:
    attempts: list[tuple[types.PromptReference | types.ResourceTemplateReference, str, str]] = [
        (types.PromptReference(name="plot"), "city", "there is nothing to complete for 'plot'"),
        (types.ResourceTemplateReference(uri="notes://nothing/{x}"), "x", "there is nothing to complete"),
        (PLAN, "guide", "'plan' has no argument 'guide'"),
        (NAMED, "guide", "has no argument 'guide'"),
    ]
    async with surface() as client:
        for ref, argument, refusal in attempts:
            with pytest.raises(ErrorResponse, match=refusal) as refused:
                await client.complete(ref, argument, "")
            assert (refused.value.code, refused.value.data) == (-32602, None)


@shared_tests.add
@pytest.mark.requirement("B.18-S2", "B.18-S4b")
async def test_log_messages_arrive_at_the_requested_level_and_above(surface: Opener, revision: str) -> None:
    got: list[dict[str, Any]] = []
    over = trio.Event()

    async def on_log(message: types.LoggingMessageNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        if message.data == "over":
            over.set()
        else:
            got.append(plain(message))

    async def logged(client: Client, **options: Any) -> list[dict[str, Any]]:
        """Return the messages of one call without the last one, which has the highest level."""
        nonlocal over
        await client.call_tool("say", **options)
        await over.wait()
        over, messages = trio.Event(), got.copy()
        got.clear()
        return messages

    def expected(lowest: types.LoggingLevel) -> list[dict[str, Any]]:
        levels = LEVELS[LEVELS.index(lowest) :]
        return [
            {"level": each, "logger": f"voice.{each}", "data": {"level": each, "numbers": [1, None]}} for each in levels
        ]

    async with surface(on_log=on_log) as client:
        assert await logged(client) == expected("debug")  # until a level is set
        if revision == MODERN:  # a level can apply to a single request
            assert await logged(client, meta={"io.modelcontextprotocol/logLevel": "alert"}) == expected("alert")
            assert await logged(client) == expected("debug")
        for level in ("warning", "debug", "emergency"):
            await client.set_log_level(level)
            assert await logged(client) == expected(level)
        assert not over.is_set()


async def test_the_same_tests_pass_over_stdio(revision: str) -> None:
    await shared_tests.run_over_stdio(revision)


@pytest.mark.parametrize("over", OVER_SOCKETS)
async def test_the_same_tests_pass_over_sockets(over: str, revision: str) -> None:
    await shared_tests.run_over_a_socket(over, revision)
