"""The ``mcpServers`` file, the widespread way to write down how servers are started: the table, and one entry of it.

The file belongs to many programs. What is wrong with one entry is said about that entry, so that the others can be
used; and members that mean something to other programs only are left alone.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import trio
from attrs import frozen

from ..transports import StdioServer

__all__ = ["ServerTable", "TableSource", "read_server_table", "server_from_entry"]

_log = logging.getLogger("trio_mcp.client")

TableSource: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""The path of an ``mcpServers`` file, or what such a file holds: an object with the member ``mcpServers``."""

_TABLES = ("mcpServers", "servers")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ARGS = "'args' must be a list of texts"
_ENV = "'env' must be an object of texts"
_KNOWN = {"type", "command", "args", "env", "cwd", "url", "headers", "disabled"}
_HTTP_TYPES = ("http", "sse", "streamable-http", "streamableHttp")


@frozen
class ServerTable:
    """What an ``mcpServers`` file says: the entries by server name, in the file's order, none of them read yet."""

    where: str
    """What the table is called in errors: the path of the file."""
    entries: Mapping[str, object]
    """The servers that are to be used."""
    disabled: tuple[str, ...] = ()
    """The servers whose entry says ``"disabled": true``."""

    def server(self, name: str) -> StdioServer:
        """Return how the server *name* is started.

        Raises:
            KeyError: the table has no such server, or it is disabled.
            ValueError: its entry makes no sense; the text names the file, the server and the member.
        """
        return server_from_entry(self.entries[name], where=f"{self.where}: server {name!r}")


async def read_server_table(source: TableSource) -> ServerTable:
    """Read the table of servers in a file, or in what such a file holds.

    The table is the member ``mcpServers``, or, where there is none, ``servers``, as Visual Studio Code has it. Other
    members of the file are left alone.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no JSON, or has no such table; the text names the file.
    """
    if isinstance(source, Mapping):
        return _table(source, "the table of servers")
    where = os.fspath(source)
    content = await trio.Path(source).read_bytes()
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError(f"{where}: not JSON that can be read: nested too deep") from None
    except ValueError as exc:
        raise ValueError(f"{where}: not JSON: {exc}") from None
    return _table(value, where)


def _table(value: object, where: str) -> ServerTable:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: expected an object with the member 'mcpServers'")
    members = cast("Mapping[str, object]", value)
    found = next((name for name in _TABLES if name in members), None)
    if found is None:
        raise ValueError(f"{where}: has no member 'mcpServers', nor 'servers'")
    table = members[found]
    if not isinstance(table, Mapping):
        raise ValueError(f"{where}: {found!r} must be an object: the servers by name")
    entries = dict(cast("Mapping[str, object]", table))
    disabled = tuple(name for name, entry in entries.items() if _is_disabled(entry))
    return ServerTable(where, {name: entries[name] for name in entries if name not in disabled}, disabled)


def _is_disabled(entry: object) -> bool:
    return isinstance(entry, Mapping) and cast("Mapping[str, object]", entry).get("disabled") is True


def server_from_entry(entry: object, *, where: str = "server entry") -> StdioServer:
    """Return the server that *entry* describes: ``command`` (text), ``args`` (texts), ``env`` (texts), ``cwd`` (text).

    ``type`` may be there, and is ``"stdio"``. In any text, ``${NAME}`` stands for the environment variable NAME of
    this process, as does ``${env:NAME}``; ``${NAME:-TEXT}`` is TEXT where that variable is not set or empty. Members
    that other programs have put there are ignored, and named in one logged warning.

    Args:
        entry: the entry, as it is in the file.
        where: what the entry is called in errors and in the log.

    Raises:
        ValueError: a member is missing or of the wrong type, a variable is not set, or the server is one to be
            reached over HTTP; the text names it.
    """
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: expected an object with the member 'command'")
    return _server(cast("Mapping[str, Any]", entry), where)


def _server(entry: Mapping[str, Any], where: str) -> StdioServer:
    kind = entry.get("type", "stdio")
    if "url" in entry or kind in _HTTP_TYPES:
        raise ValueError(f"{where}: this server is reached over HTTP, which is not supported yet")
    if kind != "stdio":
        raise ValueError(f"{where}: 'type' {kind!r} is not supported; it may be 'stdio'")
    if type(entry.get("disabled", False)) is not bool:
        raise ValueError(f"{where}: 'disabled' must be true or false")
    unknown = sorted(str(name) for name in entry if name not in _KNOWN)
    command, args, env = entry.get("command"), entry.get("args", []), entry.get("env", {})
    if not isinstance(command, str) or not command:
        misspelt = "".join(f"; {name!r} is not supported" for name in unknown)
        raise ValueError(f"{where}: 'command' is required, and a text{misspelt}")
    if not isinstance(args, list | tuple):
        raise ValueError(f"{where}: {_ARGS}")
    if not isinstance(env, Mapping):
        raise ValueError(f"{where}: {_ENV}")
    cwd = entry.get("cwd")
    server = StdioServer(
        [_expand(command, where), *(_text(_ARGS, arg, where) for arg in cast("Sequence[object]", args))],
        env={str(name): _text(_ENV, value, where) for name, value in cast("Mapping[object, object]", env).items()},
        cwd=None if cwd is None else _text("'cwd' must be a text", cwd, where),
    )
    if unknown:
        _log.warning("%s: ignored what this package does not know: %s", where, ", ".join(map(repr, unknown)))
    return server


def _text(rule: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where}: {rule}")
    return _expand(value, where)


def _expand(text: str, where: str) -> str:
    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if default is not None:
            return os.environ.get(name) or default
        if name not in os.environ:
            raise ValueError(f"{where}: the environment variable {name} in {text!r} is not set")
        return os.environ[name]

    return _VARIABLE.sub(value, text)
