"""Tests of request states: every invalid state gets the same error response, and valid states stay valid."""

from __future__ import annotations

import base64
import logging
import math
import random
import string
import time
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.peer.fake_exchange import CONTEXT, FakeExchange, FakePeer
from trio_mcp import McpError, Server
from trio_mcp.peer import Access
from trio_mcp.server.asking import Seals, pin
from trio_mcp.server.asking._asker import BadStateError, binding_of
from trio_mcp.wire import INVALID_PARAMS, JsonObject

KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
PARAMS: JsonObject = {"name": "book", "arguments": {"show": "Hamlet", "seats": [1, 2]}, "_meta": {"a": 1}}
CONTENTS: JsonObject = {"token": "a1b2", "text": "Grüße \U0001f600", "big": 2**70}
MESSAGE = "$.requestState: it is invalid or has expired; send the request again without it"

seals = Seals([KEY])
names = st.text(max_size=5)
arguments = st.dictionaries(names, st.none() | st.booleans() | st.integers() | names, max_size=3)


def incoming(
    method: str = "tools/call", params: JsonObject | None = PARAMS, principal: str | None = None
) -> FakeExchange:
    return FakeExchange(
        method, params, evolve(CONTEXT, access=None if principal is None else Access(principal)), 1, FakePeer()
    )


def sealed(by: Seals = seals, ages: float = 600, **request: Any) -> str:
    return by.seal(CONTENTS, binding_of(pin(incoming(**request))), time.time() + ages)


STATE = sealed(ages=86_400)  # made at import, and still valid at the end of a long test session


def refusal(state: str, by: Seals = seals, **request: Any) -> tuple[int, str, object]:
    """Return the message for the client; check that it is the only one, and that valid states are still valid."""
    with pytest.raises(BadStateError) as caught:
        by.open(state, incoming(**request))
    assert type(caught.value) is BadStateError
    assert seals.open(STATE, incoming()) == CONTENTS
    return caught.value.code, caught.value.message, caught.value.data


THE_REFUSAL = (INVALID_PARAMS, MESSAGE, None)


def test_a_state_opens_for_the_request_it_was_made_for() -> None:
    assert seals.open(STATE, incoming()) == CONTENTS
    attempts: JsonObject = {"_meta": {"b": 2}, "inputResponses": {"a": {}}, "requestState": STATE}
    assert seals.open(STATE, incoming(params=PARAMS | attempts)) == CONTENTS
    assert seals.open(sealed(principal="Ada"), incoming(principal="Ada")) == CONTENTS
    assert seals.open(sealed(params=None), incoming(params={})) == CONTENTS


@pytest.mark.requirement("B.9-S3a")
@given(data=st.data())
@settings(deadline=None)
def test_a_state_with_flipped_bits_is_refused(data: st.DataObject) -> None:
    raw = bytearray(base64.urlsafe_b64decode(STATE))
    for bit in data.draw(st.sets(st.integers(0, len(raw) * 8 - 1), min_size=1, max_size=8)):
        raw[bit // 8] ^= 1 << bit % 8

    assert refusal(base64.urlsafe_b64encode(raw).decode()) == THE_REFUSAL


@given(
    position=st.integers(0, len(STATE) - 1), character=st.sampled_from(string.ascii_letters + string.digits + "-_+/=")
)
@settings(deadline=None)
def test_a_state_with_another_character_is_refused(position: int, character: str) -> None:
    changed = STATE[:position] + character + STATE[position + 1 :]
    if changed != STATE:
        assert refusal(changed) == THE_REFUSAL


@given(start=st.integers(0, len(STATE)), end=st.integers(0, len(STATE)), text=st.text(max_size=4))
@settings(deadline=None)
def test_a_state_with_missing_or_inserted_characters_is_refused(start: int, end: int, text: str) -> None:
    changed = STATE[: min(start, end)] + text + STATE[max(start, end) :]
    if changed != STATE:
        assert refusal(changed) == THE_REFUSAL


@given(length=st.integers(0, len(base64.urlsafe_b64decode(STATE)) - 1))
@settings(deadline=None)
def test_a_state_with_truncated_bytes_is_refused(length: int) -> None:
    raw = base64.urlsafe_b64decode(STATE)[:length]
    assert refusal(base64.urlsafe_b64encode(raw).decode()) == THE_REFUSAL


@given(text=st.text() | st.from_regex(r"[A-Za-z0-9_-]{0,200}={0,2}", fullmatch=True))
@settings(deadline=None)
def test_a_random_string_is_refused(text: str) -> None:
    assert refusal(text) == THE_REFUSAL


@pytest.mark.parametrize("text", ["", "\ud800", "AQ", "AQ==", "\n", f"{STATE}\n", f" {STATE}", f"{STATE}=", "ä" * 80])
def test_strings_that_are_not_a_state_are_refused(text: str) -> None:
    assert refusal(text) == THE_REFUSAL


@given(method=names, name=names, other=arguments, principal=st.none() | names, more=arguments)
@settings(deadline=None)
def test_a_state_of_another_request_is_refused(
    method: str, name: str, other: dict[str, Any], principal: str | None, more: dict[str, Any]
) -> None:
    others: list[dict[str, Any]] = [
        {"method": method},
        {"params": PARAMS | {"name": name}},
        {"params": PARAMS | {"arguments": other}},
        {"params": PARAMS | {"arguments": PARAMS["arguments"] | more}},
        {"params": PARAMS | more},
        {"principal": principal},
        {"params": None},
    ]
    for request in others:
        if binding_of(pin(incoming(**request))) != binding_of(pin(incoming())):
            assert refusal(STATE, **request) == THE_REFUSAL


@pytest.mark.parametrize(
    "params",
    [
        PARAMS | {"arguments": {"show": "Hamlet", "seats": [2, 1]}},
        PARAMS | {"arguments": {"show": "Hamlet", "seats": [1.0, 2]}},
        PARAMS | {"arguments": {"show": "Hamlet", "seats": ["1", "2"]}},
        {"name": "book"},
    ],
)
def test_a_state_holds_only_for_equal_json_arguments(params: JsonObject) -> None:
    assert refusal(STATE, params=params) == THE_REFUSAL


def test_the_order_of_members_does_not_matter() -> None:
    turned = {"arguments": {"seats": [1, 2], "show": "Hamlet"}, "name": "book"}
    assert seals.open(STATE, incoming(params=turned)) == CONTENTS


@given(age=st.floats(0, 10**9))
@settings(deadline=None)
def test_a_state_that_has_expired_is_refused(age: float) -> None:
    assert refusal(sealed(ages=-age)) == THE_REFUSAL


def test_a_state_expires_by_wall_clock_time(monkeypatch: pytest.MonkeyPatch) -> None:
    state, now = sealed(ages=600), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 599)
    assert seals.open(state, incoming()) == CONTENTS
    monkeypatch.setattr(time, "time", lambda: now + 601)
    with pytest.raises(BadStateError):
        seals.open(state, incoming())


