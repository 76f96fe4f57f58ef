"""Tests of the header fields as handlers see them."""

from __future__ import annotations

import pytest

from trio_mcp.peer import HeaderFields

FIELDS = HeaderFields({"x-tenant": "acme", "accept": "*/*"})


@pytest.mark.parametrize("name", ["x-tenant", "X-Tenant", "X-TENANT"])
def test_a_field_is_found_by_its_name_in_any_case(name: str) -> None:
    assert name in FIELDS
    assert FIELDS[name] == FIELDS.get(name) == "acme"


def test_a_missing_field_is_an_error_or_the_default() -> None:
    missing: object = 1

    assert "X-Other" not in FIELDS
    assert missing not in FIELDS
    assert FIELDS.get("X-Other", "none") == "none"
    with pytest.raises(KeyError):
        FIELDS["X-Other"]


def test_the_fields_are_a_mapping_with_names_in_lower_case() -> None:
    assert FIELDS == {"x-tenant": "acme", "accept": "*/*"}
    assert len(FIELDS) == len([*FIELDS])
    assert repr(FIELDS) == "{'x-tenant': 'acme', 'accept': '*/*'}"
