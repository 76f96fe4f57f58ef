"""The writer of request heads: what it writes, and what it refuses."""

from __future__ import annotations

import pytest

from trio_mcp.transports.http.h1 import request_head


def test_the_head_of_a_request_is_written() -> None:
    fields = {"host": "a.test", "X-Empty": "", "x-text": "b c\té"}

    assert request_head("POST", "/mcp?a=b", fields) == (
        b"POST /mcp?a=b HTTP/1.1\r\nhost: a.test\r\nX-Empty: \r\nx-text: b c\t\xe9\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("method", "target", "fields"),
    [
        ("GE T", "/", {}),
        ("", "/", {}),
        ("GET\r\n", "/", {}),
        ("GET", "", {}),
        ("GET", "/a b", {}),
        ("GET", "/ü", {}),
        ("GET", "/\r\nx: y", {}),
        ("GET", "/", {"": "a"}),
        ("GET", "/", {"a b": "c"}),
        ("GET", "/", {"a:b": "c"}),
        ("GET", "/", {"a: b": "c"}),
        ("GET /", "HTTP/1.1", {}),
        ("GET", "/", {"a\r\nb": "c"}),
        ("GET", "/", {"a": "s3cret\r\nc: d"}),
        ("GET", "/", {"a": "s3cret\nc"}),
        ("GET", "/", {"a": "s3cret\rc"}),
        ("GET", "/", {"a": "s3cret\0"}),
        ("GET", "/", {"a": " s3cret"}),
        ("GET", "/", {"a": "s3cret "}),
        ("GET", "/", {"a": "s3cret €"}),
    ],
)
def test_what_does_not_belong_into_a_head_is_refused(method: str, target: str, fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not valid HTTP") as refused:
        request_head(method, target, {"host": "a.test", **fields})

    assert "s3cret" not in str(refused.value)
