"""The requests of tools: each style of parameters, the bodies, and values that must not leave their place."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.openapi.helpers import add, call, describe, parameter

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
        ({}, None, "q="),
        ({}, LIST, "q=blue&q=a%20b"),
        ({}, TABLE, "R=100&g%2Fh=200"),
        ({"explode": False}, LIST, "q=blue,a%20b"),
        ({"explode": False}, TABLE, "q=R,100,g%2Fh,200"),
        ({"style": "spaceDelimited"}, LIST, "q=blue%20a%20b"),
        ({"style": "pipeDelimited"}, LIST, "q=blue%7Ca%20b"),
        ({"style": "pipeDelimited"}, TABLE, "q=R%7C100%7Cg%2Fh%7C200"),
        ({"style": "deepObject", "explode": True}, TABLE, "q%5BR%5D=100&q%5Bg%2Fh%5D=200"),
        ({"style": "deepObject"}, LIST, "q=blue,a%20b"),
        ({"allowReserved": True}, "a/b?c&d", "q=a/b?c%26d"),
        ({"content": {"application/json": {"schema": {}}}}, {"a": [1]}, "q=%7B%22a%22%3A%20%5B1%5D%7D"),
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
        ({}, {"a": 1, "b": 2}, "a,1,b,2"),
        ({"explode": True}, {"a": 1, "b": 2}, "a=1,b=2"),
        ({"content": {"application/json": {}}}, {"a": 1}, '{"a": 1}'),
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


@pytest.mark.parametrize("value", ["", ".", ".."])
async def test_a_value_that_would_change_the_path_is_refused(value: str) -> None:
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
        ("application/x-www-form-urlencoded", {"a": "b c", "n": [1, 2]}, "a=b%20c&n=1&n=2"),
        ("text/plain", "hello", "hello"),
    ],
)
async def test_bodies(media_type: str, value: Any, sent: str) -> None:
    server, _ = add(describe(send=body(media_type)))

    seen = await call(server, "send", body=value)

    assert (seen["method"], seen["body"], seen["fields"]["content-type"]) == ("POST", sent, media_type)


@pytest.mark.parametrize(
    "binary", [{"type": "string", "format": "binary"}, {"contentMediaType": "application/octet-stream"}]
)
async def test_bytes_are_base64_in_an_argument(binary: dict[str, Any]) -> None:
    server, _ = add(describe(send=body("application/octet-stream", binary)))

    assert (await call(server, "send", body=base64.b64encode(b"\x00\xff").decode()))["body"] == "\x00\xff"
    assert await call(server, "send", body="no base64!") == "argument 'body': expected bytes in base64"


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
    assert 'name="about"\r\nContent-Type: application/json\r\n\r\n{"a": 1}' in seen["body"]


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
