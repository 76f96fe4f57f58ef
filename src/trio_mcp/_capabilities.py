"""The capabilities beside the core: packages that are loaded when a program first uses one of them.

A capability (`trio_mcp.tasks`, for example) imports public names of the core only. The core knows capabilities by the
methods and options with which a program begins to use one, such as `Server.skills`; these import it from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .apps import App as App
    from .apps import AppHost as AppHost
    from .apps import AppPermission as AppPermission
    from .apps import AppResourceOptions as AppResourceOptions
    from .apps import Csp as Csp
    from .skills import ClientSkill as ClientSkill
    from .skills import ServerSkills as ServerSkills
    from .skills import SkillApprovals as SkillApprovals
    from .skills import SkillReader as SkillReader
    from .tasks import ServerTasks as ServerTasks
    from .tasks import TaskHandle as TaskHandle
    from .tasks import TaskSettings as TaskSettings

__all__ = ["load_capability"]


def load_capability(name: Literal["apps", "cluster", "shared", "skills", "tasks"]) -> Any:
    """Return the package of a capability; import it if no program in this process has used it yet."""
    return import_module(f"{__package__}.{name}")
