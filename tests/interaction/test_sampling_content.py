"""Content of a later revision is refused for older clients, in the handler that asks with it."""

from __future__ import annotations

import pytest

from tests.interaction.asking import Wire, capable, success_text
from trio_mcp import Context, Server, StructureError, types
from trio_mcp.testing import open_memory_client

SOUND = types.AudioContent(data="", mime_type="audio/wav")
TEXT = types.TextContent(text="hi")


@pytest.mark.parametrize("revision", [each for each in types.REVISIONS if each < "2025-11-25"])
async def test_content_that_a_revision_cannot_carry_is_not_sent_and_the_error_names_every_place(revision: str) -> None:
    has_sounds = revision >= "2025-03-26"
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> str:
        conversation = [
            types.SamplingMessage(role="user", content=TEXT),
            types.SamplingMessage(role="user", content=[TEXT, TEXT]),
            types.SamplingMessage(role="user", content=SOUND),
        ]
        with pytest.raises(StructureError) as refused:
            await ctx.sample(conversation, max_tokens=1)
        several = f"$.messages[1].content: 2 blocks of content; revision {revision} has room for one"
        sound = f"$.messages[2].content: AudioContent, which revision {revision} does not have"
        assert refused.value.faults == ((several,) if has_sounds else (several, sound))
        return "refused"

    wire = Wire()
    async with open_memory_client(server, **capable(revision=revision, tap=wire)) as client:
        assert success_text(await client.call_tool("work")) == "refused"
    assert wire.requests_received == []
