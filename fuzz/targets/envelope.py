"""The envelope of modern requests: every fault is found and named, and a stamped envelope is read back unchanged."""

from __future__ import annotations

from typing import Any

from fuzz.source import Source
from trio_mcp import McpError
from trio_mcp.types import REVISIONS
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    INVALID_PARAMS,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    MODERN_REVISIONS,
    PROGRESS_TOKEN_KEY,
    REVISION_KEY,
    UNSUPPORTED_REVISION,
    Envelope,
    encode_error,
    is_object,
    progress_token,
    read_envelope,
    stamp,
)

_KEYS = (REVISION_KEY, CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROGRESS_TOKEN_KEY)


def target(data: bytes) -> None:
    """Read a `_meta`, and stamp it onto params."""
    source = Source(data)
    meta = _meta(source)
    _read(meta)
    _read_token(meta)
    _stamp(source, meta)


def _meta(source: Source) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    for key in _KEYS:
        match source.below(4):
            case 1 | 2:
                meta[key] = _usual(source, key)
            case 3:
                meta[key] = source.json()
            case _:
                pass
    return meta | (source.object() if source.flag() else {})


def _usual(source: Source, key: str) -> Any:
    match key:
        case _ if key == REVISION_KEY:
            return source.choose((REVISIONS[-1], REVISIONS[0], "2099-01-01"))
        case _ if key == LOG_LEVEL_KEY:
            return source.choose(LOG_LEVELS)
        case _ if key == PROGRESS_TOKEN_KEY:
            return source.choose((0, "0", 2**70, ""))
        case _ if key == CLIENT_INFO_KEY:
            return {"name": source.text(), "version": source.text()} | source.object()
        case _:
            return source.object()


def _read(meta: dict[str, Any]) -> None:
    wrong = {key for key in _KEYS if not _fits(key, meta)}
    try:
        envelope = read_envelope(meta, REVISIONS)
    except McpError as refusal:
        encode_error(1, refusal.code, refusal.message, refusal.data)
        if refusal.code == UNSUPPORTED_REVISION:
            assert not wrong
            assert meta[REVISION_KEY] not in MODERN_REVISIONS
        elif not wrong:
            assert refusal.code == INVALID_PARAMS
            assert meta[REVISION_KEY] in MODERN_REVISIONS
            assert not _is_token(meta)
            assert refusal.message.startswith(f"$._meta.{PROGRESS_TOKEN_KEY}: ")
        else:
            assert refusal.code == INVALID_PARAMS
            assert all(f"$._meta.{key}: " in refusal.message for key in wrong), refusal.message
            assert refusal.message.count("$._meta.io.modelcontextprotocol/") == len(wrong)
        return
    assert not wrong
    assert _is_token(meta)
    optional = (meta.get(key) for key in (CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROGRESS_TOKEN_KEY))
    assert envelope == Envelope(meta[REVISION_KEY], meta[CAPABILITIES_KEY], *optional)
    assert envelope.revision in MODERN_REVISIONS


def _fits(key: str, meta: dict[str, Any]) -> bool:
    """Return True if a member is valid; the progress token is checked separately."""
    value = meta.get(key)
    match key:
        case _ if key == REVISION_KEY:
            return isinstance(value, str)
        case _ if key == CAPABILITIES_KEY:
            return is_object(value)
        case _ if key == CLIENT_INFO_KEY and key in meta:
            return is_object(value) and all(isinstance(value.get(each), str) for each in ("name", "version"))
        case _ if key == LOG_LEVEL_KEY and key in meta:
            return value in LOG_LEVELS
        case _:
            return True


def _is_token(meta: dict[str, Any]) -> bool:
    """Return True if the progress token is valid or absent."""
    value = meta.get(PROGRESS_TOKEN_KEY)
    return PROGRESS_TOKEN_KEY not in meta or (isinstance(value, int | str) and not isinstance(value, bool))


def _read_token(meta: dict[str, Any]) -> None:
    value = meta.get(PROGRESS_TOKEN_KEY)
    valid = _is_token(meta)
    try:
        token = progress_token(meta)
    except McpError as refusal:
        assert refusal.code == INVALID_PARAMS
        assert not valid
        return
    assert valid
    assert token == value
    assert type(token) is type(value)


def _stamp(source: Source, meta: dict[str, Any]) -> None:
    own = source.object()
    choices: tuple[dict[str, Any] | None, ...] = (None, {}, {"a": 1}, {"a": 1, "_meta": own}, {"_meta": {}})
    params = source.choose(choices)
    before = repr(params)

    stamped = stamp(params, meta)

    assert repr(params) == before
    assert {**stamped, "_meta": 0} == {**(params or {}), "_meta": 0}
    assert stamped["_meta"] == {**((params or {}).get("_meta") or {}), **meta}
