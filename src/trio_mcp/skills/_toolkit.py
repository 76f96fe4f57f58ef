"""Skills for a language model: what it is told of them first, and the function that reads them on demand.

Rules of this file:

1. The model is told the name, the origin and the description of each skill. It gets the contents of a file when it
   calls the function, and only after they were verified.
2. The origin is the name that the application gives to the server. A description is on one line, so that it cannot
   pretend to be another skill or an instruction of the application.
3. With approvals, a skill that is not approved is neither shown nor read. That is checked again at every read.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from attrs import frozen

from .. import ToolError
from ..types import Tool
from ._approvals import SkillApprovals
from ._client import ClientSkill
from ._folder import SKILL_FILE

__all__ = ["SkillReader", "load_skills"]

_LONGEST_DESCRIPTION = 1024
"""The number of characters that the Agent Skills specification allows, of which a model is told."""


@frozen(eq=False)
class SkillReader:
    """The function by which a model reads skills."""

    function: str
    """The name of the function: ``read_skill``, unless a tool has that name."""
    _skills: Mapping[str, ClientSkill]
    """The skills by the names that the model uses."""
    _approvals: SkillApprovals | None

    def tool(self) -> Tool:
        """Return the function in the form of a tool."""
        properties = {
            "skill": {"type": "string", "enum": [*self._skills], "description": "the name of the skill"},
            "file": {"type": "string", "description": f"a file of the skill; by default {SKILL_FILE}"},
        }
        schema = {"type": "object", "properties": properties, "required": ["skill"], "additionalProperties": False}
        return Tool(
            name=self.function,
            description="Read a skill, or one of its files. Read a skill before you use it.",
            input_schema=schema,
        )

    def text(self) -> str:
        """Return what a model is told of the skills, in the system prompt."""
        lines = [f"- {name}{_origin(skill)}: {_one_line(skill.description)}" for name, skill in self._skills.items()]
        return "\n".join(
            [f"Skills: instructions that you can read with {self.function} when a task needs them.", *lines]
        )

    async def read(self, arguments: Mapping[str, Any]) -> str:
        """Return the text that answers a call.

        Raises:
            ToolError: the arguments name no skill, or one that is not approved, or a file that is not text.
            SkillChanged: the file is not what the entry of the skill says.
        """
        name, file = arguments.get("skill"), arguments.get("file", SKILL_FILE)
        skill = self._skills.get(name) if isinstance(name, str) else None
        if skill is None or not isinstance(file, str):
            raise ToolError(f"expected the arguments skill, one of {', '.join(self._skills)}, and maybe file, a string")
        if self._approvals is not None and not await self._approvals.is_approved(skill):
            raise ToolError(f"the skill {name!r} is not approved any more")
        try:
            text = await skill.read(file)
        except ValueError as error:
            raise ToolError(str(error)) from None
        head = f"[file {file} of skill {name}{_origin(skill)}; its files: {', '.join(skill.files)}]"
        return f"{head}\n{text}"


async def load_skills(
    skills: AsyncIterator[ClientSkill], approvals: SkillApprovals | None, taken: Collection[str]
) -> SkillReader | None:
    """Return the function that reads those skills that a model may read; None if there are none.

    A dynamic skill, whose files cannot be verified, is left out.

    Args:
        skills: those of a `Client` or of `Clients`.
        approvals: the approvals of the user; None if all skills may be read.
        taken: the names of the other functions.

    Raises what listing the skills and *approvals* raise.
    """
    found = [skill async for skill in skills if not skill.is_dynamic]
    if approvals is not None:
        found = [skill for skill in found if await approvals.is_approved(skill)]
    names = Counter(skill.name for skill in found)
    qualified = Counter(f"{skill.server}/{skill.name}" for skill in found)
    by_name: dict[str, ClientSkill] = {}
    for skill in found:
        if names[skill.name] == 1:
            by_name[skill.name] = skill
        elif skill.server is not None and qualified[f"{skill.server}/{skill.name}"] == 1:
            by_name[f"{skill.server}/{skill.name}"] = skill
        else:
            by_name[skill.uri if skill.server is None else f"{skill.server} {skill.uri}"] = skill
    function = "read_skill"
    while function in taken:
        function += "_"
    return SkillReader(function, by_name, approvals) if by_name else None


def _origin(skill: ClientSkill) -> str:
    return "" if skill.server is None else f" (of server {skill.server})"


def _one_line(text: str) -> str:
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= _LONGEST_DESCRIPTION else f"{line[:_LONGEST_DESCRIPTION]}..."
