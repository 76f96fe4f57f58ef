"""The writer of response heads: what it writes, and what it refuses."""

from __future__ import annotations

import pytest

from trio_mcp.transports.http.h1 import response_head


def test_the_head_of_a_response_is_written() -> None:
    fields = [("content-length", "0"), ("X-Empty", ""), ("x-text", "b c\té")]

    assert response_head(404, fields) == (
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nX-Empty: \r\nx-text: b c\t\xe9\r\n\r\n"
    )
    assert response_head(299, []) == b"HTTP/1.1 299 \r\n\r\n"


@pytest.mark.parametrize("status", [-1, 0, 99, 600, 1000])
def test_an_invalid_status_is_refused(status: int) -> None:
    with pytest.raises(ValueError, match="invalid status"):
        response_head(status, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "a"),
        ("a ", "c"),
        ("a:", "c"),
        ("a: ", "c"),
        ("a\r\nb", "c"),
        ("ä", "c"),
        ("a", "s3cret\r\nc: d"),
        ("a", "s3cret\nc"),
        ("a", "s3cret\rc"),
        ("a", "s3cret\0"),
        ("a", "s3cret\x7f"),
        ("a", "s3cret €"),
    ],
)
def test_what_does_not_belong_into_a_head_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="invalid header field") as refused:
        response_head(200, [("x", "y"), (name, value)])

    assert "s3cret" not in str(refused.value)
