"""One entry of an ``mcpServers`` table, the widespread way to write down how a server is started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ..transports import StdioServer

__all__ = ["server_from_entry"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KNOWN = ("command", "args", "env", "cwd")


def server_from_entry(entry: Mapping[str, Any]) -> StdioServer:
    """Return the server that *entry* describes: ``command`` (text), ``args`` (texts), ``env`` (texts), ``cwd`` (text).

    ``${NAME}`` in any text stands for the environment variable NAME of this process.

    Raises:
        ValueError: a member is missing, of the wrong type or unknown, or a variable is not set; the text names it.
    """
    for name in entry:
        if name not in _KNOWN:
            raise ValueError(f"server entry: {name!r} is not supported; it may have {', '.join(_KNOWN)}")
    command, cwd = entry.get("command"), entry.get("cwd")
    args: Any = entry.get("args", [])
    env: Any = entry.get("env", {})
    if not isinstance(command, str) or not command:
        raise ValueError("server entry: 'command' is required, and a text")
    if not isinstance(args, list | tuple) or not all(isinstance(arg, str) for arg in args):  # pyright: ignore[reportUnknownVariableType] # under test here
        raise ValueError("server entry: 'args' must be a list of texts")
    if not isinstance(env, Mapping) or not all(isinstance(value, str) for value in env.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # under test here
        raise ValueError("server entry: 'env' must be an object of texts")
    if cwd is not None and not isinstance(cwd, str):
        raise ValueError("server entry: 'cwd' must be a text")
    return StdioServer(
        [_expand(command), *(_expand(arg) for arg in args)],  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # texts, as checked
        env={name: _expand(value) for name, value in env.items()},  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType, reportUnknownMemberType] # texts, as checked
        cwd=None if cwd is None else _expand(cwd),
    )


def _expand(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise ValueError(f"server entry: the environment variable {name} in {text!r} is not set")
        return os.environ[name]

    return _VARIABLE.sub(value, text)
