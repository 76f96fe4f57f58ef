"""What resources, prompts and tools may return, and what becomes of the rest."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NamedTuple, NewType, NoReturn, Protocol, TypeAlias, TypedDict, cast

import attrs
import msgspec
import pydantic
import pytest

from trio_mcp import (
    Assistant,
    Audio,
    Client,
    ErrorResponse,
    Image,
    Server,
    StructureError,
    User,
    open_client,
    types,
)

REVISIONS = ["2025-03-26", "2026-07-28"]
LINE: dict[str, Any] = {"title": "Tea", "score": 2.5}


class Socket:
    """A class without a JSON form."""


class Closable(Protocol):
    def close(self) -> None: ...


@dataclasses.dataclass
class DataclassHit:
    title: str
    score: float


@attrs.define
class AttrsHit:
    title: str
    score: float


class PydanticHit(pydantic.BaseModel):
    title: str = pydantic.Field(alias="Title", serialization_alias="title")
    score: float


class StructHit(msgspec.Struct):
    title: str
    score: float


class TypedHit(TypedDict):
    title: str
    score: float


class TupleHit(NamedTuple):
    title: str
    score: float


HITS: dict[str, Any] = {
    "dict": LINE,
    "dataclass": DataclassHit(**LINE),
    "attrs": AttrsHit(**LINE),
    "pydantic": PydanticHit(Title="Tea", score=2.5),
    "msgspec": StructHit(**LINE),
    "TypedDict": TypedHit(title="Tea", score=2.5),
    "named tuple": TupleHit(**LINE),
}


async def contents_of(
    function: Callable[[], Any], *, mime_type: str | None = None, revision: str = "2026-07-28"
) -> Any:
    """Return the contents of a resource that has a function."""
    server = Server("s")
    server.resource("a:b", name="it", mime_type=mime_type)(function)
    async with open_client(server, revision=revision) as client:
        return (await client.read_resource("a:b")).contents


def text(content: str, mime_type: str = "text/plain") -> types.TextResourceContents:
    return types.TextResourceContents(uri="a:b", mime_type=mime_type, text=content)


def blob(content: str) -> types.BlobResourceContents:
    return types.BlobResourceContents(uri="a:b", mime_type="application/octet-stream", blob=content)


# --- Resources ---


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("hit", HITS.values(), ids=HITS)
async def test_data_of_a_resource_is_json_text(hit: Any, revision: str) -> None:
    (one,) = await contents_of(lambda: hit, revision=revision)
    (several,) = await contents_of(lambda: [hit, hit], revision=revision)
    (nested,) = await contents_of(lambda: {"hits": (hit,)}, revision=revision)

    assert (one.mime_type, json.loads(one.text)) == ("application/json", LINE)
    assert (several.mime_type, json.loads(several.text)) == ("application/json", [LINE, LINE])
    assert (nested.mime_type, json.loads(nested.text)) == ("application/json", {"hits": [LINE]})


async def test_a_declared_media_type_of_data_wins() -> None:
    assert await contents_of(lambda: {"a": 1}, mime_type="application/geo+json") == [
        text('{"a":1}', "application/geo+json")
    ]


async def test_data_of_a_template_is_json_text() -> None:
    server = Server("s")

    @server.resource("stock://{article}")
    async def stock(article: str) -> dict[str, int]:
        return {article: 3}

    async with open_client(server) as client:
        (found,) = (await client.read_resource("stock://tea")).contents

    assert isinstance(found, types.TextResourceContents)
    assert (found.mime_type, found.text) == ("application/json", '{"tea":3}')


async def test_a_list_is_several_contents_only_if_it_holds_bytes_or_contents() -> None:
    assert await contents_of(lambda: ["a", 1]) == [text('["a",1]', "application/json")]
    assert await contents_of(lambda: [*()]) == [text("[]", "application/json")]
    assert await contents_of(lambda: ["a", b"b"]) == [text("a"), blob("Yg==")]
    assert await contents_of(lambda: (text("a"), text("b"))) == [text("a"), text("b")]


IMAGE = types.ImageContent(data="YQ==", mime_type="image/png")


async def test_an_image_or_audio_of_a_resource_is_a_blob_with_its_media_type() -> None:
    png = types.BlobResourceContents(uri="a:b", mime_type="image/png", blob="YQ==")
    wav = types.BlobResourceContents(uri="a:b", mime_type="audio/wav", blob="Yg==")

    def image() -> Image:
        return Image(b"a", "image/png")

    assert await contents_of(image, mime_type="image/x") == [png]
    assert await contents_of(lambda: [Image(b"a", "image/png"), Audio(b"b", "audio/wav")]) == [png, wav]


async def test_a_text_block_of_a_resource_is_text() -> None:
    def block() -> types.TextContent:
        return types.TextContent(text="a", meta={"m": 1})

    (found,) = await contents_of(block)
    assert found == types.TextResourceContents(uri="a:b", mime_type="text/plain", text="a", meta={"m": 1})
    assert await contents_of(lambda: [types.TextContent(text="a")], mime_type="text/html") == [text("a", "text/html")]


async def test_the_annotation_decides_whether_a_list_of_strings_is_data() -> None:
    def strings() -> list[str]:
        return ["a"]

    def mixed() -> list[str | bytes]:
        return ["a"]

    def none() -> list[types.TextResourceContents]:
        return []

    assert await contents_of(strings) == [text('["a"]', "application/json")]
    assert await contents_of(mixed) == [text("a")]
    assert await contents_of(none) == []


@pytest.mark.parametrize(
    ("value", "kind", "fault"),
    [
        (None, "NoneType", "return a string, bytes, contents, or data"),
        (3, "int", "return a string, bytes, contents, or data"),
        (dt.date(2026, 1, 1), "date", "return a string, bytes, contents, or data"),
        (Socket(), "Socket", r"\$: a value of type Socket has no JSON form"),
        ({"at": [Socket()]}, "dict", r"\$\.at\[0\]: a value of type Socket has no JSON form"),
        ({"a": float("nan")}, "dict", r"\$\.a: nan is not a JSON number"),
        (["\ud800"], "list", "lone surrogate"),
        ([b"a", {"b": 1}], "list", "contents are strings, bytes or types of contents, not dict"),
        (IMAGE, "ImageContent", r"an image or audio is Image\(data, mime_type\)"),
        (types.ResourceLink(uri="a:b", name="b"), "ResourceLink", "return a string, bytes, contents, or data"),
        ([IMAGE], "list", "contents are strings, bytes or types of contents, not ImageContent"),
    ],
)
@pytest.mark.parametrize("uri", ["a:b", "c:{x}"])
async def test_a_value_that_a_resource_cannot_return_is_logged_with_its_type_and_line(
    value: Any, kind: str, fault: str, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    def give() -> Any:
        return value

    def give_one(x: str) -> Any:
        return value

    handler: Callable[..., Any] = give if uri == "a:b" else give_one
    server.resource(uri, name="it")(handler)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse) as caught:
            await client.read_resource(uri.replace("{x}", "y"))

    assert (caught.value.code, caught.value.message) == (-32603, "'resources/read' failed; the server's log says why")
    assert caught.value.data is None
    assert_logged(caplog, f"resource 'it' returned a value of type {kind}: ", handler, fault)


def assert_logged(caplog: pytest.LogCaptureFixture, begin: str, handler: Callable[..., Any], fault: str) -> None:
    """Check that the log has one error, with a fault and the place of a handler, and without a traceback."""
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    said = record.getMessage()
    assert said.startswith(begin)
    assert said.endswith(f"its handler is at {__file__}:{handler.__code__.co_firstlineno}")
    assert re.search(fault, said)
    assert record.exc_info is None


async def test_a_value_that_nests_too_deeply_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(ErrorResponse, match="the server's log says why"):
        await contents_of(lambda: endless)
    assert "it is nested too deeply, or contains itself" in caplog.text


Name = NewType("Name", str)
Number = NewType("Number", int)


def returning(annotation: Any) -> Callable[[], Any]:
    """Return a function with a return annotation."""

    def function() -> Any:
        raise NotImplementedError

    function.__annotations__["return"] = annotation
    return function


RETURNED_BY_ALL: list[Any] = [
    str, Name, list[str], dict[str, int], dict[str, bytes], DataclassHit, AttrsHit, PydanticHit, StructHit, TypedHit,
    TupleHit, list[DataclassHit], tuple[int, ...], set[str], Any, object, NoReturn, Closable, Iterable[str],
    Annotated[dict[str, int], "text"], Literal["a", "b"], list[Any],
]  # fmt: skip


@pytest.mark.parametrize("annotation", RETURNED_BY_ALL, ids=str)
def test_an_annotation_of_returnable_types_is_accepted(annotation: Any) -> None:
    server = Server("s")

    server.resource("a:b", name="it")(returning(annotation))
    server.prompt(name="it")(returning(annotation))


@pytest.mark.parametrize(
    ("annotation", "named"),
    [
        (None, "None"),
        (int, "int"),
        (Number, "int"),
        (Literal[1, 2], "int"),
        (dt.datetime, "datetime"),
        (Socket, "Socket"),
        (str | None, "None"),
        (bytes | Socket, "Socket"),
        (list[Socket], "Socket"),
        (dict[str, Socket], "Socket"),
        (Annotated[Socket, "text"], "Socket"),
        (Iterable[Socket], "Socket"),
        (complex, "complex"),
        (types.CallToolResult | range | list[complex], "complex"),
        (types.ImageContent, "ImageContent"),
        (str | types.AudioContent, "AudioContent"),
        (list[types.ResourceLink], "ResourceLink"),
        (list[str | types.EmbeddedResource], "EmbeddedResource"),
    ],
    ids=str,
)
def test_an_annotation_of_what_a_resource_cannot_return_is_refused(annotation: Any, named: str) -> None:
    server = Server("s")

    def of_x(x: str) -> Any:
        raise NotImplementedError

    of_x.__annotations__["return"] = annotation
    handlers: dict[str, Callable[..., Any]] = {"a:b": returning(annotation), "a:{x}": of_x}
    for uri, function in handlers.items():
        with pytest.raises(
            TypeError, match=f"^resource 'it': its return annotation names {named}, which cannot be"
        ) as no:
            server.resource(uri, name="it")(function)
        assert "return a string, bytes, contents, or data" in str(no.value)
    assert not server.resources.offered


@pytest.mark.parametrize(
    ("annotation", "named"),
    [(bytes, "bytes"), (list[bytes], "bytes"), (Socket, "Socket"), (list[str | Socket], "Socket")],
    ids=str,
)
def test_an_annotation_of_what_a_prompt_cannot_return_is_refused(annotation: Any, named: str) -> None:
    server = Server("s")

    with pytest.raises(TypeError, match=f"^prompt 'it': its return annotation names {named}, which cannot be returned"):
        server.prompt(name="it")(returning(annotation))
    assert not server.prompts.catalog.offered


@pytest.mark.parametrize(
    ("annotation", "named"),
    [(list[Image | Socket], "Socket"), (Image | bytes, "bytes"), (tuple[types.TextContent, complex], "complex")],
    ids=str,
)
def test_an_annotation_of_what_a_tool_cannot_return_beside_content_is_refused(annotation: Any, named: str) -> None:
    server = Server("s")

    with pytest.raises(TypeError, match=f"^tool 'it': its return annotation names {named}, which cannot be returned"):
        server.tool(name="it")(returning(annotation))
    server.tool(name="it")(returning(list[Image | str | dict[str, bytes] | None]))


# --- Prompts ---


async def messages_of(value: Any, *, revision: str = "2026-07-28") -> list[types.PromptMessage]:
    """Return the messages of a prompt that returns *value*."""
    server = Server("s")
    server.prompt(name="it")(lambda: value)
    async with open_client(server, revision=revision) as client:
        return list((await client.get_prompt("it")).messages)


def said(role: Literal["user", "assistant"], content: str) -> types.PromptMessage:
    return types.PromptMessage(role=role, content=types.TextContent(text=content))


Block: TypeAlias = "str | types.ImageContent | Image | Audio | dict[str, Any]"
CONTENTS: dict[str, tuple[Any, Any]] = {
    "text": ("hi", types.TextContent(text="hi")),
    "block": (types.TextContent(text="hi"), types.TextContent(text="hi")),
    "dict": ({"type": "text", "text": "hi"}, types.TextContent(text="hi")),
    "dict of a link": (
        {"type": "resource_link", "uri": "a:b", "name": "b"},
        types.ResourceLink(uri="a:b", name="b"),
    ),
    "image": (Image(b"a", "image/png"), types.ImageContent(data="YQ==", mime_type="image/png")),
    "audio": (Audio(b"a", "audio/wav"), types.AudioContent(data="YQ==", mime_type="audio/wav")),
}


@pytest.mark.parametrize(("content", "block"), CONTENTS.values(), ids=CONTENTS)
async def test_a_dict_with_role_and_content_is_a_message(content: Any, block: Any) -> None:
    message = types.PromptMessage(role="assistant", content=block)

    assert await messages_of({"role": "assistant", "content": content}) == [message]
    assert await messages_of(["first", {"role": "assistant", "content": content}]) == [said("user", "first"), message]


@pytest.mark.parametrize(("content", "block"), CONTENTS.values(), ids=CONTENTS)
async def test_user_and_assistant_make_messages(content: Any, block: Any) -> None:
    assert User(content) == types.PromptMessage(role="user", content=block)
    assert Assistant(content) == types.PromptMessage(role="assistant", content=block)
    assert await messages_of([User(content), Assistant(content)]) == [User(content), Assistant(content)]


def test_user_and_assistant_refuse_what_is_no_content() -> None:
    number: Any = 3

    with pytest.raises(TypeError, match="the content of a message is text, content, or a dict of content, not int"):
        User(number)
    with pytest.raises(StructureError, match="content"):
        Assistant({"type": "text"})


@pytest.mark.parametrize("revision", REVISIONS)
async def test_other_data_of_a_prompt_is_json_text_of_the_user(revision: str) -> None:
    assert await messages_of({"job": "clerk"}, revision=revision) == [said("user", '{"job":"clerk"}')]
    assert await messages_of({"content": "hi"}) == [said("user", '{"content":"hi"}')]
    assert await messages_of(PydanticHit(Title="Tea", score=2.5)) == [said("user", '{"title":"Tea","score":2.5}')]
    assert await messages_of(3) == [said("user", "3")]
    assert await messages_of(None) == []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"role": "system", "content": "hi"}, "the role of a message is 'user' or 'assistant', not 'system'"),
        (
            {"role": "user", "content": "hi", "name": "ada"},
            "a message has a role and content, but no 'name'",
        ),
        (
            {"role": "user", "content": ["hi"]},
            "the content of a message is text, content, or a dict of content, not list",
        ),
        ({"role": "user", "content": {"type": "text"}}, r"\$\.content"),
        ({"role": "user", "text": "hi"}, "this dict has a 'role', but its 'content' is missing"),
        (b"hi", "bytes have no media type"),
        (Socket(), "a value of type Socket has no JSON form"),
    ],
    ids=["role", "name", "list", "half a block", "half a message", "bytes", "object"],
)
async def test_a_value_that_a_prompt_cannot_return_is_logged_with_its_type_and_line(
    value: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.prompt
    async def it() -> Any:
        return value

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse) as caught:
            await client.get_prompt("it")

    assert (caught.value.code, caught.value.message) == (-32603, "'prompts/get' failed; the server's log says why")
    assert_logged(caplog, f"prompt 'it' returned a value of type {type(value).__name__}: ", it, fault)


# --- Tools ---


async def refused_call(client: Client) -> tuple[int, str, Any]:
    """Return the error of a call of the tool `it`."""
    with pytest.raises(ErrorResponse) as caught:
        await client.call_tool("it")
    return caught.value.code, caught.value.message, caught.value.data


REFUSED_CALL = (-32603, "'tools/call' failed; the server's log says why", None)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (Socket(), "a value of type Socket has no JSON form"),
        ([Image(b"", "image/png"), b""], "bytes have no media type"),
        (float("inf"), "NaN and infinities are not JSON|inf is not a JSON number"),
    ],
    ids=["object", "bytes", "infinity"],
)
async def test_a_value_that_a_tool_cannot_return_is_logged_with_its_type_and_line(
    value: Any, fault: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool
    def it() -> Any:
        return value

    async with open_client(server, revision=revision) as client:
        assert await refused_call(client) == REFUSED_CALL

    assert_logged(caplog, f"tool 'it' returned a value of type {type(value).__name__}: ", it, fault)


async def test_data_that_has_no_json_form_is_refused_in_spite_of_its_annotation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")

    @server.tool
    async def it() -> dict[str, Any]:
        return {"secret": Socket()}

    async with open_client(server) as client:
        assert await refused_call(client) == REFUSED_CALL

    assert_logged(caplog, "tool 'it' returned a value of type dict: ", it, r"\$\.secret: a value of type Socket has no")


async def test_a_value_that_does_not_fit_the_output_schema_is_logged_with_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s")

    @server.tool
    async def it() -> int:
        return cast("int", "two")

    async with open_client(server) as client:
        result = await client.call_tool("it")

    assert result.is_error
    assert_logged(
        caplog, "tool 'it': the returned value does not fit: ", it, r"\$\.result: expected integer, got string"
    )


async def test_the_log_names_a_handler_without_python_code(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")
    server.resource("a:b", name="it")(os.getpid)

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse):
            await client.read_resource("a:b")

    assert f"its handler is at {os.getpid.__module__}.getpid" in caplog.text
