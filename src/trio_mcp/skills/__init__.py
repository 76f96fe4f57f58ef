"""The skills extension: instructions for models, with their files, that a server offers and a client verifies.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from . import types as types
    from ._approvals import FileSkillApprovals as FileSkillApprovals
    from ._approvals import MemorySkillApprovals as MemorySkillApprovals
    from ._approvals import SkillApprovals as SkillApprovals
    from ._client import ClientSkill as ClientSkill
    from ._client import get_skill as get_skill
    from ._client import list_skills as list_skills
    from ._client import list_skills_of_many as list_skills_of_many
    from ._server import ServerSkills as ServerSkills
    from ._toolkit import SkillReader as SkillReader
    from ._toolkit import load_skills as load_skills
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "": ("types",),
            "_approvals": ("FileSkillApprovals", "MemorySkillApprovals", "SkillApprovals"),
            "_client": ("ClientSkill", "get_skill", "list_skills", "list_skills_of_many"),
            "_server": ("ServerSkills",),
            "_toolkit": ("SkillReader", "load_skills"),
        },
    )