def test_a_state_may_never_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    state, now = sealed(ages=math.inf), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10**12)
    assert seals.open(state, incoming()) == CONTENTS


# Keys.


@given(key=st.binary(min_size=16, max_size=64))
@settings(deadline=None)
def test_a_state_of_a_server_with_another_key_is_refused(key: bytes) -> None:
    if key != KEY:
        assert refusal(sealed(by=Seals([key]))) == THE_REFUSAL
        assert refusal(STATE, by=Seals([key])) == THE_REFUSAL


def test_the_first_key_seals_and_all_of_them_open() -> None:
    rotating, after = Seals([OTHER_KEY, KEY]), Seals([OTHER_KEY])

    assert rotating.open(STATE, incoming()) == CONTENTS
    assert after.open(sealed(by=rotating), incoming()) == CONTENTS
    assert refusal(sealed(by=rotating)) == THE_REFUSAL
    assert refusal(STATE, by=after) == THE_REFUSAL


def test_a_server_without_keys_makes_its_own_key() -> None:
    one, other = Server("s")._internals.seals, Server("s")._internals.seals

    assert one.open(sealed(by=one), incoming()) == CONTENTS
    assert refusal(sealed(by=one), by=other) == THE_REFUSAL


def test_a_cursor_is_not_accepted_as_a_state_although_the_keys_are_the_same() -> None:
    parts = Server("s", keys=[KEY])._internals
    assert refusal(parts.cursors.seal("tools/list", 1), by=parts.seals) == THE_REFUSAL
    with pytest.raises(McpError, match="is not a cursor"):
        parts.cursors.read("tools/list", STATE)


# Secrecy.


def test_the_contents_are_encrypted_and_no_two_states_are_equal() -> None:
    raw = base64.urlsafe_b64decode(STATE)
    assert b"a1b2" not in raw
    assert b"token" not in raw
    assert len({sealed() for _ in range(100)}) == 100


CAUSES: dict[str, Callable[[], tuple[int, str, object]]] = {
    "was not made with a key of this server, or was modified": lambda: refusal("nonsense"),
    "belongs to another request or another principal": lambda: refusal(STATE, principal="Mallory"),
    "has expired": lambda: refusal(sealed(ages=-1)),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_of_a_refusal_is_only_in_the_log(cause: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "trio_mcp.server"):
        assert CAUSES[cause]() == THE_REFUSAL

    (message,) = caplog.messages
    assert message == f"the request state of a retry of 'tools/call' was refused: it {cause}"


def test_the_length_of_a_state_depends_only_on_its_contents() -> None:
    """The binding is a digest, so the state does not grow with the arguments of the request."""
    long = PARAMS | {"arguments": {"show": "".join(random.choices(string.ascii_letters, k=10**5))}}
    soon = time.time() + 600  # one time for both, because the strings of times differ in length
    of_long, of_short = (
        seals.seal(CONTENTS, binding_of(pin(incoming(params=params))), soon) for params in (long, PARAMS)
    )
    assert len(of_long) == len(of_short) < 500
