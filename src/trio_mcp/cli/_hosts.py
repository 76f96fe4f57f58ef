"""The commands `hosts`, `servers` and `install`: the files in which the MCP hosts of this machine keep their servers.

Rules of this file:

1. A file that this program cannot read as its host does is never changed.
2. A change adds or replaces one entry, and leaves every other character of the file as it is. The old file is kept as
   a copy, and the new one takes its place at once, with the same permissions.
3. Values of `env` and `headers`, the queries of URLs, and the arguments whose names say so (``--token x``) are secrets,
   and are not listed.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from attrs import field, frozen

from ..types import JSONObject
from ..wire import is_array, is_object
from ._errors import UsageError
from ._jsonc import Document, read_document
from ._output import Notes, Output

__all__ = ["HOSTS", "User", "description_of", "install", "list_hosts", "list_servers", "user_files"]


# --- The hosts ---


@frozen
class Host:
    """A program that uses MCP servers, and the form of its files."""

    name: str
    title: str
    folder_file: str = ""
    """The file of a project, relative to its folder; empty if the host has none."""
    table: str = "mcpServers"
    """The member of a file that holds the servers by name."""
    has_type: bool = True
    """True if an entry states that the server is started as a process."""
    allows_comments: bool = True
    hint: str = ""
    """The remark on how a change takes effect."""


HOSTS: Final[Mapping[str, Host]] = {
    host.name: host
    for host in (
        Host(
            "claude-desktop",
            "Claude Desktop",
            has_type=False,
            allows_comments=False,
            hint="quit Claude Desktop and start it again",
        ),
        Host("claude-code", "Claude Code", ".mcp.json", allows_comments=False, hint="start Claude Code again"),
        Host("cursor", "Cursor", ".cursor/mcp.json", hint="enable the server in the settings of Cursor"),
        Host("vscode", "VS Code", ".vscode/mcp.json", "servers", hint="start it with 'MCP: List Servers' in VS Code"),
        Host(
            "json",
            "a program with this file",
            "mcp.json",
            has_type=False,
            allows_comments=False,
            hint="start the program that reads it again",
        ),
    )
}
"""The hosts by the name that the command line uses."""


@frozen
class User:
    """The facts of a user that decide where hosts keep their files."""

    platform: str = sys.platform
    home: Path = field(factory=Path.home)
    environment: Mapping[str, str] = os.environ

    @property
    def settings(self) -> Path:
        """The folder in which applications keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self._folder("APPDATA", self.home / "AppData" / "Roaming")
        return self._folder("XDG_CONFIG_HOME", self.home / ".config")

    def _folder(self, variable: str, default: Path) -> Path:
        """Return the folder that an environment variable names."""
        named = Path(self.environment.get(variable, ""))
        return named if named.is_absolute() else default

    def claude_desktop_files(self) -> list[Path]:
        """Return the possible files of Claude Desktop; on Windows a packaged one has a folder of its own."""
        where = Path("Claude", "claude_desktop_config.json")
        packages = self._folder("LOCALAPPDATA", self.home / "AppData" / "Local") / "Packages"
        packaged = sorted(packages.glob("Claude_*")) if self.platform == "win32" else []
        return [*(package / "LocalCache" / "Roaming" / where for package in packaged), self.settings / where]

    def claude_code_file(self) -> Path:
        """Return the file of Claude Code."""
        return self._folder("CLAUDE_CONFIG_DIR", self.home) / ".claude.json"


def user_files(host: Host, user: User) -> list[Path]:
    """Return the files in which a host may keep the servers of a user; it uses the first that exists."""
    match host.name:
        case "claude-desktop":
            return user.claude_desktop_files()
        case "claude-code":
            return [user.claude_code_file()]
        case "cursor":
            return [user.home / ".cursor" / "mcp.json"]
        case "vscode":
            return [user.settings / "Code" / "User" / "mcp.json"]
        case _:
            return [Path(host.folder_file)]


