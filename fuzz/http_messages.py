"""Streams of HTTP/1.1 messages for the targets that read them: valid ones, and such as the corpus of smuggling has.

Most random bytes are refused at their first line. So a stream is one of these, and the first choice says which:

1. The bytes of the input as they are. Files of the corpus can be written in an editor.
2. Valid messages, of which some bytes are then replaced by words that mean something to a reader.
3. Messages of the corpus of smuggling, cut at any place and spliced.
4. Words alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from fuzz.source import Source

__all__ = ["Language", "stream_of"]

_FIELDS: tuple[bytes, ...] = (
    *(b"x: y\r\n", b"x:\r\n", b"X-A: b c, d\t\r\n", b"x: \xe4\r\n", b"trailer: x\r\n", b"te: trailers\r\n"),
    *(b"connection: close\r\n", b"connection: keep-alive\r\n", b"connection: content-length\r\n"),
    *(b"Connection: x, Upgrade\r\n", b"upgrade: websocket\r\n", b"upgrade: h2c\r\n", b"expect: 100-continue\r\n"),
    *(b"content-encoding: chunked\r\n", b"content_length: 3\r\n", b"proxy-connection: close\r\n"),
)
_WORDS: tuple[bytes, ...] = (
    *(b"\r\n", b"\r\n\r\n", b"\r", b"\n", b" ", b"\t", b"\0", b"\x7f", b"\x80", b"\x85", b"\xa0", b"\xff"),
    *(b"\x0b", b"\x0c", b": ", b":", b",", b";", b"=", b'"', b"\\", b"-", b"_", b"+", b"#", b"*", b"0", b"1", b"3"),
    *(b"a", b"00", b"0x", b"-1", b"+1", b"0x1", b"1_0", b"3, 3", b"1, 1", b"9999999999999999999", b"abc"),
    *(b"content-length: 0\r\n", b"content-length: 3\r\n", b"Content-Length:3 \r\n", b"content-length"),
    *(b"transfer-encoding: chunked\r\n", b"Transfer-Encoding: CHUNKED\r\n", b"transfer-encoding: gzip\r\n"),
    *(b"chunked", b"identity", b"gzip, chunked", b"0\r\n\r\n", b"3\r\nabc\r\n", b"3;x=y\r\nabc\r\n"),
    *(b'3;x="y;"\r\nabc\r\n', b"a\r\n0123456789\r\n", b"0\r\nx: y\r\n\r\n", b"0\r\n"),
    *(b"x: y\r\n", b"x:\r\n", b"x : y\r\n", b" folded\r\n", b"\tfolded\r\n", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.2"),
    *(b"connection: close\r\n", b"connection: keep-alive\r\n", b"connection: upgrade\r\n", b"upgrade: websocket\r\n"),
    *(b"host: a\r\n", b"Host:a:1 \r\n", b"host: a,b\r\n", b"http://b/", b"GET / HTTP/1.1\r\n", b"CONNECT"),
    b"PRI * HTTP/2.0\r\n",
)
_EXTENSIONS = (b"", b"", b";x", b";x=y", b' ; x = "y;\\""')
_TRAILERS = (b"", b"", b"x: y\r\n", b"content-length: 3\r\n", b"Transfer-Encoding: chunked\r\nx:\r\n")


@frozen
class Language:
    """The messages of one role."""

    first_lines: Sequence[bytes]
    """First lines, with the fields that must follow; the most important ones first."""
    corpus: Sequence[bytes]
    """Whole messages, valid and malformed."""


def stream_of(source: Source, language: Language) -> bytes:
    """Return a stream of messages, and use the source up."""
    match source.below(8):
        case 0:
            return source.rest()
        case 1 | 2 | 3 | 4:
            return _changed(source, b"".join(_message(source, language) for _ in range(1 + source.below(3))))
        case 5 | 6:
            return _changed(source, b"".join(_spliced(source, language.corpus) for _ in range(1 + source.below(4))))
        case _:
            return _words(source, language)


def _message(source: Source, language: Language) -> bytes:
    """Return a valid message, if the first line does not forbid its body."""
    head = source.choose(language.first_lines)
    for _ in range(source.below(4)):
        head += source.choose(_FIELDS)
    framing = source.below(8)
    if framing < 3:
        body = source.binary(20)
        return head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
    if framing < 6:
        chunks = b"".join(map(_chunk, *_pieces(source)))
        return head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + source.choose(_TRAILERS) + b"\r\n"
    return head + b"\r\n"


def _pieces(source: Source) -> tuple[list[bytes], list[bytes]]:
    pieces = [source.binary(20) or b"abc" for _ in range(source.below(4))]
    return pieces, [source.choose(_EXTENSIONS) for _ in pieces]


def _chunk(data: bytes, extension: bytes) -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


def _changed(source: Source, stream: bytes) -> bytes:
    """Return the stream with some places changed, and sometimes without its end; as it is if no bytes are left."""
    for _ in range(source.choose((0, 1, 1, 2, 0, 3))):
        at = int.from_bytes(source.take(2)) % (len(stream) + 1)
        word = source.binary(4) if source.below(4) == 0 else source.choose(_WORDS)
        stream = stream[:at] + word + stream[at + source.choose((0, len(word), 1, 2)) :]
    if source.below(8) == 7:
        return stream[: int.from_bytes(source.take(2)) % (len(stream) + 1)]
    return stream + source.rest() if source.below(4) == 3 else stream


def _spliced(source: Source, corpus: Sequence[bytes]) -> bytes:
    """Return the begin of one message and the end of another, or one of them whole."""
    first, last = source.choose(corpus), source.choose(corpus)
    if source.below(3) == 0:
        return first
    return (
        first[: int.from_bytes(source.take(2)) % (len(first) + 1)]
        + last[int.from_bytes(source.take(2)) % (len(last) + 1) :]
    )


def _words(source: Source, language: Language) -> bytes:
    parts: list[bytes] = [source.choose(language.first_lines)]
    while not source.used_up:
        parts.append(source.binary(8) if source.below(4) == 0 else source.choose(_WORDS))
    return b"".join(parts)
