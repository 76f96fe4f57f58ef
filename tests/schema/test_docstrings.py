"""Tests of the descriptions that docstrings contain."""

from __future__ import annotations

import pytest

from trio_mcp.schema import Docstring, parse_docstring

GOOGLE = """Add two numbers.

    With care.

    Args:
        a: first number,
            any size
        b (int, optional): second number
        *rest: the others
        c:

    Returns:
        The sum.
    """

NUMPY = """Add two numbers.

    Parameters
    ----------
    a, b : int
        the numbers

        of any size
    c
        another

    Returns
    -------
    int
    """

SPHINX = """Add two numbers.

    :param a: first number,
        any size
    :param int b: second number
    :type a: int
    :returns: the sum
    """


def test_a_missing_docstring_has_no_descriptions() -> None:
    assert parse_docstring(None) == Docstring("", {})
    assert parse_docstring("   ") == Docstring("", {})


def test_google_sections_describe_parameters_and_are_not_part_of_the_description() -> None:
    found = parse_docstring(GOOGLE)

    assert found.description == "Add two numbers.\n\nWith care.\n\nReturns:\n    The sum."
    assert found.parameters == {"a": "first number, any size", "b": "second number", "rest": "the others"}


def test_numpy_sections_may_describe_several_parameters_together() -> None:
    found = parse_docstring(NUMPY)

    assert found.description == "Add two numbers.\n\nReturns\n-------\nint"
    assert found.parameters == {"a": "the numbers of any size", "b": "the numbers of any size", "c": "another"}


def test_a_numpy_section_may_end_the_docstring() -> None:
    assert parse_docstring("Sum.\n\nParameters\n----------\na\n    one").parameters == {"a": "one"}


def test_sphinx_fields_describe_parameters() -> None:
    found = parse_docstring(SPHINX)

    assert found.description == "Add two numbers.\n\n:returns: the sum"
    assert found.parameters == {"a": "first number, any size", "b": "second number"}


@pytest.mark.parametrize("text", ["Parameters matter.", "Args", "Args:", "Sum.\n\nArgs:\nflush left"])
def test_lines_that_only_resemble_a_section_are_description(text: str) -> None:
    assert parse_docstring(text) == Docstring(text, {})


def test_lines_before_the_first_entry_describe_no_parameter() -> None:
    found = parse_docstring("Sum.\n\nArgs:\n    all of them are numbers\n    a: one")

    assert found == Docstring("Sum.", {"a": "one"})
