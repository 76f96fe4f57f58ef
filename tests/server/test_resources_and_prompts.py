"""Resources and prompts, as far as they go: registration, reading, getting, and every refusal."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from trio_mcp import Context, ErrorResponse, Image, McpError, Server, open_client, types


def of_x(x: str) -> str:
    return x


def of_y(y: str) -> str:
    return y


def of_a_and_b(a: str, b: str) -> str:
    return a + b


def of_many(*n: str) -> str:
    return "".join(n)


async def test_a_static_resource_is_listed_and_read() -> None:
    server = Server("s")

    @server.resource("memo://today", title="Today", mime_type="text/markdown")
    def today() -> str:
        """What happened."""
        return "# nothing"

    async with open_client(server, revision="2025-11-25") as client:
        assert (await client.list_resources()).resources == [
            types.Resource(
                uri="memo://today", name="today", title="Today", description="What happened.", mime_type="text/markdown"
            )
        ]
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.read_resource("memo://today")).contents == [
            types.TextResourceContents(uri="memo://today", mime_type="text/markdown", text="# nothing")
        ]


async def test_a_template_is_listed_apart_and_its_variables_reach_the_function() -> None:
    server = Server("s")

    @server.resource("notes://{folder}/{name}")
    async def note(name: str, folder: str, ctx: Context) -> list[Any]:
        return [f"{folder}:{name}", name.encode(), types.TextResourceContents(uri="x:y", text=ctx.revision)]

    async with open_client(server, revision="2025-11-25") as client:
        assert (await client.list_resources()).resources == []
        (template,) = (await client.list_resource_templates()).resource_templates
        contents = (await client.read_resource("notes://a%20b/c")).contents

    assert template == types.ResourceTemplate(uri_template="notes://{folder}/{name}", name="note")
    assert contents == [
        types.TextResourceContents(uri="notes://a%20b/c", mime_type="text/plain", text="a b:c"),
        types.BlobResourceContents(uri="notes://a%20b/c", mime_type="application/octet-stream", blob="Yw=="),
        types.TextResourceContents(uri="x:y", text="2025-11-25"),
    ]


async def test_a_resource_may_return_the_whole_result() -> None:
    server = Server("s")
    whole = types.ReadResourceResult(contents=[], meta={"a": 1})
    server.resource("a:b", name="whole")(lambda: whole)

    async with open_client(server, revision="2025-11-25") as client:
        assert await client.read_resource("a:b") == whole


@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_a_resource_that_does_not_exist_is_answered_as_the_revision_wants_it(revision: str, code: int) -> None:
    server = Server("s")
    server.resource("a://{x}", name="a")(of_x)

    async with open_client(server, revision=revision) as client:
        with pytest.raises(ErrorResponse, match="no resource 'b://c'") as caught:
            await client.read_resource("b://c")

    assert (caught.value.code, caught.value.data) == (code, {"uri": "b://c"})


async def test_a_failing_resource_is_an_internal_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.resource("a:b")
    def fail() -> str:
        raise ValueError("the password is 123")

    @server.resource("a:c")
    def deliberate() -> str:
        raise McpError(5, "on purpose")

    server.resource("a:d", name="number")(lambda: 3)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why") as caught:
            await client.read_resource("a:b")
        assert caught.value.code == -32603
        with pytest.raises(ErrorResponse, match="on purpose"):
            await client.read_resource("a:c")
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.read_resource("a:d")
    assert "the password is 123" in caplog.text


def test_a_resource_that_cannot_be_is_refused_where_it_is_registered() -> None:
    server = Server("s")
    server.resource("a:b", name="a")(lambda: "")

    with pytest.raises(ValueError, match="'a:b' is registered already"):
        server.resource("a:b", name="b")(lambda: "")
    with pytest.raises(ValueError, match="'nowhere' is no URI"):
        server.resource("nowhere", name="c")(lambda: "")
    with pytest.raises(ValueError, match=r"parameters \(y\) are not the variables of 'a://\{x\}' \(x\)"):
        server.resource("a://{x}", name="d")(of_y)
    with pytest.raises(ValueError, match=r"\{\+x\}"):
        server.resource("a://{+x}", name="e")(of_x)


async def test_a_removed_resource_is_gone() -> None:
    server = Server("s")
    server.resource("a:b", name="a")(lambda: "")
    server.resource("a:c", name="c")(lambda: "")
    server.resources.remove("a:b")

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="no resource"):
            await client.read_resource("a:b")


async def test_a_prompt_is_listed_with_its_arguments_and_got() -> None:
    server = Server("s")

    @server.prompt(title="Review")
    def review(code: str, ctx: Context, style: str = "terse") -> str:
        """Ask for a review.

        Args:
            code: what to review
        """
        return f"{style} {ctx.revision}: {code}"

    async with open_client(server, revision="2025-11-25") as client:
        assert (await client.list_prompts()).prompts == [
            types.Prompt(
                name="review",
                title="Review",
                description="Ask for a review.",
                arguments=[
                    types.PromptArgument(name="code", description="what to review", required=True),
                    types.PromptArgument(name="style", required=False),
                ],
            )
        ]
        result = await client.get_prompt("review", {"code": "x = 1"})

    message = types.PromptMessage(role="user", content=types.TextContent(text="terse 2025-11-25: x = 1"))
    assert result == types.GetPromptResult(description="Ask for a review.", messages=[message])


async def test_a_prompt_may_return_messages_content_or_the_whole_result() -> None:
    server = Server("s")
    message = types.PromptMessage(role="assistant", content=types.TextContent(text="hi"))
    whole = types.GetPromptResult(messages=[message], meta={"a": 1})
    server.prompt(name="message")(lambda: message)
    server.prompt(name="mixed")(lambda: ["you", message, Image(b"", "image/png")])
    server.prompt(name="whole")(lambda: whole)

    async with open_client(server, revision="2025-11-25") as client:
        assert (await client.get_prompt("message")).messages == [message]
        assert [each.role for each in (await client.get_prompt("mixed")).messages] == ["user", "assistant", "user"]
        assert await client.get_prompt("whole") == whole


async def test_every_fault_of_a_prompts_arguments_is_named() -> None:
    server = Server("s")
    server.prompt(name="p")(of_a_and_b)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="'a' is required; argument 'b' is required; there is no argument 'c'"):
            await client.get_prompt("p", {"c": ""})
        with pytest.raises(ErrorResponse, match="no prompt 'q'"):
            await client.get_prompt("q")


async def test_a_prompt_that_fails_is_an_internal_error() -> None:
    server = Server("s")

    @server.prompt
    async def fail() -> str:
        raise ValueError("secret")

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.get_prompt("fail")


def test_a_prompt_that_cannot_be_is_refused_where_it_is_registered() -> None:
    server = Server("s")
    server.prompt(name="p")(lambda: "")

    with pytest.raises(ValueError, match="'p' is registered already"):
        server.prompt(name="p")(lambda: "")

    def takes_number(n: int) -> str:
        return str(n)

    with pytest.raises(TypeError, match="parameter 'n' takes a text"):
        server.prompt(takes_number)
    with pytest.raises(TypeError, match="parameter 'n' cannot be passed by name"):
        server.prompt(name="q")(of_many)


async def test_partials_and_objects_are_named_after_what_they_call() -> None:
    class Greeter:
        def __call__(self, name: str) -> str:
            return f"hello {name}"

    def greet(greeting: str, name: str) -> str:
        return f"{greeting} {name}"

    server = Server("s")
    server.prompt(Greeter())
    server.prompt(partial(greet, "hi"))

    async with open_client(server) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["Greeter", "greet"]
        (message,) = (await client.get_prompt("Greeter", {"name": "Ada"})).messages
        assert message.content == types.TextContent(text="hello Ada")


async def test_a_removed_prompt_is_gone() -> None:
    server = Server("s")
    server.prompt(name="p")(lambda: "")
    server.prompt(name="q")(lambda: "")
    server.prompts.remove("p")

    async with open_client(server) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["q"]


async def test_a_prompt_shows_older_revisions_only_what_they_know() -> None:
    server = Server("s")
    link = types.ResourceLink(name="doc", uri="file:///doc")
    server.prompt(name="p")(lambda: types.PromptMessage(role="user", content=link))

    async with open_client(server, revision="2024-11-05") as client:
        (message,) = (await client.get_prompt("p")).messages

    assert message.content == types.TextContent(text="doc <file:///doc>")
