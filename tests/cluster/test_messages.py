"""The messages between processes: requests and parts of responses arrive as they were sent, whatever they hold."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from attrs import asdict, evolve
from hypothesis import example, given
from hypothesis import strategies as st

from trio_mcp import Access, HttpRequest
from trio_mcp.cluster._messages import ResponsePart, read_request, request_json
from trio_mcp.wire import JsonObject, decode, encode

REQUEST = HttpRequest(
    method="POST",
    path="/mount/mcp",
    local_path="/mcp",
    query="a=b&c=%C3%A9",
    headers={"content-type": "application/json", "mcp-session-id": "x", "x-latin": "caf\xe9"},
    client="192.0.2.7",
    body=b'{"jsonrpc": "2.0"}',
)

ENCODABLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
BODIES = st.one_of(st.binary(max_size=50), ENCODABLE.map(str.encode))
HEADERS = st.dictionaries(ENCODABLE, st.text(st.characters(max_codepoint=255), max_size=20), max_size=4)


def on_the_line(json: JsonObject) -> JsonObject:
    """Return JSON as the other process reads it; fail if it does not fit into one line."""
    line = encode(json)
    assert b"\n" not in line
    received: JsonObject = decode(line)
    return received


def forwarded(request: HttpRequest) -> HttpRequest:
    return read_request(on_the_line(request_json(request)))


def facts(request: HttpRequest) -> dict[str, Any]:
    return asdict(request, recurse=False)


@given(
    method=st.sampled_from(["GET", "POST", "DELETE"]),
    path=ENCODABLE,
    local_path=ENCODABLE,
    query=st.text(st.characters(max_codepoint=255), max_size=20),
    headers=HEADERS,
    client=st.none() | ENCODABLE,
    body=BODIES,
)
@example("POST", "", "", "", {}, None, b"")
@example("POST", "", "", "", {}, "", b"null")
@example("POST", "", "", "", {}, "", b"\x00\r\n\xff")
@example("POST", "", "", "", {}, "", "é".encode()[:1])
async def test_a_request_arrives_as_it_was_received(
    method: str, path: str, local_path: str, query: str, headers: dict[str, str], client: str | None, body: bytes
) -> None:
    request = HttpRequest(
        method=method, path=path, local_path=local_path, query=query, headers=headers, client=client, body=body
    )
    assert facts(forwarded(request)) == facts(evolve(request, is_forwarded=True))


async def test_a_request_without_access_has_none_there_either() -> None:
    got = forwarded(REQUEST)
    assert (got.access, got.access_until, got.is_forwarded) == (None, math.inf, True)
    assert got.sender == REQUEST.sender


@pytest.mark.parametrize(
    "access",
    [
        Access("ann"),
        Access("bob", scopes=frozenset({"read", "write"}), client_id="app", expires_at=1e9 + 0.25),
        Access("caf\xe9", claims={"iss": "https://issuer.example", "aud": ["a", "b"], "n": {"x": None, "y": 1.5}}),
        Access(""),
    ],
)
async def test_access_arrives_with_its_scopes_and_claims(access: Access, autojump_clock: object) -> None:
    got = forwarded(evolve(REQUEST, access=access))
    assert got.access == access
    assert got.access is not None
    assert got.access.claims == access.claims
    assert got.access_until == math.inf
    assert got.sender == evolve(REQUEST, access=access).sender


async def test_access_ends_at_the_same_moment_whatever_the_clocks_show(autojump_clock: object) -> None:
    await trio.sleep(1000)
    sent = on_the_line(request_json(evolve(REQUEST, access=Access("ann"), access_until=trio.current_time() + 30)))
    await trio.sleep(5)  # the other process has another clock
    assert read_request(sent).access_until == trio.current_time() + 30


@pytest.mark.parametrize("seconds", [0, -1000])
async def test_access_that_has_ended_has_ended_there_too(seconds: float, autojump_clock: object) -> None:
    request = evolve(REQUEST, access=Access("ann"), access_until=trio.current_time() + seconds)
    assert forwarded(request).access_until <= trio.current_time()


async def test_a_request_without_access_has_no_end_of_it() -> None:
    assert "accessSeconds" not in request_json(evolve(REQUEST, access_until=5.0))


async def test_what_was_checked_by_the_process_that_has_received_a_request_is_not_sent() -> None:
    got = forwarded(evolve(REQUEST, has_known_head=True, is_framed_twice=True))
    assert not got.has_known_head
    assert not got.is_framed_twice


HEADS = st.none() | st.tuples(
    st.integers(100, 599), st.lists(st.tuples(ENCODABLE, st.text(st.characters(max_codepoint=255))), max_size=3)
)


@given(
    request=st.integers(1, 2**53),
    part=st.builds(
        ResponsePart,
        number=st.integers(0, 2**53),
        head=HEADS,
        data=BODIES,
        more=st.booleans(),
        is_cut=st.booleans(),
    ),
)
def test_a_part_of_a_response_arrives_as_it_was_sent(request: int, part: ResponsePart) -> None:
    received = on_the_line(part.to_json(request))
    assert received["id"] == request
    assert ResponsePart.of_json(received) == part


@pytest.mark.parametrize(
    ("data", "member"),
    [(b"", "text"), (b"text", "text"), ("é€".encode(), "text"), ("é".encode()[1:], "base64"), (b"\xff", "base64")],
)
def test_text_stays_readable_and_everything_else_is_base64(data: bytes, member: str) -> None:
    json: dict[str, Any] = ResponsePart(0, None, data, more=False).to_json(1)
    assert {"text", "base64"} & json.keys() == {member}
    assert ResponsePart.of_json(on_the_line(json)).data == data


def test_a_text_that_is_cut_in_the_middle_of_a_character_is_whole_again() -> None:
    data = "a\U0001f600b".encode()
    for at in range(len(data) + 1):
        parts = [ResponsePart(0, None, data[:at], more=True), ResponsePart(1, None, data[at:], more=False)]
        got = [ResponsePart.of_json(on_the_line(part.to_json(1))) for part in parts]
        assert b"".join(part.data for part in got) == data


def test_header_fields_that_are_repeated_stay_repeated_and_in_order() -> None:
    fields = [("set-cookie", "b=1"), ("set-cookie", "a=2"), ("content-type", "text/plain")]
    got = ResponsePart.of_json(on_the_line(ResponsePart(0, (200, fields), b"", more=True).to_json(1)))
    assert got.head == (200, fields)
    assert not got.is_cut
