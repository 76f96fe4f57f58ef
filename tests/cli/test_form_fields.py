"""Fields of forms: their descriptions, and the values of typed lines."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import types
from trio_mcp.cli._questions import LEFT_OUT, Field, fields_of

ONE = "several of these, separated by commas, choose at least 1, choose at most 1"


def field(required: Any = False, **schema: Any) -> Field:
    form = {"type": "object", "properties": {"it": schema}, "required": ["it"] if required else []}
    (only,) = fields_of(types.structure(form, types.ElicitRequestedSchema))
    return only


COLOURS: dict[str, Any] = {"type": "string", "enum": ["r", "b"]}
TITLED: dict[str, Any] = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}
NAMED: dict[str, Any] = {"type": "string", "enum": ["r", "b", "g"], "enumNames": ["Red", "Blue"]}
SEVERAL: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": ["r", "b", "g"]}}
SEVERAL_TITLED: dict[str, Any] = {"type": "array", "items": {"anyOf": TITLED["oneOf"]}, "minItems": 1, "maxItems": 1}


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        ({"type": "string"}, " some text ", "some text"),
        ({"type": "string"}, '""', ""),
        ({"type": "string", "format": "email"}, "a@example.org", "a@example.org"),
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, "7.5", 7.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        (COLOURS, "2", "b"),
        (COLOURS, "b", "b"),
        (TITLED, "blue", "b"),
        (TITLED, "1", "r"),
        (NAMED, "Blue", "b"),
        (NAMED, "g", "g"),
        ({"type": "string", "enum": ["2", "1"]}, "2", "1"),
        (SEVERAL, "3, r, 3,", ["g", "r"]),
        (SEVERAL_TITLED, "Red", ["r"]),
        # A schema that cannot be used is not checked here; the server is at fault.
        ({"type": "string", "pattern": "("}, "x", "x"),
    ],
)
def test_a_typed_line_is_converted_to_a_value_of_the_field(schema: dict[str, Any], line: str, value: object) -> None:
    assert field(**schema).value_of(line) == value


@pytest.mark.parametrize(
    ("schema", "line", "message"),
    [
        ({"type": "integer", "minimum": 1}, "0", "less than the minimum of 1"),
        ({"type": "integer"}, "1.5", "expected integer, got number"),
        ({"type": "integer"}, "one", "expected integer, got the string 'one'"),
        ({"type": "string", "maxLength": 2}, "abc", "longer than 2"),
        ({"type": "string", "format": "email"}, "no-at-sign", "is not a email"),
        ({"type": "boolean"}, "maybe", "expected yes or no"),
        (COLOURS, "3", "'3' is not one of the choices; type a number from 1 to 2"),
        (SEVERAL, "r, x", "'x' is not one of the choices"),
        (SEVERAL_TITLED, "1, 2", "more than 1 item"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_with_the_reason(schema: dict[str, Any], line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        field(**schema).value_of(line)


def test_an_empty_line_is_the_default_or_no_value_or_refused() -> None:
    assert field(required=True, type="integer", default=3).value_of("") == 3
    assert field(type="integer").value_of(" ") is LEFT_OUT
    assert field(required=True, **SEVERAL).value_of("") == []
    with pytest.raises(ValueError, match="a value is required"):
        field(required=True, type="string").value_of("")


def test_an_invalid_default_is_ignored() -> None:
    assert field(type="integer", minimum=5, default=3).default is LEFT_OUT


@pytest.mark.parametrize(
    ("described", "description"),
    [
        (field(required=True, type="integer", minimum=1, maximum=9), "it [integer, at least 1, at most 9, required]"),
        (field(type="string", title="Name", description="of whom", maxLength=3),
         "Name (it): of whom [text, characters at most 3, optional]"),
        (field(type="boolean"), "it [yes or no, optional]"),
        (field(**TITLED), "it [one of these, optional]\n  1) Red\n  2) Blue"),
        (field(**SEVERAL_TITLED), f"it [{ONE}, optional]\n  1) Red\n  2) Blue"),
    ],
)  # fmt: skip
def test_a_description_names_every_condition_of_the_field(described: Field, description: str) -> None:
    assert described.description() == description


@pytest.mark.parametrize(
    ("value", "shown"), [(True, "yes"), (False, "no"), (1, "1"), (1.5, "1.5"), ("x", "x"), (["a", "b"], "a, b")]
)
def test_a_default_is_shown_as_the_user_would_type_it(value: Any, shown: str) -> None:
    assert field(type="string").shown(value) == shown
