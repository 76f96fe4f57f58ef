"""The ``mcpServers`` file, the widespread format for the commands and URLs of servers.

The file is shared by many programs. An invalid entry is reported for that entry alone, so that the others can be used,
and members for other programs are ignored.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import trio
from attrs import field, frozen

from .. import transports
from ..abc import ClientAuth, TransportOpener

__all__ = [
    "HttpServer",
    "ServerTable",
    "TableSource",
    "load_server_table",
    "opener_from_entry",
    "read_server_table",
    "server_from_entry",
]


# --- One entry ---

_log = logging.getLogger("trio_mcp.client")

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ARGS = "'args' must be a list of strings"
_ENV = "'env' must be an object of strings"
_HEADERS = "'headers' must be an object of strings"
_KINDS = ("stdio", "http", "sse", "streamable-http", "streamableHttp")
"""The server types of common hosts. The client finds out by itself which HTTP transport a server has."""
_OF_ALL = {"type", "disabled"}
_OF_COMMANDS = _OF_ALL | {"command", "args", "env", "cwd"}
_OF_URLS = _OF_ALL | {"url", "headers"}


@frozen
class HttpServer:
    """The address of a server that is reached over HTTP."""

    url: str
    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    """Header fields that are sent with each request; they may contain secrets."""


def server_from_entry(entry: object, *, where: str = "server entry") -> transports.StdioServer | HttpServer:
    """Return the server that *entry* describes.

    A server that is started has ``command`` (a string), ``args`` (strings), ``env`` (strings by name) and ``cwd`` (a
    string); a server that is reached over HTTP has ``url`` (a string) and ``headers`` (strings by name). ``type`` may
    state the kind. In every string, ``${NAME}`` and ``${env:NAME}`` stand for the environment variable NAME of this
    process; ``${NAME:-TEXT}`` is TEXT if that variable is not set or empty. Unknown members are ignored, and named in
    one logged warning.

    Args:
        entry: the entry, as it is in the file.
        where: the name of the entry in errors and in the log.

    Raises:
        ValueError: a member is missing or has a wrong type, or a variable is not set; the message names it.
    """
    if isinstance(entry, _Twice):
        raise ValueError(f"{where}: the name is given twice; rename one of the two entries")
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: expected an object with the member 'command' or 'url'")
    members = cast("Mapping[str, Any]", entry)
    kind = members.get("type", "stdio" if "url" not in members else "http")
    if kind not in _KINDS:
        raise ValueError(f"{where}: 'type' {kind!r} is not supported; it may be {', '.join(map(repr, _KINDS))}")
    if type(members.get("disabled", False)) is not bool:
        raise ValueError(f"{where}: 'disabled' must be true or false")
    if "command" in members and "url" in members:
        raise ValueError(f"{where}: an entry has either 'command' or 'url', not both")
    known = _OF_COMMANDS if kind == "stdio" else _OF_URLS
    unknown = sorted(str(name) for name in members if name not in known)
    server = _stdio_server(members, where, unknown) if kind == "stdio" else _http_server(members, where, unknown)
    if unknown:
        _log.warning("%s: ignored unknown members: %s", where, ", ".join(map(repr, unknown)))
    return server


def opener_from_entry(
    entry: object,
    *,
    where: str = "server entry",
    auth: ClientAuth | None = None,
    stderr: transports.StderrTarget = None,
) -> TransportOpener:
    """Return an opener for the server that *entry* describes; see `server_from_entry`.

    Args:
        stderr: where the standard error of a process goes.

    Raises:
        ValueError: also if *auth* is given for a server that is started, or for one with a header that holds
            credentials.
    """
    server = server_from_entry(entry, where=where)
    if isinstance(server, transports.StdioServer):
        if auth is not None:
            raise ValueError(
                f"{where}: only a server with a 'url' accepts credentials; this one is started as a process"
            )
        return transports.stdio_transport(server, stderr)
    try:
        return transports.http_transport(server.url, headers=server.headers, auth=auth)
    except ValueError as exc:
        raise ValueError(f"{where}: {exc}") from None


def _stdio_server(members: Mapping[str, Any], where: str, unknown: Sequence[str]) -> transports.StdioServer:
    _require(members, "command", where, unknown)
    args, cwd = members.get("args", []), members.get("cwd")
    if not isinstance(args, list | tuple):
        raise ValueError(f"{where}: {_ARGS}")
    return transports.StdioServer(
        [
            _expand(members["command"], where),
            *(_string(_ARGS, arg, where) for arg in cast("Sequence[object]", args)),
        ],
        env=_strings(_ENV, members.get("env", {}), where),
        cwd=None if cwd is None else _string("'cwd' must be a string", cwd, where),
    )


def _http_server(members: Mapping[str, Any], where: str, unknown: Sequence[str]) -> HttpServer:
    _require(members, "url", where, unknown)
    return HttpServer(_expand(members["url"], where), _strings(_HEADERS, members.get("headers", {}), where))


def _require(members: Mapping[str, Any], name: str, where: str, unknown: Sequence[str]) -> None:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        misspelt = "".join(f"; {each!r} is not supported{_instead_of(each)}" for each in unknown)
        raise ValueError(f"{where}: {name!r} is required, and must be a string{misspelt}")


def _instead_of(member: str) -> str:
    return ": write 'url'" if member.lower().endswith("url") else ""  # `serverUrl` and `httpUrl` of other programs


def _strings(rule: str, value: object, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: {rule}")
    return {str(name): _string(rule, text, where) for name, text in cast("Mapping[object, object]", value).items()}


def _string(rule: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where}: {rule}")
    return _expand(value, where)


def _expand(text: str, where: str) -> str:
    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if default is not None:
            return os.environ.get(name) or default
        if name not in os.environ:
            raise ValueError(f"{where}: the environment variable {name} in {match[0]!r} is not set")
        return os.environ[name]

    return _VARIABLE.sub(value, text)


TableSource: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""The path of an ``mcpServers`` file, or its contents: an object with the member ``mcpServers``."""

