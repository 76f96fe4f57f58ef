"""Which environment variables a child server gets: few of ours, because the rest may hold secrets it has no use for.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

__all__ = ["child_environment"]

_POSIX_NAMES = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})

_WINDOWS_NAMES = frozenset(
    {
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "PROGRAMFILES(X86)",
        "SYSTEMDRIVE",
        "SYSTEMROOT",  # Python and sockets do not start without it
        "TEMP",
        "TMP",
        "TZ",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    }
)

_HANDED_ON = _WINDOWS_NAMES if sys.platform == "win32" else _POSIX_NAMES


def child_environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child server.

    It holds what a program needs to find its files, its user and its language (`PATH`, `HOME`, `LANG`, `LC_*`, ...)
    as far as this process has it, and nothing else of this process.

    Args:
        added: variables of the caller's choice; they win.
    """
    handed_on = {name: value for name, value in os.environ.items() if _is_handed_on(name, value)}
    return handed_on | dict(added or {})


def _is_handed_on(name: str, value: str) -> bool:
    # An exported shell function begins with "()": it is code, which the child's shell would define. Windows gives
    # every name in upper case.
    return (name in _HANDED_ON or name.startswith("LC_")) and not value.startswith("()")
