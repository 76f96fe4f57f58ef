"""The terms of a mount: the way in which a gateway reaches one server, and the part of it that callers see.

Rules of this file:

1. Patterns are those of shells: ``*``, ``?`` and ``[...]``. They are compared with names, and with the URIs of
   resources, as the server has them.
2. What is not shown cannot be used either. If a mount has patterns, only resources that are listed, or whose URI
   matches a listed template, can be read.
3. An argument that is fixed does not appear in the schemas of tools, and replaces whatever a caller sends.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import trio
from attrs import evolve, field, frozen

from .. import Access, Client, ClientOptions, Restart, Server, start_client, start_http_client, types
from ..abc import Answerer, ClientAuth, Tap
from ..lowlevel import ServerTable, load_server_table, sanitized_name
from ..wire import JsonObject, is_array, is_object

__all__ = ["Credentials", "Edit", "Mount", "Share", "Start", "Visible", "free_label", "is_table", "starts_of"]

_log = logging.getLogger("trio_mcp.gateway")

Share: TypeAlias = Literal["all", "principal", "session"]
"""The callers that share one connection to a server: all, those of one principal, or those of one connection."""
Credentials: TypeAlias = "ClientAuth | Callable[[Access | None], ClientAuth | None]"
"""Credentials for a server, or a plain function that returns those for a caller."""
Start: TypeAlias = Callable[[trio.Nursery, ClientAuth | None, ClientOptions], Awaitable[Client]]
"""Connects to a server in a nursery."""
Edit: TypeAlias = Callable[[types.Tool], types.Tool | None]
"""Returns a tool with another description, title or annotations, or None to leave it out."""
Visible: TypeAlias = Callable[[Any, Access | None], bool]
"""Decides whether a caller sees a tool, prompt, resource or resource template."""


@frozen(eq=False, kw_only=True)
class Mount:
    """The terms on which one server is part of a gateway. `Gateway.mount` describes the options."""

    name: str
    """The name of the server in the gateway, for its status and for errors."""
    start: Start
    label: str
    """The beginning of a URI that names a resource of this server where its own URI would name another one."""
    tap: Tap | None = None
    """Sees each message to and from the server."""
    prefix: str | None = None
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(factory=dict[str, str])
    fix: Mapping[str, Any] = field(factory=dict[str, Any])
    edit: Edit | None = None
    visible: Visible | None = None
    share: Share = "all"
    auth: Credentials | None = field(default=None, repr=False)
    restart: Restart | None = None
    timeout: float | None = None
    at_start: bool = True
    idle: float | None = None
    max_concurrency: int | None = None
    per_second: float | None = None

    @property
    def has_patterns(self) -> bool:
        """True if only some of the server is shown."""
        return self.only is not None or bool(self.without)

    @property
    def shows_all(self) -> bool:
        """True if every caller sees everything of the server."""
        return self.visible is None and not self.has_patterns

    def shows(self, *names: str) -> bool:
        """Return True if something with these names is shown (rule 1)."""
        if any(fnmatchcase(name, pattern) for name in names for pattern in self.without):
            return False
        return self.only is None or any(fnmatchcase(name, pattern) for name in names for pattern in self.only)

    def edited(self, tool: types.Tool) -> types.Tool | None:
        """Return a tool as it is shown, with its own name; None if it is left out."""
        if not self.shows(tool.name):
            return None
        if self.fix:
            tool = evolve(tool, input_schema=_without_properties(tool.input_schema, self.fix))
        return tool if self.edit is None else _called("edit", self.edit, tool)

    def is_visible(self, definition: Any, access: Access | None) -> bool:
        """Return True if a caller sees a tool, prompt, resource or template; False if that cannot be decided."""
        if self.visible is None:
            return True
        try:
            return bool(_called("visible", self.visible, definition, access))
        except Exception:  # noqa: BLE001 # it may raise anything
            _log.exception("server %r: visible= has failed; %r is hidden", self.name, definition.name)
            return False

    def fixed(self, tool: types.Tool) -> Mapping[str, Any]:
        """Return the arguments of a tool that are fixed, as the server has the tool."""
        properties: Any = tool.input_schema.get("properties")
        return {name: value for name, value in self.fix.items() if is_object(properties) and name in properties}

    def arguments(self, fixed: Mapping[str, Any], arguments: Any) -> Any:
        """Return the arguments of a call, with those that are fixed (rule 3).

        Args:
            fixed: the arguments of the tool that are fixed; see `fixed`.
            arguments: as the caller sent them. What it sends for others that are fixed is replaced, too.
        """
        given: JsonObject = arguments if is_object(arguments) else {}
        replaced = {name: value for name, value in self.fix.items() if name in given}
        return {**given, **fixed, **replaced} if fixed or replaced else arguments

    def credentials(self, access: Access | None) -> ClientAuth | None:
        """Return the credentials with which the server is reached for a caller."""
        auth: Any = self.auth
        return cast("ClientAuth | None", _called("auth", auth, access) if callable(auth) else auth)


def _called(option: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function of the application; one that tries to exit the process fails like any other."""
    try:
        return function(*arguments)
    except SystemExit as failure:
        raise RuntimeError(f"{option}= tried to exit the process") from failure