_TABLES = ("mcpServers", "servers")


@frozen
class ServerTable:
    """The contents of an ``mcpServers`` file: the unread entries by server name, in the file's order."""

    where: str
    """The name of the table in errors: the path of the file."""
    entries: Mapping[str, object]
    """The enabled servers."""
    disabled: tuple[str, ...] = ()
    """The servers whose entry contains ``"disabled": true``."""

    def opener(
        self, name: str, *, auth: ClientAuth | None = None, stderr: transports.StderrTarget = None
    ) -> TransportOpener:
        """Return an opener for the server *name*.

        Args:
            name: the server's name in the table.
            auth: the credentials; only for a server that is reached over HTTP.
            stderr: where the standard error of a process goes.

        Raises:
            KeyError: the table has no such server, or it is disabled.
            ValueError: the entry is invalid; the message names the file, the server and the member.
        """
        where = f"{self.where}: server {name!r}"
        return opener_from_entry(self.entries[name], where=where, auth=auth, stderr=stderr)


async def read_server_table(source: TableSource) -> ServerTable:
    """Read the table of servers from a file, or from the contents of such a file.

    The table is the member ``mcpServers`` or, if there is none, ``servers``, as in Visual Studio Code. Other members of
    the file are ignored.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not JSON, or has no such table; the message names the file.
        TypeError: *source* is neither a path nor a mapping.
    """
    if isinstance(source, Mapping):
        return _table(source, "the table of servers", {})
    _check_path(source)
    return _table_in(await trio.Path(source).read_bytes(), os.fspath(source))


def load_server_table(source: TableSource) -> ServerTable:
    """Read the table of servers as `read_server_table` does, without an event loop; raises the same exceptions.

    Args:
        source: the path of the file, or its content: a mapping from the names of servers to their entries.
    """
    if isinstance(source, Mapping):
        return _table(source, "the table of servers", {})
    _check_path(source)
    return _table_in(Path(source).read_bytes(), os.fspath(source))


def _check_path(source: object) -> None:
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"expected the path of an mcpServers file, or its contents, and got {type(source).__name__}")


def _table_in(content: bytes, where: str) -> ServerTable:
    repeated: dict[int, Sequence[str]] = {}

    def members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        repeated[id(value)] = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        return value

    try:
        value = json.loads(content, object_pairs_hook=members)
    except RecursionError:
        raise ValueError(f"{where}: JSON that is nested too deeply") from None
    except ValueError as exc:
        cure = f"; open_client([sys.executable, {where!r}]) opens one server" if where.endswith(".py") else ""
        raise ValueError(f"{where}: not JSON: {exc}{cure}") from None
    return _table(value, where, repeated)


class _Twice:
    """Takes the place of the entries of servers that have the same name."""


def _table(value: object, where: str, repeated: Mapping[int, Sequence[str]]) -> ServerTable:
    """Return the table of servers in the value of a file.

    Args:
        repeated: the names that an object of the file has twice, by the id of the object; Python keeps the last ones.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: expected an object with the member 'mcpServers'")
    members = cast("Mapping[str, object]", value)
    found = next((name for name in _TABLES if name in members), None)
    if found is None:
        raise ValueError(
            f"{where}: has neither a member 'mcpServers' nor 'servers': write {{'mcpServers': {{name: entry, ...}}}}"
        )
    if not isinstance(members[found], Mapping):
        raise ValueError(f"{where}: {found!r} must be an object: the servers by name")
    table = cast("Mapping[str, object]", members[found])
    entries: dict[str, object] = {**table, **{name: _Twice() for name in repeated.get(id(table), ())}}
    disabled = tuple(name for name, entry in entries.items() if _is_disabled(entry))
    return ServerTable(where, {name: entries[name] for name in entries if name not in disabled}, disabled)


def _is_disabled(entry: object) -> bool:
    return isinstance(entry, Mapping) and cast("Mapping[str, object]", entry).get("disabled") is True
