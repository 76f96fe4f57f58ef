"""Resources and prompts: registration, reading, getting and refusals."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import pytest

from trio_mcp import (
    Access,
    Context,
    ErrorResponse,
    Image,
    McpError,
    ResourceNotFound,
    ResourceUpdated,
    Server,
    open_client,
    types,
)


def of_x(x: str) -> str:
    return x


def of_path(path: str) -> str:
    return path


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


@pytest.mark.requirement("B.21-S2c")
async def test_a_template_is_listed_separately_and_its_variables_reach_the_function() -> None:
    server = Server("s")

    @server.resource("notes://{folder}/{name}")
    async def note(name: str, folder: str, ctx: Context) -> list[Any]:
        return [f"{folder}:{name}", name.encode(), types.TextResourceContents(uri="x:y", text=ctx.revision)]

    async with open_client(server, revision="2025-11-25") as client:
        assert (await client.list_resources()).resources == []
        (template,) = (await client.list_resource_templates()).resource_templates
        contents = (await client.read_resource("notes://a%20b/c")).contents

    assert template == types.ResourceTemplate(uri_template="notes://{folder}/{name}", name="note", title="Note")
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


@pytest.mark.requirement("B.21-S3a", "B.21-S3b")
@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_an_unknown_resource_is_answered_with_the_error_of_the_revision(revision: str, code: int) -> None:
    server = Server("s")
    server.resource("a://{x}", name="a")(of_x)

    async with open_client(server, revision=revision) as client:
        with pytest.raises(ErrorResponse, match="no resource 'b://c'") as caught:
            await client.read_resource("b://c")

    assert (caught.value.code, caught.value.data) == (code, {"uri": "b://c"})


@pytest.mark.requirement("B.21-S3a", "B.21-S3b")
@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_resource_not_found_is_sent_with_the_error_of_the_revision(revision: str, code: int) -> None:
    server = Server("s")

    @server.resource("book://{name}")
    def book(name: str) -> str:
        raise ResourceNotFound(f"no book {name!r}")

    @server.resource("book:lost")
    async def lost() -> str:
        raise McpError(-32002, "it is lost", {"uri": "book:lost", "since": 2020})

    errors: list[Any] = []
    async with open_client(server, revision=revision) as client:
        for uri in ("book://emma", "book:lost"):
            with pytest.raises(ErrorResponse) as caught:
                await client.read_resource(uri)
            errors.append((caught.value.code, caught.value.message, caught.value.data))

    assert errors == [
        (code, "no book 'emma'", {"uri": "book://emma"}),
        (code, "it is lost", {"uri": "book:lost", "since": 2020}),
    ]


@pytest.mark.requirement("B.21-S3d")
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


@pytest.mark.requirement("B.21-S2a", "B.21-S5b")
def test_an_invalid_resource_is_refused_at_registration() -> None:
    server = Server("s")
    server.resource("a:b", name="a")(lambda: "")

    with pytest.raises(ValueError, match="'a:b' is registered already"):
        server.resource("a:b", name="b")(lambda: "")
    with pytest.raises(ValueError, match="'nowhere' is not a URI"):
        server.resource("nowhere", name="c")(lambda: "")
    with pytest.raises(ValueError, match=r"parameters \(y\) are not the variables of 'a://\{x\}' \(x\)"):
        server.resource("a://{x}", name="d")(of_y)
    with pytest.raises(ValueError, match=r"\{x:3\}"):
        server.resource("a://{x:3}", name="e")(of_x)
    with pytest.raises(ValueError, match="a template has no size"):
        server.resource("a://{x}", name="f", size=3)(of_x)


async def test_a_removed_resource_cannot_be_read() -> None:
    server = Server("s")
    server.resource("a:b", name="a")(lambda: "")
    server.resource("a:c", name="c")(lambda: "")
    server.resources.remove("a:b")

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="no resource"):
            await client.read_resource("a:b")


async def test_a_prompt_is_listed_with_its_arguments_and_can_be_requested() -> None:
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


@pytest.mark.requirement("B.22-S2b")
async def test_all_faults_of_prompt_arguments_are_reported() -> None:
    server = Server("s")
    server.prompt(name="p")(of_a_and_b)

    async with open_client(server) as client:
        with pytest.raises(
            ErrorResponse, match=r"\$\.a: required, but missing; \$\.b: required, but missing; \$\.c: unknown"
        ):
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


def test_an_invalid_prompt_is_refused_at_registration() -> None:
    server = Server("s")
    server.prompt(name="p")(lambda: "")

    with pytest.raises(ValueError, match="'p' is registered already"):
        server.prompt(name="p")(lambda: "")

    with pytest.raises(TypeError, match=r"parameter '\*n: str' cannot be published"):
        server.prompt(name="q")(of_many)


async def test_partials_and_objects_are_named_after_their_function_or_class() -> None:
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


async def test_a_removed_prompt_is_not_listed() -> None:
    server = Server("s")
    server.prompt(name="p")(lambda: "")
    server.prompt(name="q")(lambda: "")
    server.prompts.remove("p")

    async with open_client(server) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["q"]


@pytest.mark.requirement("A.5-P1")
async def test_a_prompt_with_content_that_a_revision_does_not_have_is_refused() -> None:
    server = Server("s")
    link = types.ResourceLink(name="doc", uri="file:///doc")
    server.prompt(name="p")(lambda: types.PromptMessage(role="user", content=link))

    async with open_client(server, revision="2024-11-05") as client:
        with pytest.raises(ErrorResponse, match=r"prompt 'p': messages\[0\] is a resource link") as refused:
            await client.get_prompt("p")

    assert refused.value.code == -32603


async def test_static_contents_are_listed_with_their_size_and_read() -> None:
    server = Server("s")
    server.resources.add_static("a:text", "grüß", name="text", title="Text", description="A text.")
    server.resources.add_static("a:bytes", b"\x00", name="bytes", mime_type="image/png")
    several: list[str | types.TextResourceContents] = [types.TextResourceContents(uri="x:y", text="1"), "2"]
    server.resources.add_static("a:both", several, name="both")

    async with open_client(server, revision="2025-11-25") as client:
        text, binary, both = (await client.list_resources()).resources
        assert text == types.Resource(uri="a:text", name="text", title="Text", description="A text.", size=6)
        assert (binary.size, both.size) == (1, None)
        assert (await client.read_resource("a:text")).contents == [
            types.TextResourceContents(uri="a:text", mime_type="text/plain", text="grüß")
        ]
        assert (await client.read_resource("a:bytes")).contents == [
            types.BlobResourceContents(uri="a:bytes", mime_type="image/png", blob="AA==")
        ]
        assert (await client.read_resource("a:both")).contents == [
            types.TextResourceContents(uri="x:y", text="1"),
            types.TextResourceContents(uri="a:both", mime_type="text/plain", text="2"),
        ]

    with pytest.raises(ValueError, match="'a:text' is registered already"):
        server.resources.add_static("a:text", "", name="again")
    for uri in ("a:{b}", "memo://grüße", "a: b", "a:%zz", "a:b\n"):
        with pytest.raises(ValueError, match="is not a URI: percent-encode spaces, braces"):
            server.resources.add_static(uri, "", name="odd")
    with pytest.raises(ValueError, match="write 'memo://gr%C3%BC%C3%9Fe'"):
        server.resource("memo://grüße", name="odd")(lambda: "")
    with pytest.raises(ValueError, match="'here' is not a URI"):
        server.resources.add_static("here", "", name="here")
    wrong: Any = [3]
    with pytest.raises(TypeError, match="resource 'three': contents are strings, bytes or types of contents, not int"):
        server.resources.add_static("a:3", wrong, name="three")


@pytest.mark.requirement("B.21-S2a")
async def test_template_variables_are_converted_to_the_annotated_types() -> None:
    server = Server("s")

    @server.resource("users://{id}{/parts*}{?limit,tags*}")
    async def user(id: int, parts: list[str], limit: float = 1.5, tags: tuple[int, ...] = ()) -> str:
        return f"{id!r} {parts!r} {limit!r} {tags!r}"

    async with open_client(server, revision="2025-11-25") as client:

        async def read(uri: str) -> str:
            (contents,) = (await client.read_resource(uri)).contents
            assert isinstance(contents, types.TextResourceContents)
            return contents.text

        assert await read("users://7/a/b%20c") == "7 ['a', 'b c'] 1.5 ()"
        assert await read("users://7/a?limit=3&tags=1&tags=2") == "7 ['a'] 3.0 (1, 2)"
        with pytest.raises(ErrorResponse, match=r"no resource 'users://x/a': \$\.id: expected integer") as caught:
            await read("users://x/a")
        assert caught.value.code == -32002
        assert await read("users://7") == "7 [] 1.5 ()"


async def test_a_template_that_accepts_the_variables_takes_precedence_over_one_that_does_not() -> None:
    server = Server("s")

    @server.resource("a://{n}")
    def number(n: int) -> str:
        return f"number {n}"

    @server.resource("a://{+name}")
    def name(name: str) -> str:
        return f"name {name}"

    async with open_client(server) as client:
        for uri, text in (("a://1", "number 1"), ("a://one", "name one")):
            (contents,) = (await client.read_resource(uri)).contents
            assert contents == types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)


@pytest.mark.requirement("B.21-S2b")
async def test_path_traversal_is_not_found_unless_the_resource_allows_it() -> None:
    server = Server("s")
    server.resource("kept://{+path}", name="kept")(of_path)
    server.resource("free://{+path}", name="free", allow_traversal=True)(of_path)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="no resource"):
            await client.read_resource("kept://a/../../b")
        (contents,) = (await client.read_resource("free://a/../../b")).contents
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text == "a/../../b"


@pytest.mark.requirement("B.22-S2b")
async def test_prompt_arguments_are_converted_to_the_annotated_types() -> None:
    server = Server("s")

    @server.prompt
    def plan(
        days: Annotated[int, msgspec.Meta(ge=1, title="Days", description="how many")],
        pace: Literal["slow", "fast"] = "slow",
        stops: list[str] | None = None,
        note: Any = None,
    ) -> str:
        return f"{days!r} {pace!r} {stops!r} {note!r}"

    async with open_client(server, revision="2025-11-25") as client:
        (prompt,) = (await client.list_prompts()).prompts
        assert (prompt.arguments or [])[0] == types.PromptArgument(
            name="days", title="Days", description="how many", required=True
        )
        given = {"days": "2", "pace": "fast", "stops": '["Bonn"]', "note": "3"}
        (message,) = (await client.get_prompt("plan", given)).messages
        assert message.content == types.TextContent(text="2 'fast' ['Bonn'] '3'")
        with pytest.raises(
            ErrorResponse, match=r"\$\.days: expected integer, got the string 'two'; \$\.stops: "
        ) as bad:
            await client.get_prompt("plan", {"days": "two", "stops": "Bonn"})
        assert bad.value.code == -32602
        with pytest.raises(ErrorResponse, match=r"\$\.days: .*\$\.pace: ") as bad:
            await client.get_prompt("plan", {"days": "0", "pace": "breakneck"})
        assert bad.value.code == -32602


@pytest.mark.parametrize("template", ["a://b{/path*}", "a://b{?path*}"])
def test_a_list_variable_of_a_template_needs_a_parameter_that_accepts_lists(template: str) -> None:
    server = Server("s")

    def of_paths(path: list[str] | None = None) -> str:
        return str(path)

    with pytest.raises(
        ValueError, match=r"of_path: path\* in 'a://b.*' is a list, but parameter 'path' does not accept lists"
    ):
        server.resource(template)(of_path)
    server.resource(template)(of_paths)


async def test_a_negative_ttl_of_a_result_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    server.resource("a:b", name="a")(lambda: types.ReadResourceResult(contents=[], ttl_ms=-1))
    server.resource("a:c", name="c")(lambda: types.ReadResourceResult(contents=[], ttl_ms=0))

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.read_resource("a:b")
        assert (await client.read_resource("a:c")).ttl_ms == 0
    assert "ttl_ms=-1: must be an int of at least 0" in caplog.text


async def test_contents_have_the_members_of_contents_meta_below_their_own() -> None:
    server, shared = Server("s"), {"com.example/kind": "memo", "com.example/at": 1}
    server.resource("memo://one", contents_meta=shared)(lambda: "text")
    own = types.TextResourceContents(uri="memo://two", text="text", meta={"com.example/at": 2})
    server.resource("memo://two", contents_meta=shared)(lambda: types.ReadResourceResult(contents=[own, own]))
    server.resource("memo://of/{x}", contents_meta=shared)(of_x)
    server.resources.add_static("memo://static", b"bytes", name="static", contents_meta=shared)

    async with open_client(server) as client:
        metas = [
            [each.meta for each in (await client.read_resource(uri)).contents]
            for uri in ("memo://one", "memo://two", "memo://of/x", "memo://static")
        ]
        listed = [each.meta async for each in client.resources()]

    assert metas == [[shared], [{**shared, "com.example/at": 2}] * 2, [shared], [shared]]
    assert listed == [None, None, None]


def test_a_registry_knows_which_uris_it_may_have() -> None:
    server = Server("s")
    server.resource("memo://one")(lambda: "text")
    server.resource("memo://of/{x}")(of_x)

    has = server.resources.has
    assert [has(uri) for uri in ("memo://one", "memo://of/x", "memo://of/..", "memo://two")] == [
        True,
        True,
        False,
        False,
    ]


def to_all(_: object, __: Access | None) -> bool:
    return True


def to_nobody(_: object, __: Access | None) -> bool:
    return False


@pytest.mark.parametrize("visible", [None, to_all])
async def test_a_resource_or_template_that_is_not_listed_is_read_all_the_same(visible: Any) -> None:
    server = Server("s", page_size=1)
    server.resource("memo://one", name="one", visible=visible)(lambda: "1")
    server.resource("memo://two", name="two", listed=False)(lambda: "2")
    server.resource("memo://{x}", name="any", listed=False)(of_x)
    server.resources.add_static("memo://three", "3", name="three", listed=False)
    server.resource("memo://four", name="four")(lambda: "4")

    async with open_client(server) as client:
        assert [each.uri async for each in client.resources()] == ["memo://one", "memo://four"]
        assert [each async for each in client.resource_templates()] == []
        read = [(await client.read_resource(f"memo://{name}")).contents[0] for name in ("two", "three", "five")]

    assert [each.text for each in read if isinstance(each, types.TextResourceContents)] == ["2", "3", "five"]


async def test_clients_that_listen_to_the_list_are_not_told_of_resources_that_are_not_listed() -> None:
    server = Server("s")
    server.resources.add_static("memo://one", "1", name="one")

    async with open_client(server) as client, client.listen(resource_list=True, resources=["memo://one"]) as changes:
        server.resources.add_static("memo://two", "2", name="two", listed=False)
        server.resources.remove("memo://two")
        server.resource_updated("memo://one")
        assert await anext(changes) == ResourceUpdated("memo://one")


def test_the_definition_of_a_resource_is_found_by_its_uri_if_the_caller_sees_it() -> None:
    server = Server("s")
    server.resources.add_static("memo://one", "1", name="one", listed=False)
    assert not server.resources.varies
    server.resources.add_static("memo://two", "2", name="two", visible=to_nobody)

    assert server.resources.varies
    definition = server.resources.definition_of("memo://one", None)
    assert definition is not None
    assert definition.name == "one"
    assert server.resources.definition_of("memo://two", None) is None
    assert server.resources.definition_of("memo://three", None) is None
