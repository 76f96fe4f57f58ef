"""The corpus of request smuggling: messages that two readers have been seen to read differently.

An attacker sends one of them through a proxy. If the proxy and the server disagree on where it ends, the rest of it
becomes a request of another user. The same with a response gives an answer to a question that nobody has asked.

Here is what both roles have in common: header fields and bodies, which follow the first line of a request or of a
response. `smuggled_requests` and `smuggled_responses` add the first lines and what only one role has. Each entry names
the trick and who published it, as a family: the tests of a parser, a scanner's list, or the number of a vulnerability.
The bytes are written anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["ACCEPTED", "REFUSED", "Refused", "Tail", "one_by_one"]


class Refused(NamedTuple):
    """A message that must be refused; without its first line here, with it in the modules of the two roles."""

    origin: str
    trick: str
    data: bytes
    status: int = 400
    """That with which a server refuses it."""


class Tail(NamedTuple):
    """The fields and the body of a message that has exactly one reading."""

    origin: str
    trick: str
    data: bytes
    body: bytes
    surplus: bytes = b""
    """What follows the message, and is no part of it."""


def one_by_one(data: bytes) -> list[bytes]:
    """Return the bytes, each alone."""
    return [data[at : at + 1] for at in range(len(data))]


_CHUNKS = b"\r\n3\r\nabc\r\n0\r\n\r\n"
"""The end of a head, and a chunked body."""
_TE = b"Transfer-Encoding: chunked\r\n"
_CHUNKED = _TE + b"\r\n"
_LENGTH = b"Content-Length: 3\r\n"
_CONTROLS = [*range(0x20), 0x7F]
_BEYOND_ASCII = [*range(0x80, 0x100)]


# --- Both framings, or the same one twice ---

_TWO_FRAMINGS = [
    Refused("RFC 9112", "length and chunks", _LENGTH + _TE + _CHUNKS),
    Refused("RFC 9112", "chunks and length", _TE + _LENGTH + _CHUNKS),
    Refused("CVE-2020-10109 (Twisted)", "length of the whole, and chunks", b"Content-Length: 13\r\n" + _TE + _CHUNKS),
    Refused(
        "http-request-smuggler",
        "CL.TE: length beyond the last chunk",
        b"Content-Length: 6\r\n" + _TE + b"\r\n0\r\n\r\nG",
    ),
    Refused(
        "http-request-smuggler",
        "TE.CL: length before the end of a chunk",
        b"Content-Length: 4\r\n" + _TE + b"\r\n5c\r\nGPOST",
    ),
    Refused("http-request-smuggler", "TE.0: chunks and the length 0", b"Content-Length: 0\r\n" + _TE + _CHUNKS),
    Refused("llhttp", "length and the coding identity", b"Content-Length: 1\r\nTransfer-Encoding: identity\r\n\r\na"),
    Refused(
        "llhttp", "the coding identity and length", b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nWorld"
    ),
    Refused(
        "llhttp", "length and three empty codings", b"Content-Length: 3\r\n" + 3 * b"Transfer-Encoding:\r\n" + _CHUNKS
    ),
    Refused(
        "HTTP Garden",
        "length and a coding after a comma",
        b"Content-Length: 5\r\nTransfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
    ),
    Refused(
        "Http11Probe",
        "length and a coding with a parameter",
        b"Transfer-Encoding: chunked;a=b\r\n" + _LENGTH + b"\r\nabc",
    ),
    Refused(
        "smuggler", "length and the coding between quotes", b'Transfer-Encoding: "chunked"\r\n' + _LENGTH + b"\r\nabc"
    ),
    Refused("RFC 9112", "two equal lengths", 2 * _LENGTH + b"\r\nabc"),
    Refused(
        "CVE-2020-10108 (Twisted)", "two lengths, the second is longer", b"Content-Length: 0\r\n" + _LENGTH + b"\r\nabc"
    ),
    Refused("HTTP Garden", "two lengths, the first is longer", _LENGTH + b"Content-Length: 0\r\n\r\nabc"),
    Refused("HTTP Garden", "two lengths between other fields", _LENGTH + b"a: b\r\ncontent-length: 4\r\n\r\nabcd"),
    Refused(
        "CVE-2023-40225 (HAProxy)", "an empty length before another", b"Content-Length:\r\n" + _LENGTH + b"\r\nabc"
    ),
    Refused("CVE-2019-16792 (Waitress)", "a list of lengths", b"Content-Length: 3, 3\r\n\r\nabc"),
    Refused("Http11Probe", "a list of different lengths", b"Content-Length: 3,4\r\n\r\nabcd"),
    Refused("h11", "a list of three lengths", b"Content-Length: 1 , 1,2\r\n\r\nab"),
    Refused(
        "CVE-2024-1135 (Gunicorn)",
        "chunked, then another coding",
        _TE + b"Transfer-Encoding: identity\r\n" + _CHUNKS,
        501,
    ),
    Refused("llhttp", "another coding, then chunked", b"Transfer-Encoding: deflate\r\n" + _TE + _CHUNKS, 501),
    Refused("HTTP Garden", "chunked in two fields", 2 * _TE + _CHUNKS, 501),
    Refused("http-request-smuggler", "an empty coding, then chunked", b"Transfer-Encoding:\r\n" + _TE + _CHUNKS, 501),
]

# --- The value of Content-Length ---

_LENGTHS: Iterable[tuple[str, str, bytes]] = [
    ("CVE-2022-24761 (Waitress)", "a plus", b"+3"),
    ("CVE-2022-24761 (Waitress)", "a minus", b"-3"),
    ("Http11Probe", "minus zero", b"-0"),
    ("HTTP Garden", "a prefix of hexadecimal numbers", b"0x3"),
    ("Http11Probe", "a prefix of octal numbers", b"0o3"),
    ("HTTP Garden", "an octal number", b"03"),
    ("http-request-smuggler", "many zeros before it", b"000000000003"),
    ("Http11Probe", "two zeros", b"00"),
    ("CVE-2023-47627 (aiohttp)", "an underscore", b"1_0"),
    ("HTTP Garden", "a plus and an underscore", b"+1_0"),
    ("http-request-smuggler", "an exponent", b"3e0"),
    ("http-request-smuggler", "a fraction", b"3.0"),
    ("http-request-smuggler", "a list that begins with zero", b"0, 3"),
    ("http-request-smuggler", "a list that ends with zero", b"3, 0"),
    ("http-request-smuggler", "zero and a space before it", b"0 3"),
    ("llhttp", "a space in it", b"4 2"),
    ("llhttp", "nothing", b""),
    ("h11", "a letter after it", b"3x"),
    ("HTTP Garden", "a letter alone", b"Z"),
    ("aiohttp", "a digit beyond ASCII", b"\xb3"),
    ("Http11Probe", "digits of UTF-8", "\uff13".encode()),
    ("smuggler", "quotes", b'"3"'),
    ("RFC 9112", "a comma after it", b"3,"),
    ("RFC 9112", "a comma before it", b",3"),
    ("llhttp", "more than 64 bits", b"1000000000000000000000"),
    ("CVE-2021-40346 (HAProxy)", "3 after it has overflown 64 bits", b"18446744073709551619"),
    ("RFC 9112", "3 after it has overflown 32 bits, and zeros", b"000000000004294967299"),
    ("h11", "21 digits", 21 * b"1"),
]
_MALFORMED_LENGTHS = [
    Refused(origin, f"length: {trick}", b"Content-Length: " + value + b"\r\n\r\nabc")
    for origin, trick, value in _LENGTHS
]

# --- The value of Transfer-Encoding ---

_CODINGS: Iterable[tuple[str, str, bytes]] = [
    ("llhttp", "an unknown one", b"pigeons"),
    ("llhttp", "chunked twice in one word", b"chunkedchunked"),
    ("llhttp", "chunked before another", b"chunked, deflate"),
    ("llhttp", "chunked after another", b"deflate, chunked"),
    ("smuggler", "chunked before nonsense", b"chunked, cow"),
    ("smuggler", "chunked after nonsense", b"cow, chunked"),
    ("smuggler", "chunked amid nonsense", b"cow chunked bar"),
    ("http-request-smuggler", "chunked between others", b"identity, chunked, identity"),
    ("CVE-2024-6827 (Gunicorn)", "chunked, identity", b"chunked, identity"),
    ("CVE-2019-16786 (Waitress)", "gzip, chunked", b"gzip, chunked"),
    ("RFC 9112", "chunked twice", b"chunked, chunked"),
    ("Http11Probe", "identity", b"identity"),
    ("h11", "gzip", b"gzip"),
    ("Puma", "a letter before it", b"xchunked"),
    ("smuggler", "a part of it", b"chunk"),
    ("smuggler", "quotes", b'"chunked"'),
    ("smuggler", "apostrophes", b"'chunked'"),
    ("HTTP Garden", "a comma before it", b",chunked"),
    ("Http11Probe", "a comma after it", b"chunked,"),
    ("Http11Probe", "a parameter", b"chunked;a=b"),
    ("RFC 9112", "a semicolon", b"chunked;"),
    ("HTTP Garden", "nonsense", b"blegh"),
    ("llhttp", "nothing", b""),
    ("http-request-smuggler", "an encoded word", b"=?utf-8?B?Y2h1bmtlZA==?="),
    ("http-request-smuggler", "an encoded letter", b"chun%6bed"),
    ("http-request-smuggler", "a letter beyond ASCII", b"ch\x96nked"),
    ("RFC 9112", "a soft hyphen", b"chun\xadked"),
    ("HTTP Garden", "spaces beyond ASCII around it", b"\xa0\x85chunked\x85\xa0"),
    ("RFC 9112", "a Kelvin sign, whose lower case is k", "chun\u212aed".encode()),
]
_MALFORMED_CODINGS = [
    Refused(origin, f"coding: {trick}", b"Transfer-Encoding: " + value + b"\r\n" + _CHUNKS, 501)
    for origin, trick, value in _CODINGS
]

# --- A byte that some skip, at each place of a framing field ---

_FIELDS = ((b"Transfer-Encoding", b"chunked", _CHUNKS, 501), (b"Content-Length", b"3", b"\r\nabc", 400))
_STRAY_BYTES = [
    each
    for name, value, body, status in _FIELDS
    for byte in [*_CONTROLS, *_BEYOND_ASCII]
    for stray in [bytes([byte])]
    for each in [
        Refused("smuggler", f"{byte:#04x} before {name!r}", stray + name + b": " + value + b"\r\n" + body),
        Refused("smuggler", f"{byte:#04x} after {name!r}", name + stray + b": " + value + b"\r\n" + body),
        Refused("smuggler", f"{byte:#04x} in {name!r}", name[:6] + stray + name[6:] + b": " + value + b"\r\n" + body),
        *(
            Refused(
                "smuggler",
                f"{byte:#04x} {where} the value of {name!r}",
                name + b":" + changed + b"\r\n" + body,
                400 if byte in _CONTROLS else status,
            )
            for where, changed in [("before", stray + value), ("after", b" " + value + stray)]
            if byte != ord("\t")  # it is whitespace there, which belongs to no value
        ),
    ]
]

# --- The lines of a head ---

_LINES: Iterable[tuple[str, str, bytes]] = [
    ("CVE-2021-22959 (Node.js)", "a space before the colon", b"Content-Length : 3\r\n\r\nabc"),
    ("CVE-2021-22959 (Node.js)", "a space before the colon of chunked", b"Transfer-Encoding : chunked\r\n" + _CHUNKS),
    ("smuggler", "a tab before the colon, and after it", b"Transfer-Encoding\t:\tchunked\r\n" + _CHUNKS),
    ("http-request-smuggler", "a word before the colon", b"Transfer-Encoding x: chunked\r\n" + _CHUNKS),
    ("smuggler", "a tab after the coding", b"Transfer-Encoding: chunked\t\r\n" + _CHUNKS),  # no chunks for llhttp
    ("smuggler", "a space instead of the dash", b"Transfer Encoding: chunked\r\n" + _CHUNKS),
    ("http-request-smuggler", "a backslash instead of the dash", b"Transfer\\Encoding: chunked\r\n" + _CHUNKS),
    ("HTTP Garden", "a space instead of the colon", b"Content-Length 3\r\n\r\nabc"),
    ("HTTP Garden", "a name in two lines", b"Transfer-\r\nEncoding: chunked\r\n" + _CHUNKS),
    ("CVE-2024-27982 (Node.js)", "a space before the first field", b" " + _LENGTH + b"\r\nabc"),
    ("HTTP Garden", "a tab before the first field", b"\t" + _LENGTH + b"\r\nabc"),
    ("CVE-2022-32215 (Node.js)", "the value in a folded line", b"Transfer-Encoding:\r\n chunked\r\n" + _CHUNKS),
    (
        "http-request-smuggler",
        "the value in a line that is folded with a tab",
        b"Transfer-Encoding:\r\n\tchunked\r\n" + _CHUNKS,
    ),
    ("http-request-smuggler", "the value after two folded lines", b"Transfer-Encoding:\r\n \r\n chunked\r\n" + _CHUNKS),
    ("llhttp", "a folded line after the value", b"Transfer-Encoding: chunked\r\n abc\r\n" + _CHUNKS),
    ("http-request-smuggler", "framing in a folded line", b"a: b\r\n " + _LENGTH + b"\r\nabc"),
    ("http-request-smuggler", "framing in a line that is folded with a tab", b"a: b\r\n\t" + _TE + _CHUNKS),
    ("llhttp", "a folded line before the colon", b"a\r\n : b\r\n\r\n"),
    ("http-request-smuggler", "a line feed before the colon", b"Transfer-Encoding\n : chunked\r\n" + _CHUNKS),
    ("http-request-smuggler", "a line of white space", b"a: b\r\n \r\n" + _LENGTH + b"\r\nabc"),
    ("smuggler", "the value after a line feed and a space", b"Transfer-Encoding:\n chunked\r\n" + _CHUNKS),
    (
        "http-request-smuggler",
        "the value after a vertical tab in a new line",
        b"Transfer-Encoding: \n\x0bchunked\r\n" + _CHUNKS,
    ),
    ("CVE-2022-32214 (Node.js)", "a field after a line feed", b"a: b\n" + _TE + _CHUNKS),
    ("CVE-2023-30589 (Node.js)", "a field after a carriage return", b"a: b\r" + _TE + _CHUNKS),
    ("CVE-2023-30589 (Node.js)", "an empty field, a carriage return, another field", b"a:\r" + _TE + _CHUNKS),
    ("llhttp", "an empty field, a line feed, another field", b"a:\n" + _TE + _CHUNKS),
    ("CVE-2019-16785 (Waitress)", "lines that end in line feeds", b"a: b\nContent-Length: 3\n\r\nabc"),
    ("llhttp", "lines that end in carriage returns", b"a: b\rContent-Length: 3\r\r\n\r\nabc"),
    ("RFC 9112", "a line feed before the end of a line", b"Content-Length: 3\n\r\n\r\nabc"),
    ("smuggler", "a carriage return before the end of a line", b"Transfer-Encoding: chunked\r\r\n" + _CHUNKS),
    ("http-request-smuggler", "a carriage return at the begin of a line", b"a: b\r\n\r" + _TE + _CHUNKS),
    ("smuggler", "a carriage return in a name", b"Tra\rnsfer-Encoding: chunked\r\n" + _CHUNKS),
    ("llhttp", "a carriage return instead of the dash", b"Content\rLength: 3\r\n\r\nabc"),
    (
        "CVE-2025-23167 (Node.js)",
        "a carriage return and a letter end the head",
        b"a: b\r\n\rZGET /evil: HTTP/1.1\r\na: b\r\n\r\n",
    ),
    ("llhttp", "a carriage return before the body", b"Content-Length: 3\r\n\rabc\r\n\r\n"),
    ("http-request-smuggler", "two line feeds end the head", b"a: b\n\n" + _LENGTH + b"\r\nabc"),
    ("http-request-smuggler", "a line feed and a line end", b"a: b\n\r\n" + _LENGTH + b"\r\nabc"),
    ("http-request-smuggler", "a line end and a line feed", b"a: b\r\n\n" + _LENGTH + b"\r\nabc"),
    ("CVE-2023-25725 (HAProxy)", "a field without a name", b": a\r\n" + _LENGTH + b"\r\nabc"),
    ("HTTP Garden", "a field without a name and a value", b":\r\n" + _LENGTH + b"\r\nabc"),
    ("HTTP Garden", "a line without a colon", b"abc\r\n" + _LENGTH + b"\r\nabc"),
    ("http-request-smuggler", "a malformed field before framing", b"a b: \r\n" + _LENGTH + b"\r\nabc"),
    ("llhttp", "a character that no name has", b"Fo@: a\r\n\r\n"),
    ("RFC 9112", "a name in brackets", b"(a): b\r\n\r\n"),
    ("RFC 9112", "a name in quotes", b'"Content-Length": 3\r\n\r\nabc'),
    ("HTTP Garden", "zero in a value", b"a: b\x00c\r\n\r\n"),
    ("HTTP Garden", "zero in a name", b"a\x00: b\r\n\r\n"),
    ("HTTP Garden", "zero and a carriage return in a value", b"a: b\x00\rc\r\n\r\n"),
    ("llhttp", "a form feed in a value", b"a: b\x0cc\r\n\r\n"),
    ("h11", "a control character in a cookie", b"Set-Cookie: a=b\x01c\r\n\r\n"),
    ("HTTP Garden", "a name beyond ASCII", b"\xefoo: a\r\n\r\n"),
    ("http-request-smuggler", "a name with a soft hyphen", b"Content\xadLength: 3\r\n\r\nabc"),
]
_MALFORMED_LINES = [Refused(*each) for each in _LINES]

# --- Chunked bodies ---

_BODIES: Iterable[tuple[str, str, bytes]] = [
    ("HTTP Garden", "an empty size", b"\r\n\r\n"),
    ("CVE-2022-24761 (Waitress)", "a size with a prefix", b"0x3\r\nabc\r\n0\r\n\r\n"),
    ("CVE-2022-24801 (Twisted)", "a size with a plus", b"+3\r\nabc\r\n0\r\n\r\n"),
    ("CVE-2022-24801 (Twisted)", "a size with a minus", b"-3\r\nabc\r\n0\r\n\r\n"),
    ("HTTP Garden", "minus zero and a prefix", b"-0x0\r\n\r\n"),
    ("HTTP Garden", "a size with an underscore", b"0_3\r\nabc\r\n0\r\n\r\n"),
    ("HTTP Garden", "a size and other letters", b"3xyz\r\nabc\r\n0\r\n\r\n"),
    ("HTTP Garden", "a size after spaces", b"    3\r\nabc\r\n0\r\n\r\n"),
    ("llhttp", "a size before spaces", b"3  \r\nabc\r\n0\r\n\r\n"),
    ("llhttp", "a size and a word", b"3 erf\r\nabc\r\n0\r\n\r\n"),
    ("h11", "a size with zero", b"3\x00\r\nabc\r\n0\r\n\r\n"),
    ("RFC 9112", "a size in brackets", b"(3)\r\nabc\r\n0\r\n\r\n"),
    ("RFC 9112", "a size that is a fraction", b"3.0\r\nabc\r\n0\r\n\r\n"),
    ("RFC 9112", "3 after it has overflown 64 bits", b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("h11", "a size of 100 digits", 100 * b"9" + b"\r\nabc\r\n"),
    ("RFC 9112", "a size of more than 60 bits", b"1000000000000000\r\nabc\r\n"),
    ("CVE-2025-43859 (h11)", "two other bytes after the data", b"3\r\nabc__1a\r\n0\r\n\r\n"),
    ("h11", "another byte after the carriage return", b"3\r\nabc\r_0\r\n\r\n"),
    ("h11", "another byte before the line feed", b"3\r\nabc_\n0\r\n\r\n"),
    ("llhttp", "no line end after the data", b"3\r\nabc0\r\n\r\n"),
    ("Http11Probe", "data longer than its size", b"3\r\nabcd\r\n0\r\n\r\n"),
    ("Http11Probe", "data shorter than its size", b"5\r\nabc\r\n0\r\n\r\n"),
    ("HTTP Garden", "a line feed after the data", b"3\r\nabc\n0\r\n\r\n"),
    ("HTTP Garden", "a carriage return after the data", b"3\r\nabc\r0\r\n\r\n"),
    ("CVE-2022-24801 (Twisted)", "a line feed after the size", b"3\nabc\r\n0\r\n\r\n"),
    ("CVE-2021-22960 (Node.js)", "a carriage return after the size", b"3\rabc\r\n0\r\n\r\n"),
    ("llhttp", "two carriage returns in the line of the size", b"5\r\r;ABCD\r\n34\r\nE\r\n0\r\n\r\n"),
    ("RFC 9112", "an empty line before the size", b"\r\n3\r\nabc\r\n0\r\n\r\n"),
    ("HTTP Garden", "an empty line before the last chunk", b"3\r\nabc\r\n\r\n0\r\n\r\n"),
    ("funky chunks: TERM.EXT", "a line feed in an extension", b"2;\nxx\r\n45\r\n0\r\n\r\n"),
    ("funky chunks: EXT.TERM", "a line feed after an extension", b"2;a\nxx\r\n2\r\nyy\r\n0\r\n\r\n"),
    ("funky chunks: ONE.TWO", "a line end of one byte after the data", b"5\r\nabcdeX2\r\nyy\r\n0\r\n\r\n"),
    ("funky chunks: TWO.ONE", "a line feed after the data, and a longer size", b"2\r\nab\n32\r\nyy\r\n0\r\n\r\n"),
    ("HTTP Garden", "two carriage returns in an extension", b"3;a=b\r\rX\r\nabc\r\n0\r\n\r\n"),
    ("CVE-2024-52304 (aiohttp)", "a line feed before the end of the line", b"3;a\n\r\nabc\r\n0\r\n\r\n"),
    ("Http11Probe", "zero in an extension", b"3;\x00a\r\nabc\r\n0\r\n\r\n"),
    ("CVE-2021-22960 (Node.js)", "a control character in an extension", b"3;a\x01b\r\nabc\r\n0\r\n\r\n"),
    ("Http11Probe", "a semicolon alone", b"3;\r\nabc\r\n0\r\n\r\n"),
    ("RFC 9112", "an extension without a name", b"3;=a\r\nabc\r\n0\r\n\r\n"),
    ("RFC 9112", "an extension without a value", b"3;a=\r\nabc\r\n0\r\n\r\n"),
    ("Http11Probe", "an extension that is no token", b"3;a[b\r\nabc\r\n0\r\n\r\n"),
    ("llhttp", "a quote that does not end", b'3;a="b;c\r\nabc\r\n0\r\n\r\n'),
    ("funky chunks: quoted", "a quote that ends in the next line", b'1;a="\r\nX\r\n0\r\n\r\n"\r\nY\r\n0\r\n\r\n'),
    ("funky chunks: quoted", "a quote that ends after a backslash", b'3;a="b\\"\r\nabc\r\n0\r\n\r\n'),
    ("llhttp", "a word after a quote", b'3;a="b"c\r\nabc\r\n0\r\n\r\n'),
    ("CVE-2024-22019 (Node.js)", "an extension of 5,000 bytes", b"3;" + 5000 * b"a" + b"\r\nabc\r\n0\r\n\r\n"),
    ("CVE-2025-53643 (aiohttp)", "a request instead of a trailer", b"0\r\nGET /hidden HTTP/1.1\r\na: b\r\n\r\n"),
    ("Http11Probe", "a line feed after a trailer", b"0\r\na: b\n\r\n"),
    ("RFC 9112", "a line feed after the last chunk", b"0\n\r\n"),
    ("RFC 9112", "a carriage return after the last chunk", b"0\r\r\n\r\n"),
    ("HTTP Garden", "another byte in the last line end", b"0\r\n\rX\r\n\r\n"),
    ("RFC 9112", "a folded trailer", b"0\r\na: b\r\n c\r\n\r\n"),
    ("RFC 9112", "a trailer with a space before its colon", b"0\r\na : b\r\n\r\n"),
    ("RFC 9112", "a trailer with a carriage return", b"0\r\na: b\rContent-Length: 3\r\n\r\n"),
    ("RFC 9112", "a trailer with zero", b"0\r\na: b\x00\r\n\r\n"),
    ("RFC 9112", "a trailer without a name", b"0\r\n: b\r\n\r\n"),
    ("RFC 9112", "a trailer of 5,000 bytes", b"0\r\na: " + 5000 * b"b" + b"\r\n\r\n"),
    ("CVE-2023-40175 (Puma)", "trailers of 80,000 bytes", b"0\r\n" + 20 * (b"a: " + 4000 * b"b" + b"\r\n") + b"\r\n"),
]
_MALFORMED_BODIES = [Refused(origin, f"chunks: {trick}", _CHUNKED + body) for origin, trick, body in _BODIES]
_STRAY_BYTES_IN_CHUNKS = [
    Refused("HTTP Garden", f"chunks: {byte:#04x} {where} the size", _CHUNKED + line + b"\r\nabc\r\n0\r\n\r\n")
    for byte in range(0x100)
    if chr(byte) not in "0123456789abcdefABCDEF"
    for where, line in [("before", bytes([byte]) + b"3"), ("after", b"3" + bytes([byte])), ("amid", b"0%c3" % byte)]
    if (byte, where) != (ord(";"), "amid")  # that is an extension
]

REFUSED: list[Refused] = [
    *_TWO_FRAMINGS,
    *_MALFORMED_LENGTHS,
    *_MALFORMED_CODINGS,
    *_STRAY_BYTES,
    *_MALFORMED_LINES,
    *_MALFORMED_BODIES,
    *_STRAY_BYTES_IN_CHUNKS,
]
"""What follows the first line of a message that must be refused, in both roles."""

# --- What looks like a trick, and has one reading ---

ACCEPTED: list[Tail] = [
    Tail("RFC 9112", "a length", _LENGTH + b"\r\nabc", b"abc"),
    Tail("llhttp", "spaces around a length", b"Content-Length:  3 \r\n\r\nabc", b"abc"),
    Tail("llhttp", "tabs around a length", b"Content-Length:\t3\t  \r\n\r\nabc", b"abc"),
    Tail("llhttp", "a name in both cases", b"conTENT-Length: 5\r\n\r\nHELLO", b"HELLO"),
    Tail("smuggler", "no space after the colon", b"Transfer-Encoding:chunked\r\n" + _CHUNKS, b"abc"),
    Tail("smuggler", "two spaces before the value", b"Transfer-Encoding:  chunked\r\n" + _CHUNKS, b"abc"),
    Tail("smuggler", "a tab before the value", b"Transfer-Encoding:\tchunked\r\n" + _CHUNKS, b"abc"),
    Tail("smuggler", "capitals", b"TRANSFER-ENCODING: CHUNKED\r\n" + _CHUNKS, b"abc"),
    Tail("smuggler", "letters in both cases", b"TrAnSFer-EnCODinG: cHuNkeD\r\n" + _CHUNKS, b"abc"),
    Tail(
        "http-request-smuggler",
        "framing named as an option",
        b"Connection: Transfer-Encoding\r\n" + _TE + _CHUNKS,
        b"abc",
    ),
    Tail(
        "http-request-smuggler",
        "a length named as an option",
        b"Connection: Content-Length\r\n" + _LENGTH + b"\r\nabc",
        b"abc",
    ),
    Tail(
        "smuggler", "underscores are part of another name", _LENGTH + b"Transfer_Encoding: chunked\r\n\r\nabc", b"abc"
    ),
    Tail(
        "http-request-smuggler",
        "a percent sign is part of another name",
        _LENGTH + b"Transfer-%45ncoding: chunked\r\n\r\nabc",
        b"abc",
    ),
    Tail(
        "smuggler", "the coding of the content is no framing", _LENGTH + b"Content-Encoding: chunked\r\n\r\nabc", b"abc"
    ),
    Tail("llhttp", "another name that begins alike", b"Content-Length-X: 0\r\n" + _TE + _CHUNKS, b"abc"),
    Tail(
        "HTTP Garden",
        "what follows the body",
        _LENGTH + b"\r\nabcGET /hidden HTTP/1.1\r\n",
        b"abc",
        b"GET /hidden HTTP/1.1\r\n",
    ),
    Tail("HTTP Garden", "what follows the chunks", _TE + _CHUNKS + b"X", b"abc", b"X"),
    Tail("llhttp", "three zeros are the last chunk", _CHUNKED + b"3\r\nabc\r\n000\r\n\r\n", b"abc"),
    Tail("h11", "sizes in both cases", _CHUNKED + b"aA\r\n" + 0xAA * b"x" + b"\r\n0\r\n\r\n", 0xAA * b"x"),
    Tail("Http11Probe", "zeros before a size", _CHUNKED + b"0003\r\nabc\r\n0\r\n\r\n", b"abc"),
    Tail("HTTP Garden", "a line end in the data", _CHUNKED + b"7\r\n0\r\n\r\nGE\r\n0\r\n\r\n", b"0\r\n\r\nGE"),
    Tail("llhttp", "extensions", _CHUNKED + b"3;a;b=c;d=e\r\nabc\r\n0;f\r\n\r\n", b"abc"),
    Tail("llhttp", "quoted extensions", _CHUNKED + b'3;a="b; \\"c\\\\";d="e"\r\nabc\r\n0\r\n\r\n', b"abc"),
    Tail("h11", "spaces around a semicolon", _CHUNKED + b"3 ; a = b\r\nabc\r\n0\r\n\r\n", b"abc"),
    Tail("funky chunks", "a size in an extension", _CHUNKED + b"3;5\r\nabc\r\n0\r\n\r\n", b"abc"),
    Tail("llhttp", "trailers are dropped", _CHUNKED + b"3\r\nabc\r\n0\r\nVary: *\r\na: b\r\n\r\n", b"abc"),
    Tail(
        "Http11Probe",
        "a length as a trailer is dropped",
        _CHUNKED + b"3\r\nabc\r\n0\r\n" + _LENGTH + b"\r\nxyz",
        b"abc",
        b"xyz",
    ),
    Tail("Http11Probe", "a coding as a trailer is dropped", _CHUNKED + b"0\r\n" + _TE + b"\r\n", b""),
    Tail("Http11Probe", "a host as a trailer is dropped", _CHUNKED + b"0\r\nHost: other.test\r\n\r\n", b""),
    Tail("HTTP Garden", "a first line as a trailer is dropped", _CHUNKED + b"0\r\nX:POST / HTTP/1.1\r\n\r\n", b""),
    Tail("CVE-2023-40175 (Puma)", "what follows trailers", _CHUNKED + b"0\r\na: b\r\n\r\nGET /", b"", b"GET /"),
]
"""What follows the first line of a message that has one reading, in both roles."""
