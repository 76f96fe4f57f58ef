"""Lines out of chunks: the same for any chunking as for one, and never more memory than the limit."""

from __future__ import annotations

from unittest.mock import patch

from fuzz.effort import effort
from fuzz.source import Source
from trio_mcp.wire import Line, LineFramer, Oversized, _jsonrpc


@patch.object(_jsonrpc, "_LARGE", 3)  # so that some lines are passed on without a copy
def target(data: bytes) -> None:
    """Feed a stream in pieces, and compare the lines with those of the whole stream."""
    source = Source(data)
    limit, lengthened = 1 + source.below(20), source.flag()
    cuts, stream = Source(source.take(source.below(64))), source.rest()
    if lengthened:  # lines around the limit are what matters
        stream = stream.replace(b"L", b"x" * limit)
    framer = LineFramer(limit)
    lines: list[Line | Oversized] = []
    for piece in cuts.cut(stream):
        found, calls = effort(framer.feed, piece)
        assert calls <= 16 + 8 * (piece.count(b"\n") + 1), "more work than the new bytes are worth"
        assert len(framer._begun) <= limit, "more is kept than a line may have"
        assert all(
            type(line) is bytes or (type(line) is bytearray and len(line) > 3)
            for line in found
            if not isinstance(line, Oversized)
        )
        lines += found
    lines += framer.finish()

    assert lines == _by_the_rules(stream, limit)
    assert not framer.finish()


def _by_the_rules(stream: bytes, limit: int) -> list[Line | Oversized]:
    lines = stream.split(b"\n")
    return [Oversized(limit) if len(line) > limit else line for line in lines if len(line) > limit or line.strip()]
