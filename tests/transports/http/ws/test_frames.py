"""Frames of WebSockets: what the reader takes and refuses, at once and byte by byte, and what the writer writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.frame_protocol import FrameProtocol, Opcode, ParseFailed

from trio_mcp.transports.http.ws import (
    Close,
    CloseCode,
    FrameReader,
    WebSocketError,
    accept_token,
    close_frame,
    ping_frame,
    pong_frame,
    text_frames,
)

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
LENGTHS = [0, 1, 125, 126, 127, 65_535, 65_536, 200_001]
ROLES = pytest.mark.parametrize("masked", [False, True], ids=["of a server", "of a client"])


def frame(
    opcode: int, payload: bytes = b"", *, fin: bool = True, masked: bool = False, reserved: int = 0, size: int = 0
) -> bytes:
    """Return a frame, byte by byte by the specification; *size* is the number of bytes of a longer form of length."""
    length = len(payload)
    size = size or (1 if length < 126 else 3 if length < 2**16 else 9)
    head = bytes([(0x80 if fin else 0) | reserved | opcode])
    second = length if size == 1 else 126 if size == 3 else 127
    head += bytes([(0x80 if masked else 0) | second]) + (b"" if size == 1 else length.to_bytes(size - 1, "big"))
    if not masked:
        return head + payload
    key = b"\x01\x82\x43\xf4"
    return head + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))


def one_by_one(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@frozen
class Found:
    """What a reader has found in some bytes."""

    text: bytes
    pings: Sequence[bytes]
    close: Close | None
    code: int | None
    """The close code of the fault; None without one."""

    @property
    def messages(self) -> list[bytes]:
        """The messages that have arrived whole."""
        return self.text.split(b"\n")[:-1]


def read(pieces: Iterable[bytes], *, masked: bool = False) -> Found:
    reader, text, pings = FrameReader(masked=masked), b"", list[bytes]()
    for piece in pieces:
        text += reader.feed(piece)
        ping = reader.take_ping()
        if ping is not None:
            pings.append(ping)
    return Found(text, pings, reader.close, None if reader.fault is None else reader.fault.code)


def both_ways(data: bytes, *, masked: bool = False) -> Found:
    """Read bytes one by one, and check that they are the same at once."""
    found, at_once = read(one_by_one(data), masked=masked), read([data], masked=masked)
    assert (at_once.messages, at_once.close, at_once.code) == (found.messages, found.close, found.code)
    assert at_once.pings == found.pings[-1:]
    return found


# --- Messages ---


@ROLES
@pytest.mark.parametrize("length", LENGTHS)
def test_a_message_of_any_length_is_a_line(length: int, masked: bool) -> None:
    payload = (b"0123456789" * (length // 10 + 1))[:length]
    data = frame(TEXT, payload, masked=masked)

    assert read([data], masked=masked) == Found(payload + b"\n", [], None, None)
    assert read([data[:-1], data[-1:]], masked=masked).text == payload + b"\n"
    if length < 1000:
        assert both_ways(data * 2, masked=masked).messages == [payload, payload]


@ROLES
def test_the_mask_goes_on_over_any_parts_of_a_frame(masked: bool) -> None:
    payload = bytes(range(48, 120))
    data = frame(TEXT, payload, masked=masked)
    for first in range(1, len(data)):
        for second in range(first, len(data), 7):
            pieces = [data[:first], data[first:second], data[second:]]
            assert read(pieces, masked=masked).text == payload + b"\n"


def test_the_parts_of_a_message_are_passed_on_as_they_arrive() -> None:
    reader = FrameReader(masked=False)

    assert reader.feed(frame(TEXT, b"abc", fin=False) + frame(CONTINUATION, b"def")[:4]) == b"abcde"
    assert reader.feed(b"f") == b"f\n"


@ROLES
def test_a_message_may_have_many_frames_with_control_frames_between(masked: bool) -> None:
    data = b"".join(
        [
            frame(TEXT, b"a", fin=False, masked=masked),
            frame(PING, b"one", masked=masked),
            frame(CONTINUATION, b"", fin=False, masked=masked),
            frame(PONG, b"x" * 125, masked=masked),
            frame(CONTINUATION, b"b", fin=False, masked=masked),
            frame(PING, b"", masked=masked),
            frame(CONTINUATION, b"", masked=masked),
            frame(TEXT, b"c", masked=masked),
        ]
    )

    assert both_ways(data, masked=masked) == Found(b"ab\nc\n", [b"one", b""], None, None)


def test_line_breaks_are_whitespace_that_does_not_end_a_line() -> None:
    assert read([frame(TEXT, b"[1,\n2]\r\n")]).text == b"[1,\r2]\r\r\n"


def test_an_empty_message_is_an_empty_line() -> None:
    assert read([frame(TEXT) + frame(TEXT, fin=False) + frame(CONTINUATION)]).text == b"\n\n"


def test_the_latest_ping_is_taken_once() -> None:
    reader = FrameReader(masked=False)
    reader.feed(frame(PING, b"1") + frame(PING, b"2"))

    assert reader.take_ping() == b"2"
    assert reader.take_ping() is None


def test_a_pong_is_ignored() -> None:
    assert both_ways(frame(PONG, b"x") + frame(PONG)) == Found(b"", [], None, None)


# --- Text ---

WIDE = "aé€\U0001f600"


@pytest.mark.parametrize("text", [WIDE, "é", "\ufffe\U0010ffff", "\x00\x7f"])
def test_a_character_may_be_split_over_frames_and_reads(text: str) -> None:
    encoded = text.encode()
    for cut in range(len(encoded) + 1):
        data = frame(TEXT, encoded[:cut], fin=False) + frame(PING) + frame(CONTINUATION, encoded[cut:])
        found = both_ways(data + frame(TEXT, b"ascii"))
        assert (found.messages, found.code) == ([encoded, b"ascii"], None)


@pytest.mark.parametrize(
    "wrong", [b"\x80", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82x", b"\xe2\x28\xa1"]
)
def test_text_that_is_not_utf8_is_a_fault_after_the_messages_before_it(wrong: bytes) -> None:
    for cut in range(len(wrong) + 1):
        parts = frame(TEXT, wrong[:cut], fin=False) + frame(CONTINUATION, wrong[cut:])
        found = both_ways(frame(TEXT, b"first") + parts + frame(TEXT, b"after"))
        assert (found.messages, found.code) == ([b"first"], CloseCode.INVALID_TEXT)


@pytest.mark.parametrize("text", ["é", "€", "\U0001f600"])
def test_a_message_that_ends_within_a_character_is_a_fault(text: str) -> None:
    encoded = text.encode()
    for size in range(1, len(encoded)):
        found = both_ways(frame(TEXT, encoded[:size]) + frame(TEXT, encoded[size:]))
        assert (found.messages, found.code) == ([], CloseCode.INVALID_TEXT)
        found = both_ways(frame(TEXT, encoded[:size], fin=False) + frame(CONTINUATION))
        assert (found.messages, found.code) == ([], CloseCode.INVALID_TEXT)


# --- Faults ---


@ROLES
@pytest.mark.parametrize("opcode", range(16))
def test_each_opcode_is_known_or_a_fault(opcode: int, masked: bool) -> None:
    codes = dict.fromkeys(range(16), CloseCode.PROTOCOL_ERROR) | {BINARY: CloseCode.UNSUPPORTED_DATA}
    expected = None if opcode in {TEXT, CLOSE, PING, PONG} else codes[opcode]

    assert both_ways(frame(opcode, masked=masked), masked=masked).code == expected


@pytest.mark.parametrize(
    "data",
    [
        frame(TEXT, b"a", reserved=0x40),
        frame(TEXT, b"a", reserved=0x20),
        frame(CONTINUATION, b"a", reserved=0x10),
        frame(PING, b"a", reserved=0x40),
        frame(TEXT, b"a", masked=True),
        frame(PING, b"a", masked=True),
        frame(CONTINUATION, b"a"),
        frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"),
        frame(PING, b"a", fin=False),
        frame(PONG, fin=False),
        frame(CLOSE, fin=False),
        frame(PING, b"x" * 126),
        frame(CLOSE, b"x" * 65_536),
        frame(TEXT, b"x" * 125, size=3),
        frame(TEXT, b"", size=3),
        frame(TEXT, b"x" * 65_535, size=9),
        b"\x81\x7f" + (2**63).to_bytes(8, "big"),
    ],
)
def test_what_breaks_the_protocol_is_a_fault_after_the_messages_before_it(data: bytes) -> None:
    found = read([frame(TEXT, b"first") + data + frame(TEXT, b"after")])
    assert found.messages == [b"first"]
    assert found.code == CloseCode.PROTOCOL_ERROR
    found = read(one_by_one(frame(TEXT, b"first") + data[:300]))
    assert (found.messages, found.code) == ([b"first"], CloseCode.PROTOCOL_ERROR)


def test_frames_of_a_client_have_to_be_masked() -> None:
    assert both_ways(frame(TEXT, b"a"), masked=True).code == CloseCode.PROTOCOL_ERROR


def test_a_length_is_a_fault_before_the_frame_has_arrived() -> None:
    assert read([frame(TEXT, b"x" * 65_536)[:10]]).code is None
    assert read([b"\x89\x7e"]).code == CloseCode.PROTOCOL_ERROR
    assert read([b"\x81\x7e\x00\x7d"]).code == CloseCode.PROTOCOL_ERROR


def test_a_binary_message_has_a_code_of_its_own_even_within_another_message() -> None:
    assert both_ways(frame(BINARY, b"a")).code == CloseCode.UNSUPPORTED_DATA
    assert both_ways(frame(TEXT, b"a", fin=False) + frame(BINARY, b"a")).code == CloseCode.UNSUPPORTED_DATA


def test_nothing_is_read_after_a_fault() -> None:
    reader = FrameReader(masked=False)
    reader.feed(b"\xff\x00")
    fault = reader.fault

    assert isinstance(fault, WebSocketError)
    assert reader.feed(frame(TEXT, b"a") + frame(CLOSE)) == b""
    assert (reader.fault, reader.close) == (fault, None)


# --- Closes ---


def test_a_close_has_a_code_and_a_reason_or_neither() -> None:
    assert both_ways(frame(CLOSE)).close == Close(1005)
    assert both_ways(frame(CLOSE, b"\x03\xe8")).close == Close(1000)
    assert both_ways(frame(CLOSE, b"\x03\xe9" + "é".encode())).close == Close(1001, "é")


VALID_CODES = {*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)}


def test_exactly_the_codes_that_may_be_sent_are_accepted() -> None:
    codes = {code for code in range(2**16) if read([frame(CLOSE, code.to_bytes(2, "big"))]).close is not None}

    assert codes == VALID_CODES


@pytest.mark.parametrize(
    ("payload", "code"),
    [(b"\x03", 1002), (b"\x00\x00", 1002), (b"\x03\xed", 1002), (b"\x03\xe8\xff", 1007), (b"\x03\xe8\xc3", 1007)],
)
def test_a_malformed_close_is_a_fault(payload: bytes, code: int) -> None:
    found = both_ways(frame(TEXT, b"a") + frame(CLOSE, payload))
    assert (found.messages, found.close, found.code) == ([b"a"], None, code)


def test_nothing_is_read_after_a_close() -> None:
    reader = FrameReader(masked=False)

    assert reader.feed(frame(TEXT, b"a") + frame(CLOSE) + frame(TEXT, b"b") + b"\xff\xff") == b"a\n"
    assert reader.feed(frame(TEXT, b"c")) == b""
    assert (reader.close, reader.fault) == (Close(1005), None)


def test_a_close_may_come_within_a_message() -> None:
    found = both_ways(frame(TEXT, b"a", fin=False) + frame(CLOSE))
    assert (found.text, found.close, found.code) == (b"a", Close(1005), None)


# --- Writing ---


def test_the_token_is_that_of_the_example_of_the_specification() -> None:
    assert accept_token("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@ROLES
@pytest.mark.parametrize("length", LENGTHS)
def test_the_reader_reads_what_the_writer_writes(length: int, masked: bool) -> None:
    line = (b"0123456789" * (length // 10 + 1))[:length]

    assert read([text_frames([line, b"x"], masks=masked)], masked=masked).messages == [line, b"x"]


def test_frames_of_a_server_are_written_byte_by_byte_as_specified() -> None:
    assert text_frames([b"a" * 125, b"b" * 126, b"c" * 65_536], masks=False) == b"".join(
        frame(TEXT, payload) for payload in (b"a" * 125, b"b" * 126, b"c" * 65_536)
    )
    assert text_frames([], masks=False) == b""
    assert ping_frame(masks=False) == frame(PING)
    assert pong_frame(b"x", masks=False) == frame(PONG, b"x")
    assert close_frame(Close(1001, "é"), masks=False) == frame(CLOSE, b"\x03\xe9\xc3\xa9")
    assert close_frame(Close(1005, "never sent"), masks=False) == frame(CLOSE)


def test_each_frame_of_a_client_has_a_mask_of_its_own() -> None:
    keys = {ping_frame(masks=True)[2:] for _ in range(10)}

    assert len(keys) > 1


def test_a_long_reason_is_cut_between_characters() -> None:
    closed = read([close_frame(Close(1000, "€" * 100), masks=False)]).close

    assert closed == Close(1000, "€" * 41)


# --- A second opinion: wsproto ---

# Legitimate differences, which the comparison takes into account:
#
# 1. wsproto takes binary messages. This package refuses them with the code 1003, even within another message.
# 2. wsproto refuses a close with the code 1014, which was registered after it was written.
# 3. wsproto refuses a control frame for its head, and this package when the frame has arrived whole. So the faults are
#    compared only at the end of a stream of whole frames.
# 4. wsproto passes on the characters of a message, and this package the bytes, so only whole messages are compared.
BAD_GATEWAY = 1014


def read_with_wsproto(data: bytes, *, masked: bool) -> Found:
    """Do what `read` does, with wsproto."""
    protocol = FrameProtocol(client=not masked, extensions=[])
    text, pings = "", list[bytes]()
    close: Close | None = None
    code: int | None = None
    protocol.receive_bytes(data)
    try:
        for each in protocol.received_frames():
            match each.opcode, each.payload:
                case Opcode.TEXT, str(part):
                    text += part.replace("\n", "\r") + ("\n" if each.message_finished else "")
                case Opcode.PING, bytes(payload):
                    pings.append(payload)
                case Opcode.CLOSE, (number, reason):
                    close = Close(int(number), str(reason))
                case Opcode.BINARY, _:
                    code = CloseCode.UNSUPPORTED_DATA  # difference 1
                    break
                case _:
                    assert each.opcode is Opcode.PONG
    except ParseFailed as error:
        code = int(error.code)
    return Found(text.encode(), pings[-1:], close, code)


PAYLOADS = st.one_of(
    st.text(max_size=8).map(str.encode),
    st.binary(max_size=8),
    st.sampled_from([b"x" * 125, b"y" * 126, b"z" * 130, "€".encode()[:2], "€".encode()[2:], b"\n"]),
    st.integers(990, 5010).map(lambda code: code.to_bytes(2, "big") + b"why"),
)
USUAL = st.sampled_from([TEXT, TEXT, CONTINUATION, CONTINUATION, PING, PONG])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, bool]:
    """Draw whole frames, most of which are valid, and their direction."""
    masked, frames = draw(st.booleans()), list[bytes]()
    is_in_message = False
    for _ in range(draw(st.integers(0, 8))):
        is_usual = draw(st.integers(0, 9)) > 0
        opcode = draw(USUAL if is_usual else st.integers(0, 15))
        if is_usual and opcode in {TEXT, CONTINUATION}:
            opcode = CONTINUATION if is_in_message else TEXT
        payload = draw(PAYLOADS)
        fin = draw(st.booleans()) if opcode < CLOSE or not is_usual else True
        size = draw(st.sampled_from([0, 0, 0, 0, 0, 0, 3, 9])) if not is_usual else 0
        reserved = draw(st.sampled_from([0, 0, 0, 0x40])) if not is_usual else 0
        frames.append(frame(opcode, payload, fin=fin, masked=masked, size=size, reserved=reserved))
        if opcode in {TEXT, CONTINUATION}:
            is_in_message = not fin
    if draw(st.integers(0, 9)) == 0:
        frames.append(frame(CLOSE, draw(PAYLOADS)[:125], masked=masked))
    return b"".join(frames), masked


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    ends = [*sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(streams(), st.lists(st.integers(0, 2**16), max_size=12))
def test_wsproto_reads_the_same(stream: tuple[bytes, bool], places: list[int]) -> None:
    data, masked = stream
    ours, theirs = read(cut(data, places), masked=masked), read_with_wsproto(data, masked=masked)

    assert ours.messages == theirs.messages
    assert ours.pings[-1:] == theirs.pings
    if ours.close is not None and ours.close.code == BAD_GATEWAY:  # difference 2
        assert theirs.code == CloseCode.PROTOCOL_ERROR
        return
    assert ours.close == theirs.close
    if ours.code == CloseCode.UNSUPPORTED_DATA:  # difference 1
        assert theirs.code is not None
    else:
        assert ours.code == theirs.code


def read_events(data: bytes, *, masked: bool) -> list[Event]:
    connection = Connection(ConnectionType.SERVER if masked else ConnectionType.CLIENT)
    connection.receive_data(data)
    return list(connection.events())


@ROLES
@given(lines=st.lists(st.text().map(lambda text: text.replace("\n", " ")), max_size=5), payload=st.binary(max_size=125))
def test_wsproto_reads_what_the_writer_writes(lines: list[str], payload: bytes, masked: bool) -> None:
    data = text_frames([line.encode() for line in lines], masks=masked)
    data += ping_frame(masks=masked) + pong_frame(payload, masks=masked)
    data += close_frame(Close(3000, "why"), masks=masked)

    assert read_events(data, masked=masked) == [
        *map(TextMessage, lines),
        Ping(b""),
        Pong(payload),
        CloseConnection(3000, "why"),
    ]


@ROLES
@pytest.mark.parametrize("length", LENGTHS)
def test_wsproto_reads_messages_of_any_length(length: int, masked: bool) -> None:
    (event,) = read_events(text_frames([b"x" * length], masks=masked), masked=masked)

    assert event == TextMessage("x" * length)
