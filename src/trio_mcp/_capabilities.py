"""The capabilities beside the core: packages that are loaded when a program first uses one of them.

A capability (`trio_mcp.tasks`, for example) imports public names of the core only. The core knows capabilities by the
methods and options with which a program begins to use one, such as `Server.skills`; these import it from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .skills import ClientSkill as ClientSkill  # noqa: PLC0414 # for annotations of the core
    from .skills import ServerSkills as ServerSkills  # noqa: PLC0414 # likewise
    from .skills import SkillApprovals as SkillApprovals  # noqa: PLC0414 # likewise
    from .skills import SkillReader as SkillReader  # noqa: PLC0414 # likewise

__all__ = ["load_capability"]


def load_capability(name: Literal["apps", "skills", "tasks"]) -> Any:
    """Return the package of a capability; import it if no program in this process has used it yet."""
    return import_module(f"{__package__}.{name}")
