"""One entry of an ``mcpServers`` table, the widespread way to write down how a server is started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..transports import StdioServer

__all__ = ["server_from_entry"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ARGS = "'args' must be a list of texts"
_ENV = "'env' must be an object of texts"
_KNOWN = ("type", "command", "args", "env", "cwd")


def server_from_entry(entry: Mapping[str, Any]) -> StdioServer:
    """Return the server that *entry* describes: ``command`` (text), ``args`` (texts), ``env`` (texts), ``cwd`` (text).

    ``type`` may be there, and is ``"stdio"``. ``${NAME}`` in any text stands for the environment variable NAME of this
    process.

    Raises:
        ValueError: a member is missing, of the wrong type or unknown, or a variable is not set; the text names it.
    """
    for name in entry:
        if name not in _KNOWN:
            raise ValueError(f"server entry: {name!r} is not supported; it may have {', '.join(_KNOWN)}")
    if entry.get("type", "stdio") != "stdio":
        raise ValueError(f"server entry: 'type' {entry['type']!r} is not supported; it may be 'stdio'")
    command, args, env = entry.get("command"), entry.get("args", []), entry.get("env", {})
    if not isinstance(command, str) or not command:
        raise ValueError("server entry: 'command' is required, and a text")
    if not isinstance(args, list | tuple):
        raise ValueError(f"server entry: {_ARGS}")
    if not isinstance(env, Mapping):
        raise ValueError(f"server entry: {_ENV}")
    cwd = entry.get("cwd")
    return StdioServer(
        [_expand(command), *(_text(_ARGS, arg) for arg in cast("Sequence[object]", args))],
        env={str(name): _text(_ENV, value) for name, value in cast("Mapping[object, object]", env).items()},
        cwd=None if cwd is None else _text("'cwd' must be a text", cwd),
    )


def _text(rule: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"server entry: {rule}")
    return _expand(value)


def _expand(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise ValueError(f"server entry: the environment variable {name} in {text!r} is not set")
        return os.environ[name]

    return _VARIABLE.sub(value, text)
