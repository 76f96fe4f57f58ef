"""The generated types of the skills extension."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import StructureError, types
from trio_mcp.skills import types as skill_types

ENTRY: dict[str, Any] = {
    "uri": "skill://refunds/SKILL.md",
    "frontmatter": {"name": "refunds", "description": "How to refund.", "license": "MIT"},
    "resources": [{"uri": "skill://refunds/SKILL.md", "digest": f"sha256:{'0' * 64}", "size": 12}],
}


def test_a_page_of_skills_comes_back_unchanged() -> None:
    page = {"skills": [ENTRY], "nextCursor": "2", "_meta": {"a": 1}, "resultType": "complete", "later": True}

    result = types.structure(page, skill_types.ListSkillsResult)

    assert result.skills[0].frontmatter["license"] == "MIT"
    assert (result.meta, result.next_cursor, result.extra) == ({"a": 1}, "2", {"later": True})
    assert types.unstructure(result) == page


def test_the_files_of_a_skill_are_a_list_or_dynamic() -> None:
    skill = types.structure({**ENTRY, "resources": "dynamic"}, skill_types.Skill)

    assert skill.resources == "dynamic"
    with pytest.raises(StructureError, match=r"not a Skill: \$\.resources: expected 'dynamic', got 'static'"):
        types.structure({**ENTRY, "resources": "static"}, skill_types.Skill)


def test_a_size_below_zero_is_refused() -> None:
    file = {**ENTRY["resources"][0], "size": -1}

    with pytest.raises(StructureError, match=r"not a SkillResource: \$\.size: expected at least 0, got -1"):
        types.structure(file, skill_types.SkillResource)


def test_the_children_of_a_directory_are_resources_of_the_core() -> None:
    child = {"uri": "skill://refunds/forms", "name": "forms", "mimeType": "inode/directory"}

    result = types.structure({"resources": [child]}, skill_types.ReadResourceDirectoryResult)

    assert result.resources == [types.Resource(uri="skill://refunds/forms", name="forms", mime_type="inode/directory")]


def test_the_table_of_methods_leads_to_the_classes() -> None:
    row = skill_types.METHODS["skills/get"]

    assert (row.kind, row.direction, row.params_required) == ("request", "client", True)
    assert row.params is skill_types.GetSkillRequestParams
    assert row.results == (skill_types.GetSkillResult,)


def test_the_error_names_the_types_of_a_union_without_their_modules() -> None:
    with pytest.raises(StructureError, match=r"^not a Skill \| Tool: "):
        types.structure(3, skill_types.Skill | types.Tool)
