"""Other readers of HTTP/1.1, to compare with ours: h11, and llhttp as strict and as lenient as it can be.

A message that ours accepts must not be read otherwise by any of them: another head, another body, or another end, from
which it would read another message. A reader may refuse it, because then nothing is smuggled past it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import h11
import httptools

__all__ = ["Message", "Role", "assert_read_alike", "understood"]

Role = Literal["request", "response"]

_LENIENT = (
    *(
        "lenient_headers",
        "lenient_chunked_length",
        "lenient_keep_alive",
        "lenient_transfer_encoding",
        "lenient_version",
    ),
    *("lenient_data_after_close", "lenient_optional_lf_after_cr", "lenient_optional_cr_before_lf"),
    *("lenient_optional_crlf_after_chunk", "lenient_spaces_after_chunk_size"),
)
_WHOLE_URL = re.compile(r"(?i:https?)://([^/?]+)(.*)")


class Message(NamedTuple):
    """A message as a reader has understood it, as far as it has arrived."""

    first: tuple[str, str] | int | None
    """The method and the target, or the status; None before the head has arrived."""
    fields: Sequence[tuple[str, str]]
    body: bytes
    end: int | None
    """The number of its bytes; None if more must arrive."""
    goes_on: bool
    """True if another message may follow; False before the head has arrived."""


def assert_read_alike(role: Role, stream: bytes, ours: Message, *, has_body: bool = True) -> None:
    """Assert that no other reader reads another message at the begin of *stream*.

    Args:
        role: the kind of the message.
        stream: the bytes from the begin of the message on.
        ours: the message that our reader has accepted.
        has_body: False if it is the response to a HEAD.
    """
    # h11 does not know how HTTP/1.0 can go on, and llhttp takes Proxy-Connection for Connection.
    may_close = b"HTTP/1.0" in stream[: ours.end] or any(name == "proxy-connection" for name, _ in ours.fields)
    for name, read in _readers(role, stream, ours, has_body=has_body):
        theirs = read()
        if theirs is None:
            continue
        assert theirs[:4] == ours[:4], f"{name} reads another message: {theirs}, and not {ours}"
        assert theirs.goes_on or not ours.goes_on or may_close, f"{name} reads no message after {ours}"


def _readers(
    role: Role, stream: bytes, ours: Message, *, has_body: bool
) -> Iterator[tuple[str, Callable[[], Message | None]]]:
    yield "h11", lambda: _H11(role, stream, has_body=has_body).read()
    if has_body:  # httptools has no way to say that a response has none
        yield "llhttp", lambda: _Llhttp(role, is_lenient=False).read(stream, ours.end)
        yield "lenient llhttp", lambda: _Llhttp(role, is_lenient=True).read(stream, ours.end)


def understood(fields: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the fields with the transfer coding in lower case, as h11 writes it."""
    return [(name, value.lower() if name == "transfer-encoding" else value) for name, value in fields]


def _request(
    method: str, target: str, fields: Sequence[tuple[str, str]], body: bytes, end: int | None, *, goes_on: bool
) -> Message:
    """Return a request whose host is that of its target, if the target is a whole URL, as our reader does."""
    url = _WHOLE_URL.fullmatch(target)
    if url is not None:
        fields = [("host", url[1]), *(each for each in fields if each[0] != "host")]
        target = url[2] if url[2].startswith("/") else f"/{url[2]}"
    return Message((method, target), understood(fields), body, end, goes_on=goes_on)


class _H11:
    """Reads one message with h11."""

    def __init__(self, role: Role, stream: bytes, *, has_body: bool) -> None:
        self._connection = h11.Connection(h11.SERVER if role == "request" else h11.CLIENT)
        if role == "response":
            self._connection.send(
                h11.Request(method="GET" if has_body else "HEAD", target="/", headers=[("host", "a")])
            )
            self._connection.send(h11.EndOfMessage())
        self._stream = stream

    def read(self) -> Message | None:
        """Return the message; None if it is refused."""
        connection = self._connection
        connection.receive_data(self._stream)
        head: h11.Request | h11.Response | None = None
        body = b""
        try:
            while True:
                event = connection.next_event()
                if isinstance(event, h11.Request | h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    assert head is not None
                    end = len(self._stream) - len(connection.trailing_data[0])
                    return _h11_message(head, body, end, goes_on=connection.their_state is not h11.MUST_CLOSE)
                elif not isinstance(event, h11.InformationalResponse):
                    assert event is h11.NEED_DATA, event
                    return _h11_message(head, body, None, goes_on=True)
        except h11.RemoteProtocolError:
            return None


def _h11_message(head: h11.Request | h11.Response | None, body: bytes, end: int | None, *, goes_on: bool) -> Message:
    if head is None:
        return Message(None, [], body, end, goes_on=goes_on)
    fields = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
    if isinstance(head, h11.Response):
        return Message(head.status_code, understood(fields), body, end, goes_on=goes_on)
    return _request(head.method.decode(), head.target.decode("latin-1"), fields, body, end, goes_on=goes_on)


class _Llhttp:
    """Reads one message with llhttp; its methods are those that httptools calls."""

    def __init__(self, role: Role, *, is_lenient: bool) -> None:
        self._role = role
        parser: Any = (httptools.HttpRequestParser if role == "request" else httptools.HttpResponseParser)(self)
        if is_lenient:
            parser.set_dangerous_leniencies(**dict.fromkeys(_LENIENT, True))
        self._parser = parser
        self._completed = 0
        self._leaves_http = False
        self._goes_on = False
        self._has_head = False
        self._is_interim = False
        self._target = b""
        self._fields: list[tuple[str, str]] = []
        self._body = b""

    def on_message_begin(self) -> None:
        if not self._completed:
            self._fields, self._has_head = [], False

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else it is a trailer
            self._fields.append((name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")))

    def on_headers_complete(self) -> None:
        self._has_head = True
        self._is_interim = self._role == "response" and self._parser.get_status_code() < 200
        self._goes_on = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if not self._completed:
            self._body += data

    def on_message_complete(self) -> None:
        if not self._is_interim:
            self._completed += 1

    def read(self, stream: bytes, end: int | None) -> Message | None:
        """Return the message; None if it is refused. If it ends elsewhere than at *end*, its end is -1.

        A request with a body that asks for another protocol is not compared. For httptools it has none, as if the
        server had agreed. It has one (RFC 9110, 7.8), and to refuse it would exclude the client of Java, which asks for
        HTTP/2.
        """
        try:
            if end is not None:
                self._feed(stream[: end - 1])
                found = -1 if self._completed else None
                self._feed(stream[end - 1 : end])
                found = end if self._completed and found is None else found
            else:
                self._feed(stream)
                found = -1 if self._completed else None
        except httptools.HttpParserError:
            if not self._completed:
                return None
            found = -1
        if self._leaves_http and found == -1 and any(name == "upgrade" for name, _ in self._fields):
            return None
        if not self._has_head or self._is_interim:
            return Message(None, [], b"", found, goes_on=False)
        if self._role == "response":
            return Message(
                self._parser.get_status_code(), understood(self._fields), self._body, found, goes_on=self._goes_on
            )
        method, target = self._parser.get_method().decode(), self._target.decode("latin-1")
        return _request(method, target, self._fields, self._body, found, goes_on=self._goes_on)

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._leaves_http = True
