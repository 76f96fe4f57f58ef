"""The requests of tools: each style of parameters, the bodies, and values that must not leave their place."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.openapi.helpers import add, call, describe, parameter, tools

LIST, TABLE = ["blue", "a b"], {"R": 100, "g/h": 200}


@pytest.mark.parametrize(
    ("style", "explode", "value", "path"),
    [
        ("simple", False, "a/b c", "a%2Fb%20c"),
        ("simple", False, 5, "5"),
        ("simple", False, True, "true"),
        ("simple", False, LIST, "blue,a%20b"),
        ("simple", True, LIST, "blue,a%20b"),
        ("simple", False, TABLE, "R,100,g%2Fh,200"),
        ("simple", True, TABLE, "R=100,g%2Fh=200"),
        ("label", False, "x", ".x"),
        ("label", False, LIST, ".blue,a%20b"),
        ("label", True, LIST, ".blue.a%20b"),
        ("label", False, TABLE, ".R,100,g%2Fh,200"),
        ("label", True, TABLE, ".R=100.g%2Fh=200"),
        ("matrix", False, "x", ";id=x"),
        ("matrix", False, LIST, ";id=blue,a%20b"),
        ("matrix", True, LIST, ";id=blue;id=a%20b"),
        ("matrix", False, TABLE, ";id=R,100,g%2Fh,200"),
        ("matrix", True, TABLE, ";R=100;g%2Fh=200"),
    ],
)
async def test_parameters_in_a_path(style: str, value: Any, path: str, *, explode: bool) -> None:
    one = parameter("id", "path", style=style, explode=explode)
    server, _ = add(describe(get={"path": "/things/{id}/parts", "parameters": [one]}))

    assert (await call(server, "get", id=value))["path"] == f"/things/{path}/parts"


@pytest.mark.parametrize(
    ("members", "value", "query"),
    [
        ({}, "a&b=c", "q=a%26b%3Dc"),
        ({}, "", "q="),
        ({}, None, ""),
        ({}, [None, "a", None], "q=a"),
        ({}, LIST, "q=blue&q=a%20b"),
        ({}, {**TABLE, "none": None}, "R=100&g%2Fh=200"),
        ({"explode": False}, LIST, "q=blue,a%20b"),
        ({"explode": False}, TABLE, "q=R,100,g%2Fh,200"),
        ({"style": "spaceDelimited"}, LIST, "q=blue%20a%20b"),
        ({"style": "pipeDelimited"}, LIST, "q=blue%7Ca%20b"),
        ({"style": "pipeDelimited"}, TABLE, "q=R%7C100%7Cg%2Fh%7C200"),
        ({"style": "deepObject", "explode": True}, TABLE, "q%5BR%5D=100&q%5Bg%2Fh%5D=200"),
        ({"style": "deepObject"}, LIST, "q%5B0%5D=blue&q%5B1%5D=a%20b"),
        ({"style": "deepObject"}, {"a": {"b": [{"c": 1}]}, "d": None}, "q%5Ba%5D%5Bb%5D%5B0%5D%5Bc%5D=1"),
        ({"style": "deepObject"}, "a", "q=a"),
        ({"allowReserved": True}, "a/b?c&d", "q=a/b?c%26d"),
        ({"allowReserved": True}, "100% of a%2Fb", "q=100%25%20of%20a%2Fb"),
        ({"content": {"application/json": {"schema": {}}}}, {"a": [1]}, "q=%7B%22a%22%3A%20%5B1%5D%7D"),
        ({"content": {"application/json": {"schema": {}}}}, None, "q=null"),
        ({"content": {"text/plain": {}}}, "a b", "q=a%20b"),
    ],
)
async def test_parameters_in_a_query(members: dict[str, Any], value: Any, query: str) -> None:
    server, _ = add(describe(find={"parameters": [parameter("q", **members)]}))

    assert (await call(server, "find", q=value))["query"] == query


@pytest.mark.parametrize(
    ("members", "value", "text"),
    [
        ({}, "a b", "a b"),
        ({}, [1, 2], "1,2"),
        ({}, {"a": 1, "b": 2, "c": None}, "a,1,b,2"),
        ({}, [1, None, 2], "1,2"),
        ({"explode": True}, {"a": 1, "b": 2}, "a=1,b=2"),
        ({"content": {"application/json": {}}}, {"a": None}, '{"a": null}'),
    ],
)
async def test_parameters_in_the_header(members: dict[str, Any], value: Any, text: str) -> None:
    server, _ = add(describe(get={"parameters": [parameter("X-It", "header", **members)]}))

    assert (await call(server, "get", **{"X-It": value}))["fields"]["x-it"] == text


async def test_parameters_in_cookies_and_in_a_whole_query() -> None:
    cookies = [parameter("a", "cookie"), parameter("b", "cookie")]
    form: dict[str, Any] = {"application/x-www-form-urlencoded": {"schema": {}}}
    whole = {"name": "all", "in": "querystring", "content": form}
    server, _ = add(describe(get={"parameters": [*cookies, whole]}))

    seen = await call(server, "get", a="1", b=["2", "3"], all={"x": "y z", "n": [1, 2]})

    assert (seen["fields"]["cookie"], seen["query"]) == ("a=1; b=2; b=3", "x=y%20z&n=1&n=2")
    assert await call(server, "get", all="x") == "argument 'all': a form is an object"


async def test_a_parameter_in_a_path_that_is_json_is_one_segment() -> None:
    one: dict[str, Any] = {"name": "id", "in": "path", "required": True, "content": {"application/json": {}}}
    server, _ = add(describe(get={"path": "/things/{id}", "parameters": [one]}))

    assert (await call(server, "get", id={"a": "/"}))["path"] == "/things/%7B%22a%22%3A%20%22%2F%22%7D"


async def test_a_parameter_in_a_path_with_reserved_characters_is_one_segment_too() -> None:
    one = parameter("id", "path", allowReserved=True)
    server, _ = add(describe(get={"path": "/things/{id}", "parameters": [one]}))

    assert (await call(server, "get", id="a:b@c/d?e#f"))["path"] == "/things/a:b@c%2Fd%3Fe%23f"


async def test_a_whole_query_may_be_json_or_text() -> None:
    def whole(media_type: str) -> dict[str, Any]:
        return {"name": "all", "in": "querystring", "content": {media_type: {"schema": {}}}}

    server, _ = add(describe(a={"parameters": [whole("application/json")]}, b={"parameters": [whole("text/plain")]}))

    assert (await call(server, "a", all={"n": None}))["query"] == "%7B%22n%22%3A%20null%7D"
    assert (await call(server, "b", all="x=y"))["query"] == "x%3Dy"


async def test_a_path_may_have_a_query_already() -> None:
    server, _ = add(describe(get={"path": "/things?kind=new", "parameters": [parameter("q")]}))

    assert (await call(server, "get", q="a"))["query"] == "kind=new&q=a"


@pytest.mark.parametrize("value", ["", ".", "..", None])
async def test_a_value_that_would_change_the_path_is_refused(value: str | None) -> None:
    server, _ = add(describe(get={"path": "/things/{id}", "parameters": [parameter("id", "path")]}))

    assert await call(server, "get", id=value) == f"argument 'id': {value!r} cannot be in a path"


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "naïve"])
async def test_a_value_that_would_add_a_header_field_is_refused(value: str) -> None:
    server, _ = add(describe(get={"parameters": [parameter("X-It", "header")]}))

    assert "printable ASCII" in await call(server, "get", **{"X-It": value})


def body(media_type: str, schema: Any = None) -> dict[str, Any]:
    content: dict[str, Any] = {media_type: {"schema": {} if schema is None else schema}}
    return {"method": "post", "requestBody": {"required": True, "content": content}}


@pytest.mark.parametrize(
    ("media_type", "value", "sent"),
    [
        ("application/json", {"a": "ä"}, '{"a": "Ã¤"}'),
        ("application/vnd.api+json", [1], "[1]"),
        ("application/json; charset=utf-8", None, "null"),
        ("application/x-www-form-urlencoded", {"a": "b c", "n": [1, None, 2], "o": None}, "a=b%20c&n=1&n=2"),
        ("application/x-www-form-urlencoded; charset=utf-8", {"a": {"b": 1}}, "a=%7B%22b%22%3A1%7D"),
        ("application/yaml", {"a": [1]}, '{"a":[1]}'),
        ("text/plain", "hello", "hello"),
    ],
)
async def test_bodies(media_type: str, value: Any, sent: str) -> None:
    server, _ = add(describe(send=body(media_type)))

    seen = await call(server, "send", body=value)

    assert (seen["method"], seen["body"], seen["fields"]["content-type"]) == ("POST", sent, media_type)


async def test_the_encoding_of_a_form_is_that_of_its_description() -> None:
    form = body("application/x-www-form-urlencoded")
    form["requestBody"]["content"]["application/x-www-form-urlencoded"]["encoding"] = {
        "deep": {"style": "deepObject", "explode": True},
        "words": {"explode": False},
        "path": {"allowReserved": True},
        "json": {"contentType": "application/json"},
        "none": {},
        "odd": {"style": "matrix"},
        "wrong": 3,
    }
    server, _ = add(describe(send=form))

    async def sent(**value: Any) -> str:
        text: str = (await call(server, "send", body=value))["body"]
        return text

    assert await sent(deep={"items": [{"id": 7}]}) == "deep%5Bitems%5D%5B0%5D%5Bid%5D=7"
    assert await sent(deep={"a": {"b": None}}, words=None) == ""
    assert await sent(words=LIST) == "words=blue,a%20b"
    assert await sent(path="a/b") == "path=a/b"
    assert await sent(json=[1, None]) == "json=%5B1%2Cnull%5D"
    assert await sent(none=LIST, odd=1, wrong="a") == "none=blue&none=a%20b&odd=1&wrong=a"


@pytest.mark.parametrize(
    ("media_types", "chosen"),
    [
        (["text/plain", "application/json"], "application/json"),
        (["application/json-patch+json", "application/merge-patch+json"], "application/merge-patch+json"),
        (["application/json-patch+json", "*/*"], "application/json-patch+json"),
        (["multipart/form-data", "*/*"], "application/json"),
        (["text/*"], "text/plain"),
        (["application/pdf", "application/xml"], "application/xml"),
    ],
)
async def test_the_media_type_of_a_body_is_one_that_can_be_sent(media_types: list[str], chosen: str) -> None:
    content: dict[str, Any] = {each: {"schema": {"type": "string"}} for each in media_types}
    server, _ = add(describe(send={"method": "post", "requestBody": {"content": content}}))

    assert (await call(server, "send", body="x"))["fields"]["content-type"] == chosen


async def test_a_body_that_is_neither_json_nor_a_form_is_text_or_bytes() -> None:
    structured = {"type": "object", "description": "A pet", "properties": {"name": {"xml": {"name": "n"}}}}
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    document = describe(
        schemas={"Node": node},
        pet=body("application/xml", structured),
        node=body("text/x-node", {"$ref": "#/components/schemas/Node"}),
        image=body("image/png", {"description": "A picture"}),
        any=body("*/*", {"type": "string", "format": "binary"}),
        related=body("multipart/related"),
    )
    server, added = add(document)
    data = base64.b64encode(b"\x89PNG").decode()

    found = {name: tool.input_schema["properties"]["body"] for name, tool in (await tools(server)).items()}

    assert found["pet"] == {"type": "string", "contentMediaType": "application/xml", "description": "A pet"}
    assert found["node"] == {"type": "string", "contentMediaType": "text/x-node"}
    assert found["image"]["description"] == "A picture"
    assert (await call(server, "pet", body="<pet/>"))["body"] == "<pet/>"
    assert (await call(server, "image", body=data))["body"] == "\x89PNG"
    seen = await call(server, "any", body=data)
    assert (seen["body"], seen["fields"]["content-type"]) == ("\x89PNG", "application/octet-stream")
    assert "a body of this media type cannot be made" in added.left_out["POST /related"]


@pytest.mark.parametrize(
    "binary",
    [
        {"type": "string", "format": "binary"},
        {"contentMediaType": "application/octet-stream"},
        {"type": "string", "contentMediaType": "image/png"},
        {"anyOf": [{"type": "string", "format": "binary"}, {"type": "null"}]},
    ],
)
async def test_bytes_are_base64_in_an_argument(binary: dict[str, Any]) -> None:
    server, _ = add(describe(send=body("application/octet-stream", binary)))

    assert (await call(server, "send", body=base64.b64encode(b"\x00\xff").decode()))["body"] == "\x00\xff"
    assert await call(server, "send", body="no base64!") == "argument 'body': expected bytes in base64"


async def test_what_a_description_calls_base64_is_sent_as_it_is() -> None:
    encoded = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}
    server, _ = add(describe(send=body("text/plain", encoded)))

    assert (await call(server, "send", body="AP8="))["body"] == "AP8="


async def test_files_are_found_wherever_a_form_describes_them() -> None:
    file = {"type": "string", "format": "binary"}
    schemas = {
        "File": {"anyOf": [file, {"$ref": "#/components/schemas/File"}]},
        "Form": {"type": "object", "properties": {"two": {"anyOf": [{"type": "array", "items": file}, {}]}}},
    }
    properties = {"one": {"$ref": "#/components/schemas/File"}}
    form = {"allOf": [{"$ref": "#/components/schemas/Form"}, {"properties": properties}, {"required": ["one"]}]}
    multipart = body("multipart/form-data", form)
    multipart["requestBody"]["content"]["multipart/form-data"]["encoding"] = {
        "one": {"contentType": "image/png, image/jpeg"},
        "two": {"contentType": "image/*"},
        "deep": {"style": "deepObject"},
        "note": {"contentType": "application/json"},
    }
    server, _ = add(describe(schemas=schemas, send=multipart))
    data = base64.b64encode(b"bytes").decode()

    value = {"one": data, "two": [data, None], "note": "[1]", "deep": {"a": {"b": 2}}, "none": None}
    sent = (await call(server, "send", body=value))["body"]

    assert 'name="one"; filename="one"\r\nContent-Type: image/png\r\n\r\nbytes' in sent
    assert 'name="two"; filename="two"\r\nContent-Type: application/octet-stream\r\n\r\nbytes' in sent
    assert 'name="note"\r\nContent-Type: application/json\r\n\r\n[1]' in sent
    assert 'name="deep[a][b]"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n2' in sent
    assert sent.count("Content-Disposition") == 4


async def test_a_form_of_parts_has_files_text_and_json() -> None:
    file = {"type": "string", "format": "binary"}
    properties = {"file": file, "more": {"type": "array", "items": file}, "note": {"type": "string"}, "about": {}}
    server, _ = add(describe(send=body("multipart/form-data", {"type": "object", "properties": properties})))
    data = base64.b64encode(b"bytes").decode()

    seen = await call(server, "send", body={"file": data, "more": [data, data], "note": "hi", "about": {"a": 1}})

    assert seen["fields"]["content-type"].startswith("multipart/form-data; boundary=")
    assert seen["body"].count("bytes") == 3
    assert 'name="file"; filename="file"' in seen["body"]
    assert 'name="note"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nhi' in seen["body"]
    assert 'name="about"\r\nContent-Type: application/json\r\n\r\n{"a":1}' in seen["body"]


@pytest.mark.parametrize("media_type", ["multipart/form-data", "application/x-www-form-urlencoded"])
async def test_a_form_must_be_an_object(media_type: str) -> None:
    server, _ = add(describe(send=body(media_type, True)))

    assert await call(server, "send", body="text") == "argument 'body': a form is an object"


async def test_an_optional_argument_that_is_not_given_is_not_sent() -> None:
    server, _ = add(describe(send={**body("application/json"), "parameters": [parameter("q")]}))
    optional: dict[str, Any] = {"method": "post", "requestBody": {"content": {"application/json": {}}}}
    other, _ = add(describe(send=optional))
    without, _ = add(describe(send={"method": "post", "requestBody": {"content": {}}}))

    assert (await call(server, "send", body=None))["query"] == ""
    assert (await call(other, "send"))["body"] == ""
    assert "body" in await call(without, "send", body=1)  # there is no such argument
