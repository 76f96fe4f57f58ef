"""The readers of both roles and the corpus of request smuggling: what is refused, and the only reading of the rest."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.transports.http.h1.smuggled_requests import ACCEPTED_REQUESTS, REFUSED_REQUESTS, AcceptedRequest
from tests.transports.http.h1.smuggled_responses import (
    ACCEPTED_RESPONSES,
    CUT_RESPONSES,
    REFUSED_RESPONSES,
    AcceptedResponse,
)
from tests.transports.http.h1.smuggling import Refused, one_by_one
from trio_mcp.transports.http.h1 import HttpSyntaxError, RequestReader, ResponseReader, values_of

NEXT = b"GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n"
"""A request behind another: with it, also what waits for the end of a line has got one."""


def name_of(each: Refused | AcceptedRequest | AcceptedResponse) -> str:
    return f"{each.origin}: {each.trick}"


def read_request(parts: Iterable[bytes]) -> tuple[RequestReader, bytes, bytes]:
    """Return the reader, the body, and what follows the request."""
    reader, body, surplus = RequestReader(16_384), b"", b""
    for part in parts:
        if reader.is_complete:
            surplus += part
        else:
            reader.feed(part)
            body += b"".join(reader.take_body())
    return reader, body, reader.surplus + surplus


def read_response(parts: Iterable[bytes], *, has_body: bool = True) -> tuple[ResponseReader, bytes]:
    """Return the reader and the body."""
    reader, body = ResponseReader(has_body=has_body), b""
    for part in parts:
        reader.feed(part)
        body += b"".join(reader.take_body())
    return reader, body


@pytest.mark.parametrize("refused", REFUSED_REQUESTS, ids=name_of)
def test_a_smuggled_request_is_refused_at_once_and_byte_by_byte(refused: Refused) -> None:
    for parts in ([refused.data + NEXT], one_by_one(refused.data + NEXT)):
        with pytest.raises(HttpSyntaxError) as failed:
            read_request(parts)
        assert failed.value.status == refused.status


@pytest.mark.parametrize("accepted", ACCEPTED_REQUESTS, ids=name_of)
def test_a_request_that_looks_smuggled_has_one_reading(accepted: AcceptedRequest) -> None:
    for parts in ([accepted.data], one_by_one(accepted.data)):
        reader, body, surplus = read_request(parts)
        head = reader.head
        assert head is not None
        assert reader.is_complete
        assert (head.method, head.target, head.is_last) == (accepted.method, accepted.target, accepted.is_last)
        assert values_of(head.fields, "host") == [accepted.host]
        assert (body, surplus) == (accepted.body, accepted.surplus)


@pytest.mark.parametrize("refused", REFUSED_RESPONSES, ids=name_of)
def test_a_smuggled_response_is_refused_at_once_and_byte_by_byte(refused: Refused) -> None:
    for parts in ([refused.data], one_by_one(refused.data)):
        with pytest.raises(HttpSyntaxError):
            read_response([*parts, b""])


@pytest.mark.parametrize("cut", CUT_RESPONSES, ids=name_of)
def test_a_response_that_is_cut_off_is_refused_when_the_connection_ends(cut: Refused) -> None:
    for parts in ([cut.data] if cut.data else [], one_by_one(cut.data)):
        reader, _ = read_response(parts)
        assert not reader.is_complete
        with pytest.raises(HttpSyntaxError, match="the connection ended before the response did"):
            reader.feed(b"")


@pytest.mark.parametrize("accepted", ACCEPTED_RESPONSES, ids=name_of)
def test_a_response_that_looks_smuggled_has_one_reading(accepted: AcceptedResponse) -> None:
    for parts in ([accepted.data], one_by_one(accepted.data)):
        reader, body = read_response(parts, has_body=accepted.has_body)
        assert reader.head is not None
        assert (reader.head.status, body, reader.is_last) == (accepted.status, accepted.body, accepted.is_last)
        if not reader.is_complete:  # its end is that of the connection
            reader.feed(b"")
            assert reader.is_complete


def test_each_trick_of_the_corpus_has_its_own_name() -> None:
    for corpus in (REFUSED_REQUESTS, ACCEPTED_REQUESTS, REFUSED_RESPONSES, CUT_RESPONSES, ACCEPTED_RESPONSES):
        names = [name_of(each) for each in corpus]
        assert len({*names}) == len(names)
