"""Request states: a sealed state opens for its own request only, and no other string opens."""

from __future__ import annotations

import base64
import time
from typing import Any

from attrs import evolve

from fuzz.source import Source
from tests.peer.fake_exchange import CONTEXT, FakeExchange, FakePeer
from trio_mcp.peer import Access
from trio_mcp.server.asking import Seals, pin
from trio_mcp.server.asking._asker import BadStateError, binding_of
from trio_mcp.wire import INVALID_PARAMS, JsonObject, is_array, is_object

_SEALS = Seals([bytes(range(32)), bytes(range(1, 33))])
_OTHER_SEALS = Seals([bytes(range(2, 34))])
_PEER = FakePeer()
_MEMBERS = ("name", "arguments", "_meta", "inputResponses", "requestState")
_OF_ONE_ATTEMPT = {"_meta", "inputResponses", "requestState"}
_REFUSAL = (
    INVALID_PARAMS,
    "$.requestState: it is invalid or has expired; send the request again without it",
    None,
)
"""A state is invalid."""


def target(data: bytes) -> None:
    """Seal contents for a request; open the state, a similar one and any string for this and another request."""
    source = Source(data)
    request, other = _exchange(source), _exchange(source)
    contents = source.object()
    state = _SEALS.seal(contents, binding_of(pin(request)), time.time() + 3600)

    assert _SEALS.open(state, request) == contents
    assert _SEALS.open(state, _as_retried(source, request)) == contents
    if _identity(request) != _identity(other):
        _is_refused(_SEALS, state, other)
    _is_refused(_OTHER_SEALS, state, request)
    _is_refused(_SEALS, _SEALS.seal(contents, binding_of(pin(request)), time.time() - 1), request)
    spoiled = _spoiled(source, state)
    if spoiled != state:
        _is_refused(_SEALS, spoiled, request)
    _is_refused(_SEALS, source.any_text(64), request)
    _is_refused(_SEALS, base64.urlsafe_b64encode(b"\x01" + source.rest()).decode(), request)


def _exchange(source: Source) -> FakeExchange:
    method = source.choose(("tools/call", "prompts/get", source.text()))
    params = None if source.below(4) == 3 else source.object(names=_MEMBERS)
    access = None if source.flag() else Access(source.text())
    return FakeExchange(method, params, evolve(CONTEXT, access=access), 1, _PEER)


def _as_retried(source: Source, request: FakeExchange) -> FakeExchange:
    """Return the request as its retry may send it: members in another order, and new members of the attempt."""
    kept = {name: value for name, value in (request.params or {}).items() if name not in _OF_ONE_ATTEMPT}
    params = dict(reversed(kept.items())) | {name: source.json() for name in sorted(_OF_ONE_ATTEMPT) if source.flag()}
    return FakeExchange(request.method, params, request.context, 2, _PEER)


def _identity(request: FakeExchange) -> Any:
    """Return the identity of a request; 1, 1.0 and true are different in JSON."""
    params = {name: value for name, value in (request.params or {}).items() if name not in _OF_ONE_ATTEMPT}
    return request.method, request.context.principal, _typed(params)


def _typed(value: Any) -> Any:
    if is_object(value):
        return {name: _typed(member) for name, member in value.items()}
    if is_array(value):
        return [_typed(member) for member in value]
    return type(value).__name__, repr(value)


def _spoiled(source: Source, state: str) -> str:
    at = source.below(256) % len(state)
    return state[:at] + source.any_text(4) + state[at + source.below(4) :]


def _is_refused(seals: Seals, state: str, request: FakeExchange) -> None:
    opened: JsonObject | None = None
    try:
        opened = seals.open(state, request)
    except BadStateError as refusal:
        assert (refusal.code, refusal.message, refusal.data) == _REFUSAL
    assert opened is None, "a state was opened that should not have been"
