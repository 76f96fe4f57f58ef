"""The descriptions of the generated types: complete, and without leftovers."""

from __future__ import annotations

import pytest

from codegen.align import align
from codegen.choices import MESSAGE, PLAIN_JSON
from codegen.docs import Docs
from codegen.envelopes import complete
from codegen.merge import Merged, merge
from codegen.project import read_schemas
from codegen.prose import ALIASES, CLASSES, MEMBERS, MEMBERS_ANYWHERE, MESSAGES
from codegen.shapes import Schema, is_class


@pytest.fixture(scope="module")
def merged() -> Merged:
    return merge(complete(align(read_schemas())))


def test_every_class_has_a_description_and_every_description_a_class(merged: Merged) -> None:
    assert {*CLASSES, *MESSAGES} == {name for name, schema in merged.definitions.items() if is_class(schema)}


def test_every_alias_has_a_description_and_every_description_an_alias(merged: Merged) -> None:
    aliases = {name for name, schema in merged.definitions.items() if not is_class(schema)}

    assert {*ALIASES} == aliases - PLAIN_JSON


def test_the_union_of_all_messages_has_no_link_because_the_specification_does_not_name_it(merged: Merged) -> None:
    assert "Specification" not in Docs(merged).of_class(MESSAGE)
    assert Docs(merged).of_class("ContentBlock").endswith("/2026-07-28/schema#contentblock")


def test_every_described_member_exists(merged: Merged) -> None:
    members = {
        f"{name}.{member}" for name, schema in merged.definitions.items() for member in schema.get("properties", {})
    }

    assert not MEMBERS.keys() - members
    assert not MEMBERS_ANYWHERE.keys() - {member.rsplit(".", 1)[-1] for member in members}


def test_every_number_is_described(merged: Merged) -> None:
    def is_number(schema: Schema) -> bool:
        return bool({"integer", "number"} & set([schema["type"]] if isinstance(schema.get("type"), str) else []))

    docs = Docs(merged)
    numbers = [
        (name, member)
        for name, schema in merged.definitions.items()
        for member, inner in schema.get("properties", {}).items()
        if is_number(inner)
    ]

    assert len(numbers) > 20
    assert not [f"{name}.{member}" for name, member in numbers if not docs.of_member(name, member)]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Tool", "In every revision."),
        ("AudioContent", "Since revision 2025-03-26."),
        ("CreateTaskResult", "In revision 2025-11-25 only."),
        ("InitializeResult", "In revisions 2024-11-05 to 2025-11-25."),
    ],
)
def test_the_revisions_of_a_class_are_derived(name: str, sentence: str, merged: Merged) -> None:
    assert Docs(merged).of_class(name).splitlines()[2] == sentence


def test_the_link_leads_to_the_newest_revision_that_has_the_class(merged: Merged) -> None:
    assert Docs(merged).of_class("CreateTaskResult").splitlines()[3] == (
        "Specification: https://modelcontextprotocol.io/specification/2025-11-25/schema#createtaskresult"
    )


def test_a_class_that_was_inline_upstream_links_to_its_owner(merged: Merged) -> None:
    assert Docs(merged).of_class("ElicitationTasksCapability").endswith("/2025-11-25/schema#clientcapabilities")