def _text_of(path: Path) -> str | None:
    """Return the text of a file; None if there is no such file.

    Raises:
        ValueError: the file cannot be read, or is not a text; the message says why.
    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: the text is not UTF-8") from None


def _document_of(host: Host, text: str) -> Document:
    """Return the document of a file's text.

    Raises:
        ValueError: the host cannot read the file, or its table of servers is not one.
    """
    document = read_document(text)
    if not document.is_plain and not host.allows_comments:
        raise ValueError(f"has comments or trailing commas, which {host.title} cannot read")
    if not is_object(document.value):
        raise ValueError("expected a JSON object")
    if not is_object(document.value.get(host.table, {})):
        raise ValueError(f"{host.table!r} must be an object: the servers by name")
    return document


# --- The command hosts ---

_TABLES: Final = ("mcpServers", "servers")


@frozen
class _Row:
    """A server of a file; or a fault of the file, if the server has no name."""

    host: Host
    server: str
    words: str
    file: str


def list_hosts(options: argparse.Namespace) -> None:
    """Print the servers in the files of all hosts: those of the user, and those of the current folder."""
    user, output = User(), Output()
    rows = [row for host in HOSTS.values() for path in _files(host, user) for row in _rows(host, path)]
    if options.json:
        output.document({"servers": [_json(row) for row in rows]})
    elif rows:
        columns = ("host", "server", "command or URL", "file")
        output.table(columns, [(row.host.name, row.server, row.words, row.file) for row in rows])
    else:
        Notes().say("no host has a server")


_SETTINGS: Final = "settings.json"
"""The file beside `mcp.json` in which VS Code kept servers until 2025, and still finds them."""


def _files(host: Host, user: User) -> list[Path]:
    files = [*user_files(host, user), *([Path.cwd() / host.folder_file] if host.folder_file else [])]
    if host.name == "vscode":
        files += [path.with_name(_SETTINGS) for path in files]
    return list(dict.fromkeys(path.absolute() for path in files))


def _rows(host: Host, path: Path) -> Iterator[_Row]:
    try:
        text = _text_of(path)
        value: JSONObject = {} if text is None else _table_in(host, path, text)
    except ValueError as error:
        yield _Row(host, "", f"{error}", f"{path}")
        return
    if fault := _fault_of(host, value):
        yield _Row(host, "", fault, f"{path}")
    for name, entry in value.get(host.table, {}).items():
        yield _Row(host, name, description_of(entry), f"{path}")
    projects = value.get("projects") if host.name == "claude-code" else None
    for folder, project in projects.items() if is_object(projects) else ():
        servers = project.get("mcpServers") if is_object(project) else None
        for name, entry in servers.items() if is_object(servers) else ():
            yield _Row(host, name, description_of(entry), f"{path} ({folder})")


def _table_in(host: Host, path: Path, text: str) -> JSONObject:
    """Return the object in a file whose members are the table of servers and what concerns it."""
    if path.name != _SETTINGS:
        value: JSONObject = _document_of(host, text).value
        return value
    settings = read_document(text).value
    of_mcp = settings.get("mcp") if is_object(settings) else None
    return of_mcp if is_object(of_mcp) and is_object(of_mcp.get(host.table)) else {}


def _fault_of(host: Host, value: JSONObject) -> str:
    """Return what is wrong if a file has a table of servers, but not the one that its host reads."""
    other = next((name for name in _TABLES if name in value and host.table not in value), None)
    return "" if other is None else f"{host.title} reads the member {host.table!r}, but this file has {other!r}"


def _json(row: _Row) -> dict[str, str]:
    members = {"host": row.host.name, "file": row.file}
    return members | ({"server": row.server, "target": row.words} if row.server else {"error": row.words})


def description_of(entry: object) -> str:
    """Return the command or the URL of an entry, without its secrets."""
    if not is_object(entry):
        return "not valid: expected an object"
    command, args, url = entry.get("command"), entry.get("args", []), entry.get("url")
    if isinstance(command, str):
        words = " ".join(_public_words([command, *map(str, args if is_array(args) else [args])]))
    elif isinstance(url, str):
        words = _public(url)
    else:
        return "not valid: it has neither 'command' nor 'url'"
    return f"{words} (disabled)" if entry.get("disabled") is True else words


_SECRET: Final = re.compile(
    r"(?:^|[-_.])(?:api-?key|key|token|secret|pass|passwd|password|pwd|pat|credentials?|auth|authorization|cookie|headers?)$"
    r"|(?:key|token|secret|password)$",
    re.IGNORECASE,
)
"""The end of the names of arguments whose values are secrets."""
_NAMED: Final = re.compile(r"(?P<name>-{0,2}[A-Za-z][\w.-]*)(?P<sign>=|:\s*)(?P<value>.+)", re.DOTALL)
_HIDDEN: Final = "***"


def _public_words(words: Sequence[str]) -> Iterator[str]:
    """Return the words of a command as a shell has them, without the values of secrets."""
    follows_name = False
    for word in words:
        named = _NAMED.fullmatch(word)
        if follows_name and not word.startswith("--"):
            yield _HIDDEN
        elif named is not None and _SECRET.search(named["name"]):
            yield shlex.quote(named["name"] + named["sign"].rstrip()) + _HIDDEN
        else:
            yield shlex.quote(_public(word) if "://" in word else word)
        follows_name = word.startswith("-") and named is None and bool(_SECRET.search(word))


def _public(url: str) -> str:
    """Return a URL without a query and a password, which may be secrets."""
    try:
        parts = urlsplit(url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    except ValueError:
        return "not valid: its 'url' is not a URL"


# --- The command servers ---

_OF_JSON: Final = (dict, list, str, int, float, NoneType)
"""The types of values that a JSON file has."""


def list_servers(options: argparse.Namespace) -> None:
    """Print the servers of a file.

    Raises:
        UsageError: the file cannot be read, has no table of servers, or gives a name twice.
    """
    from ..client import read_server_table  # noqa: PLC0415  # the other commands of this file do not need it

    output = Output()
    try:
        table = trio.run(read_server_table, options.file)
        for name, entry in table.entries.items():
            if not isinstance(entry, _OF_JSON):  # it takes the place of entries with the same name
                table.opener(name)  # raises
    except OSError as error:
        raise UsageError(f"cannot read {options.file}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    rows = [(name, description_of(entry)) for name, entry in table.entries.items()]
    rows += [(name, "(disabled)") for name in table.disabled]
    if options.json:
        output.document({"servers": [{"server": name, "target": words} for name, words in rows]})
    elif rows:
        output.table(("server", "command or URL"), rows)
    else:
        Notes().say(f"{options.file} has no servers")


# --- The command install ---

_UNSUITABLE: Final = re.compile(r"[^A-Za-z0-9_-]+")


def install(options: argparse.Namespace) -> None:
    """Add a server to the file of a host.

    Raises:
        UsageError: the program has no server, or the file cannot be changed; it is then as it was before.
    """
    host = HOSTS[options.host]
    path = _file_to_change(host, User()) if options.file is None else Path(options.file)
    name, entry = _entry(options, host)
    try:
        _change(path, host, name, entry, options)
    except ValueError as error:
        raise UsageError(f"{path}: {error}; the file is left as it is") from None


def _change(path: Path, host: Host, name: str, entry: Mapping[str, Any], options: argparse.Namespace) -> None:
    output, notes = Output(), Notes()
    old = _text_of(path)
    document = _document_of(host, old or "")
    present = document.value.get(host.table, {}).get(name)
    if present == entry:
        notes.say(f"{path} has this server already")
        return
    new = document.with_member([host.table, name], entry)
    assert read_document(new).value[host.table][name] == entry  # rule 1
    output.text(_diff(path, old or "", new))
    if fault := _fault_of(host, document.value):
        notes.say(f"{fault}: its servers are not found")
    if present is not None and not options.force:
        raise UsageError(f"{path} has another server {name!r}; replace it with --force, or choose another --name")
    if options.dry_run:
        notes.say("nothing was written, because of --dry-run")
        return
    if not path.parent.is_dir():
        notes.say(f"{host.title} may not be installed: there was no folder {path.parent}")
    copy = _replace(path, old, new)
    if copy is not None:
        notes.say(f"the old file is kept as {copy}")
    notes.say(f"written: {path}; {host.hint}")


def _file_to_change(host: Host, user: User) -> Path:
    """Return the file that a host uses, or would use if it had one."""
    files = user_files(host, user)
    in_folder = [path for path in files if path.parent.is_dir()]
    return [*(path for path in files if path.is_file()), *in_folder, files[-1]][0]


def _entry(options: argparse.Namespace, host: Host) -> tuple[str, JSONObject]:
    """Return the name of the server, and its entry; the program is imported, which shows that it can be served."""
    from ._commands import texts_of  # noqa: PLC0415  # it loads the client half of this package
    from ._serve import place_and_name, server_of  # noqa: PLC0415  # it loads the server half of this package

    place, variable = place_and_name(options.server)
    if not place.endswith(".py"):
        raise UsageError(
            f"{options.server}: name the file of the program, as in server.py: a host starts it in another folder"
        )
    server = server_of(options.server)
    name = _UNSUITABLE.sub("-", server.info.name).strip("-") if options.name is None else options.name
    if not name or _UNSUITABLE.search(name):
        raise UsageError(f"{name!r} is not a name for hosts: use letters, digits, '-' and '_', as in --name notes")
    where = f"{Path(place).resolve()}{':' if variable else ''}{variable}"
    try:
        where.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the path of {place} is not UTF-8, which JSON requires") from None
    entry: JSONObject = {"type": "stdio"} if host.has_type else {}
    entry |= {"command": sys.executable, "args": ["-m", "trio_mcp", "serve", where]}
    return name, entry | ({"env": texts_of(options.env)} if options.env else {})


def _diff(path: Path, old: str, new: str) -> str:
    lines = difflib.unified_diff(_lines(old), _lines(new), f"{path}", f"{path}", lineterm="")
    return "\n".join(lines)


def _lines(text: str) -> Sequence[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def _replace(path: Path, old: str | None, new: str) -> Path | None:
    """Write a file in the place of the old one; return the path of the copy of the old one.

    Raises:
        UsageError: the file cannot be written, is read-only, or has changed meanwhile.
        ValueError: the file can no longer be read.
    """
    path = path.resolve()  # the file that a link leads to
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600 if old is None else stat.S_IMODE(path.stat().st_mode)
        if not mode & stat.S_IWUSR:  # a folder lets its owner replace it nevertheless
            raise UsageError(f"{path} is read-only, and is left as it is")
        with _written_beside(path, new, mode) as written:
            if _text_of(path) != old:
                raise UsageError(f"{path} has changed meanwhile; run the command again")
            copy = None if old is None else _kept(path, old, mode)
            written.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; the file is left as it is") from None
    return copy


@contextmanager
def _written_beside(path: Path, text: str, mode: int) -> Generator[Path]:
    """Write a text to a temporary file in the folder of *path*."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(descriptor)
        written.chmod(mode)
        yield written
    finally:
        written.unlink(missing_ok=True)


def _kept(path: Path, old: str, mode: int) -> Path:
    """Write a copy of the old file beside it; earlier copies stay."""
    number = 1
    while (copy := path.with_name(f"{path.name}.bak{number}")).exists():
        number += 1
    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(old.encode())
    copy.chmod(mode)
    return copy
