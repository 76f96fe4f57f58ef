"""Content of every kind in tools and prompts, in every revision and over every transport.

Expected values are those of the newest revision; `known` removes the members that an older revision lacks.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interaction.openers import Opener
from tests.interaction.over_http import OVER_SOCKETS
from tests.interaction.surface import (
    ABOUT,
    FIRST_STRUCTURED,
    FIRST_WITH_LINKS,
    FIRST_WITH_SOUND,
    META,
    MODERN,
    NOTES,
    SharedTests,
    known,
    plain,
    result,
)

shared_tests = SharedTests()

SOUND = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
PICTURE = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
NOTED = {"annotations": NOTES, "_meta": META}
LINK = {"type": "resource_link", "uri": "notes://text", "name": "link", "mimeType": "text/plain", "size": 3}
TEXT_RESOURCE = {"uri": "notes://text", "mimeType": "text/plain", "text": "abc", "_meta": META}
BLOB_RESOURCE = {"uri": "notes://bytes", "mimeType": "image/png", "blob": "iVBORw==", "_meta": META}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def blocks_of(revision: str) -> list[dict[str, Any]]:
    """Return a block of every kind that *revision* has."""
    return [
        known(revision, text("words") | NOTED),
        known(revision, PICTURE | NOTED),
        *([known(revision, SOUND | NOTED)] if revision >= FIRST_WITH_SOUND else []),
        *([known(revision, LINK | NOTED | ABOUT)] if revision >= FIRST_WITH_LINKS else []),
        known(revision, {"type": "resource", "resource": TEXT_RESOURCE} | NOTED),
        known(revision, {"type": "resource", "resource": BLOB_RESOURCE}),
    ]


@shared_tests.add
@pytest.mark.requirement("A.5-P1", "A.6-P1")
async def test_a_tool_returns_every_kind_of_content(surface: Opener, revision: str) -> None:
    async with surface() as client:
        returned = await client.call_tool("blocks")

    assert plain(returned) == result(revision, {"content": blocks_of(revision)})


@shared_tests.add
async def test_a_tool_returns_texts_images_audio_and_data_in_one_list(surface: Opener, revision: str) -> None:
    async with surface() as client:
        returned = await client.call_tool("mixed")

    sounds = [SOUND] if revision >= FIRST_WITH_SOUND else []
    content = [text("before"), PICTURE, *sounds, text('{"a":1}'), text("x")]
    assert plain(returned) == result(revision, {"content": content})


@shared_tests.add
@pytest.mark.requirement("A.6-P1")
async def test_a_tool_can_return_a_complete_result(surface: Opener, revision: str) -> None:
    async with surface() as client:
        good = await client.call_tool("whole", {"failed": False})
        failed = await client.call_tool("whole", {"failed": True})

    members: dict[str, Any] = {"content": [text("said")]}
    if revision >= FIRST_STRUCTURED:
        members["structuredContent"] = {"a": [1]}
    assert plain(good) == result(revision, {**members, "isError": False}, meta=META)
    assert plain(failed) == result(revision, {**members, "isError": True}, meta=META)


@shared_tests.add
@pytest.mark.requirement("B.20-S5a", "B.20-S5b")
async def test_a_tool_returns_structured_content_where_the_revision_has_it_and_text_everywhere(
    surface: Opener, revision: str
) -> None:
    async with surface() as client:
        await client.list_tools()  # so that the client validates each result
        returned = {name: plain(await client.call_tool(name)) for name in ("names", "array", "null", "scalar")}
        returned["point"] = plain(await client.call_tool("point", {"x": 1, "y": 2}))

    texts = {"point": '{"x":1,"y":2}', "names": '["Ada","Bo"]', "array": "[1,2]", "null": "null", "scalar": "2.5"}
    objects = {"point": {"x": 1, "y": 2}, "names": {"result": ["Ada", "Bo"]}}
    others = {"array": [1, 2], "null": None, "scalar": 2.5}  # older revisions carry only objects
    structured = (objects if revision >= FIRST_STRUCTURED else {}) | (others if revision == MODERN else {})
    assert returned == {
        name: result(
            revision,
            {"content": [text(words)]} | ({"structuredContent": structured[name]} if name in structured else {}),
        )
        for name, words in texts.items()
    }


@shared_tests.add
async def test_a_prompt_has_every_kind_of_content_in_both_roles(surface: Opener, revision: str) -> None:
    async with surface() as client:
        got = await client.get_prompt("blocks")

    messages = [{"role": role, "content": block} for role in ("user", "assistant") for block in blocks_of(revision)]
    members = {"description": "Every kind of content, of both roles.", "messages": messages}
    assert plain(got) == result(revision, members)


@shared_tests.add
async def test_a_prompt_returns_texts_images_audio_and_messages_in_one_list(surface: Opener, revision: str) -> None:
    async with surface() as client:
        got = await client.get_prompt("mixed")

    users = [text("before"), PICTURE, *([SOUND] if revision >= FIRST_WITH_SOUND else [])]
    messages = [{"role": "user", "content": block} for block in users]
    messages.append({"role": "assistant", "content": text("said")})
    assert plain(got) == result(revision, {"messages": messages})


@shared_tests.add
async def test_a_prompt_can_return_a_complete_result(surface: Opener, revision: str) -> None:
    async with surface() as client:
        got = await client.get_prompt("whole")

    messages = [{"role": "assistant", "content": text("said")}]
    assert plain(got) == result(revision, {"description": "Made now.", "messages": messages}, meta=META)


async def test_the_same_tests_pass_over_stdio(revision: str) -> None:
    await shared_tests.run_over_stdio(revision)


@pytest.mark.parametrize("over", OVER_SOCKETS)
async def test_the_same_tests_pass_over_sockets(over: str, revision: str) -> None:
    await shared_tests.run_over_a_socket(over, revision)