def free_label(taken: Collection[str], *names: str) -> str:
    """Return the label for a server that has one of these names: the first that is not taken, or one with a number."""
    labels = [_label(name) for name in names]
    numbered = (f"{labels[0]}-{number}" for number in count(2))
    return next(label for label in chain(labels, numbered) if label not in taken)


def _label(name: str) -> str:
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in name.lower())
    return plain if plain[:1].isalpha() else f"s{plain}"


def _without_properties(schema: Mapping[str, Any], names: Mapping[str, Any]) -> JsonObject:
    changed = dict(schema)
    if is_object(changed.get("properties")):
        changed["properties"] = {name: each for name, each in changed["properties"].items() if name not in names}
    if is_array(changed.get("required")):
        changed["required"] = [name for name in changed["required"] if name not in names]
        if not changed["required"]:
            del changed["required"]
    return changed


# --- Targets ---


def is_table(target: object) -> bool:
    """Return True if *target* is an ``mcpServers`` file, or its contents."""
    if isinstance(target, Mapping):
        return "mcpServers" in target or "servers" in target
    return isinstance(target, os.PathLike) or (isinstance(target, str) and "://" not in target)


def starts_of(target: Any) -> Mapping[str, Start]:
    """Return how to connect to each server that *target* names, by name.

    Raises:
        OSError: the file of servers cannot be read.
        ValueError: the file, or an entry of it, is not valid.
        TypeError: *target* is of a type that cannot be connected to.
    """
    if is_table(target):
        table = load_server_table(target)
        for name in table.entries:
            table.opener(name)  # raises if the entry is not valid
        return {name: partial(_start_entry, table, name) for name in table.entries}
    if isinstance(target, str):
        return {urlsplit(target).hostname or target: partial(_start_url, target)}
    if isinstance(target, Mapping):
        table = ServerTable("the entry", {"server": cast("Mapping[str, Any]", target)})
        table.opener("server")
        return {_name_of_entry(cast("Mapping[str, Any]", target)): partial(_start_entry, table, "server")}
    if isinstance(target, Server):
        return {target.info.name: partial(_start_other, target)}
    if isinstance(target, Sequence) and not isinstance(target, bytes):
        return {_program(target): partial(_start_other, target)}  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(target, type) or not (callable(target) or isinstance(target, trio.abc.Stream | Answerer)):
        raise TypeError(f"mount({target!r}): expected a URL, a command, a file or an entry of servers, or a server")
    return {sanitized_name(getattr(target, "__name__", type(target).__name__)): partial(_start_other, target)}


async def _start_entry(
    table: ServerTable, name: str, nursery: trio.Nursery, auth: ClientAuth | None, options: ClientOptions
) -> Client:
    return await start_client(nursery, table.opener(name, auth=auth, stderr=options.get("stderr")), **options)


async def _start_url(url: str, nursery: trio.Nursery, auth: ClientAuth | None, options: ClientOptions) -> Client:
    return await start_http_client(nursery, url, auth=auth, **options)


async def _start_other(target: Any, nursery: trio.Nursery, auth: ClientAuth | None, options: ClientOptions) -> Client:
    if auth is not None:
        raise ValueError("auth=: only a server that is reached by a URL accepts credentials")
    return await start_client(nursery, target, **options)


def _name_of_entry(entry: Mapping[str, Any]) -> str:
    url = entry.get("url")
    if isinstance(url, str):
        return urlsplit(url).hostname or "server"
    return _program([entry.get("command"), *entry.get("args", ())])


_INTERPRETERS = ("python", "node", "npx", "uvx")


def _program(command: Sequence[Any]) -> str:
    """Return a name for a command: that of the script or module which an interpreter runs, or of the program."""
    words = [Path(str(word)).name for word in command if not str(word).startswith("-")]
    if len(words) > 1 and (str(command[0]) == sys.executable or words[0].startswith(_INTERPRETERS)):
        del words[0]
    chosen = words[0] if words else "server"
    return sanitized_name(chosen.removesuffix(".py").removesuffix(".js")) or "server"
