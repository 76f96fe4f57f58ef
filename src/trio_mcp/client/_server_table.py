"""The ``mcpServers`` file, the widespread way to write down how servers are started, or reached.

The file belongs to many programs. What is wrong with one entry is said about that entry, so that the others can be
used; and members that mean something to other programs only are left alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import trio
from attrs import frozen

from ..abc import ClientAuth, TransportOpener
from ._server_entry import opener_from_entry

__all__ = ["ServerTable", "TableSource", "read_server_table"]

TableSource: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""The path of an ``mcpServers`` file, or what such a file holds: an object with the member ``mcpServers``."""

_TABLES = ("mcpServers", "servers")


@frozen
class ServerTable:
    """What an ``mcpServers`` file says: the entries by server name, in the file's order, none of them read yet."""

    where: str
    """What the table is called in errors: the path of the file."""
    entries: Mapping[str, object]
    """The servers that are to be used."""
    disabled: tuple[str, ...] = ()
    """The servers whose entry says ``"disabled": true``."""

    def opener(self, name: str, *, auth: ClientAuth | None = None) -> TransportOpener:
        """Return what connects to the server *name*.

        Args:
            name: of the server, in the table.
            auth: shows it who asks; it must be a server that is reached over HTTP.

        Raises:
            KeyError: the table has no such server, or it is disabled.
            ValueError: its entry makes no sense; the text names the file, the server and the member.
        """
        return opener_from_entry(self.entries[name], where=f"{self.where}: server {name!r}", auth=auth)


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
