"""The tables of methods, errors and metadata, compared with the specification at a few points."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from trio_mcp import types


def test_revisions_are_listed_oldest_first() -> None:
    assert types.REVISIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    assert list(types.METHODS) == list(types.PROFILES) == list(types.ERRORS) == list(types.REVISIONS)


@pytest.mark.parametrize(("revision", "count"), list(zip(types.REVISIONS, (24, 24, 25, 31, 21), strict=True)))
def test_every_method_of_a_revision_is_listed(revision: str, count: int) -> None:
    assert len(types.METHODS[revision]) == count


def test_a_tool_call_may_return_questions_only_in_the_modern_era() -> None:
    row = types.METHODS["2026-07-28"]["tools/call"]

    assert (row.kind, row.direction, row.params_required) == ("request", "client", True)
    assert row.params is types.CallToolRequestParams
    assert row.results == (types.CallToolResult, types.InputRequiredResult)
    assert types.METHODS["2025-06-18"]["tools/call"].results == (types.CallToolResult,)


def test_a_tool_call_may_return_a_task_in_2025_11_25() -> None:
    assert types.METHODS["2025-11-25"]["tools/call"].results == (types.CallToolResult, types.CreateTaskResult)


def test_client_and_server_may_ping_in_the_legacy_era() -> None:
    row = types.METHODS["2025-11-25"]["ping"]

    assert (row.direction, row.params_required, row.results) == ("both", False, (types.EmptyResult,))
    assert "ping" not in types.METHODS["2026-07-28"]


def test_questions_are_sent_inside_results_in_the_modern_era() -> None:
    assert types.METHODS["2026-07-28"]["elicitation/create"].kind == "embedded"
    assert types.METHODS["2025-11-25"]["elicitation/create"].kind == "request"


def test_notifications_have_no_result() -> None:
    rows = [row for methods in types.METHODS.values() for row in methods.values()]

    assert all((row.kind == "notification") == (row.results == ()) for row in rows)


def test_error_data_has_its_type() -> None:
    errors = types.ERRORS["2026-07-28"]

    assert errors[-32022].name == "UnsupportedProtocolVersionError"
    assert errors[-32022].data is types.UnsupportedProtocolVersionErrorData
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


def test_every_number_with_a_unit_has_it_documented() -> None:
    """The convention of this project is that the documentation of a number names its unit."""
    sources = sorted(Path(types.__file__).parent.glob("_generated/*.py"))
    lines = [line for source in sources for line in source.read_text("utf-8").splitlines()]
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


def loaded_by(program: str) -> list[str]:
    """Return the modules of generated types that a fresh process loads when it runs *program*."""
    report = "\nimport sys\nprint(*(name for name in sys.modules if name.startswith('trio_mcp.types._generated.')))"
    done = subprocess.run([sys.executable, "-c", program + report], capture_output=True, text=True, check=True)
    return sorted(name.rpartition(".")[2] for name in done.stdout.split())


def test_a_program_loads_the_types_that_it_uses() -> None:
    assert loaded_by("from trio_mcp import types; 'tools/call' in types.METHODS['2026-07-28']") == []
    assert loaded_by("from trio_mcp.types import Implementation") == ["basic"]
    assert loaded_by("from trio_mcp import types; types.structure({'tools': []}, types.ListToolsResult)") == [
        "basic",
        "tools",
    ]


def test_an_unknown_type_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'trio_mcp\.types' has no attribute 'Toool'"):
        getattr(types, "Toool")  # noqa: B009 # type checkers reject the attribute
