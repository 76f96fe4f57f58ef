"""The modern envelope: reading it, refusing it in a fixed order, and writing it."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import McpError
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    INVALID_PARAMS,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    REVISION_KEY,
    UNSUPPORTED_REVISION,
    Envelope,
    progress_token,
    read_envelope,
    stamp,
    unsupported_revision,
)

SPOKEN = ["2025-11-25", "2026-07-28"]
LEAST: dict[str, Any] = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
INFO = {"name": "tester", "version": "1"}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({REVISION_KEY: 5}, f"$._meta.{REVISION_KEY}: expected string"),
    ({REVISION_KEY: None}, f"$._meta.{REVISION_KEY}: expected string"),
    ({CAPABILITIES_KEY: ...}, f"$._meta.{CAPABILITIES_KEY}: required member is missing"),
    ({CAPABILITIES_KEY: None}, f"$._meta.{CAPABILITIES_KEY}: expected object"),
    ({CAPABILITIES_KEY: []}, f"$._meta.{CAPABILITIES_KEY}: expected object"),
    ({CLIENT_INFO_KEY: None}, f"$._meta.{CLIENT_INFO_KEY}: expected object with the strings 'name' and 'version'"),
    ({CLIENT_INFO_KEY: {"name": "x"}}, f"$._meta.{CLIENT_INFO_KEY}: expected object with"),
    ({CLIENT_INFO_KEY: {"version": "x"}}, f"$._meta.{CLIENT_INFO_KEY}: expected object with"),
    ({CLIENT_INFO_KEY: {"name": 1, "version": "x"}}, f"$._meta.{CLIENT_INFO_KEY}: expected object with"),
    ({LOG_LEVEL_KEY: "loud"}, f"$._meta.{LOG_LEVEL_KEY}: expected one of debug, info, notice, warning, error"),
    ({LOG_LEVEL_KEY: None}, f"$._meta.{LOG_LEVEL_KEY}: expected one of"),
    ({LOG_LEVEL_KEY: []}, f"$._meta.{LOG_LEVEL_KEY}: expected one of"),
]


def meta(changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**LEAST, **changes}.items() if value is not ...}


def test_the_minimal_envelope_has_a_revision_and_capabilities() -> None:
    assert read_envelope(LEAST, SPOKEN) == Envelope("2026-07-28", {}, None, None)


@pytest.mark.parametrize("level", LOG_LEVELS)
def test_every_member_of_the_envelope_is_read(level: str) -> None:
    whole = meta({CAPABILITIES_KEY: {"roots": {}}, CLIENT_INFO_KEY: INFO, LOG_LEVEL_KEY: level, "other": 1})

    assert read_envelope(whole, SPOKEN) == Envelope("2026-07-28", {"roots": {}}, INFO, level)


@pytest.mark.requirement("B.3-S1a", "B.18-S3b")
@pytest.mark.parametrize(("changes", "fault"), FAULTS)
def test_missing_and_wrong_members_of_the_envelope_are_refused_with_their_paths(
    changes: dict[str, Any], fault: str
) -> None:
    with pytest.raises(McpError) as refused:
        read_envelope(meta(changes), SPOKEN)

    assert refused.value.code == INVALID_PARAMS
    assert refused.value.message.startswith(fault)
    assert refused.value.data is None


def test_all_faults_of_the_envelope_are_named_before_the_revision_is_checked() -> None:
    with pytest.raises(McpError) as refused:
        read_envelope({REVISION_KEY: "1999-01-01", LOG_LEVEL_KEY: 1}, SPOKEN)

    assert refused.value.code == INVALID_PARAMS
    assert CAPABILITIES_KEY in refused.value.message
    assert LOG_LEVEL_KEY in refused.value.message


@pytest.mark.requirement("B.3-S4a")
def test_an_unsupported_revision_is_refused_with_the_supported_ones() -> None:
    with pytest.raises(McpError) as refused:
        read_envelope(meta({REVISION_KEY: "1999-01-01"}), SPOKEN)

    assert refused.value.code == UNSUPPORTED_REVISION == -32022
    assert refused.value.data == {"supported": SPOKEN, "requested": "1999-01-01"}
    assert "1999-01-01" in refused.value.message


@pytest.mark.parametrize(
    ("revision", "supported", "offered"),
    [
        ("1999-01-01", SPOKEN, SPOKEN),
        ("2025-11-25", SPOKEN, ["2026-07-28"]),
        ("2025-11-25", ["2025-11-25"], ["2025-11-25"]),
    ],
)
def test_a_revision_that_cannot_be_used_is_refused_before_a_bad_progress_token(
    revision: str, supported: list[str], offered: list[str]
) -> None:
    with pytest.raises(McpError) as refused:
        read_envelope(meta({REVISION_KEY: revision, "progressToken": True}), supported)

    assert refused.value.code == UNSUPPORTED_REVISION
    assert refused.value.data == {"supported": offered, "requested": revision}


def test_the_progress_token_of_the_envelope_is_read() -> None:
    assert read_envelope(meta({"progressToken": "t"}), SPOKEN).progress_token == "t"
    with pytest.raises(McpError, match=r"\$\._meta\.progressToken: expected string or integer") as refused:
        read_envelope(meta({"progressToken": True}), SPOKEN)
    assert refused.value.code == INVALID_PARAMS


def test_the_refusal_lists_the_given_revisions() -> None:
    assert unsupported_revision("x", ("a", "b")).data == {"supported": ["a", "b"], "requested": "x"}


@pytest.mark.parametrize(("meta", "token"), [({}, None), ({"progressToken": 0}, 0), ({"progressToken": "t"}, "t")])
def test_a_progress_token_is_a_string_or_an_integer(meta: dict[str, Any], token: object) -> None:
    assert progress_token(meta) == token


@pytest.mark.requirement("B.14-P1a")
@pytest.mark.parametrize("token", [None, True, 1.0, [], {}])
def test_any_other_progress_token_is_invalid_params(token: object) -> None:
    with pytest.raises(McpError, match=r"\$\._meta\.progressToken: expected string or integer") as refused:
        progress_token({"progressToken": token})

    assert refused.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("params", "stamped"),
    [
        (None, {"_meta": {"k": 1}}),
        ({}, {"_meta": {"k": 1}}),
        ({"a": 2}, {"a": 2, "_meta": {"k": 1}}),
        ({"a": 2, "_meta": None}, {"a": 2, "_meta": {"k": 1}}),
        ({"_meta": {"mine": 3, "k": 0}}, {"_meta": {"mine": 3, "k": 1}}),
    ],
)
def test_stamping_keeps_the_meta_members_of_the_caller(params: dict[str, Any] | None, stamped: dict[str, Any]) -> None:
    envelope = {"k": 1}

    assert stamp(params, envelope) == stamped


def test_stamping_changes_neither_params_nor_envelope() -> None:
    params: dict[str, Any] = {"_meta": {"mine": 3}}
    envelope = {"k": 1}

    stamp(params, envelope)["_meta"]["more"] = 1
    stamp(None, envelope)["_meta"]["more"] = 1

    assert params == {"_meta": {"mine": 3}}
    assert envelope == {"k": 1}
