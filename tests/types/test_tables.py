"""The tables: what they say of methods, errors and metadata, checked at a few points against the specification."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from trio_mcp import types
from trio_mcp.types import _generated


def test_revisions_are_listed_oldest_first() -> None:
    assert types.REVISIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    assert list(types.METHODS) == list(types.PROFILES) == list(types.ERRORS) == list(types.REVISIONS)


@pytest.mark.parametrize(("revision", "count"), list(zip(types.REVISIONS, (24, 24, 25, 31, 21), strict=True)))
def test_every_method_of_a_revision_is_listed(revision: str, count: int) -> None:
    assert len(types.METHODS[revision]) == count


def test_a_call_may_end_with_questions_in_the_modern_era_only() -> None:
    assert types.METHODS["2026-07-28"]["tools/call"] == types.Method(
        kind="request",
        direction="client",
        params=types.CallToolRequestParams,
        params_required=True,
        results=(types.CallToolResult, types.InputRequiredResult),
    )
    assert types.METHODS["2025-06-18"]["tools/call"].results == (types.CallToolResult,)


def test_a_task_may_be_the_first_answer_in_2025_11_25() -> None:
    assert types.METHODS["2025-11-25"]["tools/call"].results == (types.CallToolResult, types.CreateTaskResult)


def test_both_sides_ping_in_the_legacy_era() -> None:
    row = types.METHODS["2025-11-25"]["ping"]

    assert (row.direction, row.params_required, row.results) == ("both", False, (types.EmptyResult,))
    assert "ping" not in types.METHODS["2026-07-28"]


def test_questions_travel_inside_results_in_the_modern_era() -> None:
    assert types.METHODS["2026-07-28"]["elicitation/create"].kind == "embedded"
    assert types.METHODS["2025-11-25"]["elicitation/create"].kind == "request"


def test_notifications_have_no_result() -> None:
    rows = [row for methods in types.METHODS.values() for row in methods.values()]

    assert all((row.kind == "notification") == (row.results == ()) for row in rows)


def test_error_data_has_its_type() -> None:
    errors = types.ERRORS["2026-07-28"]

    assert errors[-32022] == types.ErrorShape(
        "UnsupportedProtocolVersionError", types.UnsupportedProtocolVersionErrorData
    )
    assert errors[-32021].data is types.MissingRequiredClientCapabilityErrorData
    assert errors[-32602].data is None


def test_the_metadata_of_a_request_has_its_type() -> None:
    fitting = types.PROFILES["2026-07-28"].metas["CallToolRequestParams"]
    meta: types.JSONObject = {
        "progressToken": 1,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    }

    structured = types.structure(meta, types.RequestMetaObject, revision="2026-07-28")

    assert fitting is types.RequestMetaObject
    assert structured.protocol_version == "2026-07-28"
    assert structured.client_capabilities == types.ClientCapabilities(roots=types.RootsCapability())
    assert types.unstructure(structured) == meta


def test_every_number_with_a_unit_says_so() -> None:
    """The convention of this project: a reader of a number knows what it counts."""
    source = Path(_generated.__file__).read_text("utf-8")
    lines = source.splitlines()
    numbers = [
        (line.strip(), following.strip())
        for line, following in pairwise(lines)
        if line.startswith("    ")
        and ": " in line
        and {"int", "float"} & set(line.split(": ", 1)[1].split(" = ")[0].split(" | "))
        if " | str" not in line
    ]

    assert len(numbers) > 20
    assert [line for line, following in numbers if not following.startswith('"""')] == []
