"""The skills of servers as a client sees them: entries that are checked, and files that are verified at every read.

Rules of this file:

1. No file is requested before the application reads it: not by connecting, listing, looking at an entry or approving.
2. Whatever is read is compared with the entry that the application holds: size, then digest, then the frontmatter of
   SKILL.md. What differs is not returned, and the skill is not read any more.
3. A skill is identified by its server, as the application calls it, and its URI; never by its name. It is read from the
   server that listed it. Its scheme means nothing.
4. The path of a file cannot lead out of the folder of the skill, on any system.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import trio
from attrs import define, field

from .. import MissingCapability, RemoteProtocolError, SkillChanged
from ..types import BlobResourceContents, JSONObject, ReadResourceResult
from ..wire import encode, is_uri
from . import types
from ._folder import SKILL_FILE, digest_of, is_safe_path
from ._frontmatter import FrontmatterError, frontmatter_difference, is_skill_name

if TYPE_CHECKING:
    from .. import Client

__all__ = ["MOST_PAGES", "ClientSkill", "get_skill", "list_skills", "list_skills_of_many"]

MOST_PAGES = 1000
"""The number of pages after which a list of skills is considered endless."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_REPORTED = 1000
"""The number of characters of a server's value in the log."""

_log = logging.getLogger("trio_mcp.skills")


@define(eq=False, repr=False)
class ClientSkill:
    """A skill of a server: its entry, and the files that the entry names. `Client.skills` and `Client.skill` make it.

    It holds the entry as the server gave it. `read` verifies every file against it, whenever it is read. If the server
    has another version meanwhile, reading raises `SkillChanged`; `Client.skill` gets the new entry.
    """

    _client: Client
    entry: types.Skill
    """The entry as it was received."""
    server: str | None
    """The application's name of the server; None if it has not given one. With `uri` it identifies the skill."""
    files: Mapping[str, types.SkillResource] = field(init=False)
    """The files by path below the folder of the skill, such as ``references/FORMS.md``; empty if `is_dynamic`."""
    _changed: SkillChanged | None = field(default=None, init=False)
    """The reason why it is not read any more."""

    def __attrs_post_init__(self) -> None:
        self.files = _checked_files(self.entry)

    def __repr__(self) -> str:
        of_server = "" if self.server is None else f" of {self.server!r}"
        return f"<ClientSkill {self.uri!r}{of_server}>"

    @property
    def uri(self) -> str:
        """The URI of its SKILL.md."""
        return self.entry.uri

    @property
    def name(self) -> str:
        """The name; several skills may have the same."""
        name: str = self.entry.frontmatter["name"]
        return name

    @property
    def description(self) -> str:
        """The purpose of the skill, and when to use it, as the server says. Do not trust it more than the server."""
        description: str = self.entry.frontmatter["description"]
        return description

    @property
    def frontmatter(self) -> JSONObject:
        """All members of the frontmatter of SKILL.md."""
        return self.entry.frontmatter

    @property
    def is_dynamic(self) -> bool:
        """True if the server makes the files anew for each read, so that they have no digests and are not verified."""
        return self.entry.resources == "dynamic"

    @property
    def digest(self) -> str | None:
        """A digest of all that the entry says: the frontmatter, and the URI and digest of each file.

        It changes if anything in the skill changes; an approval is bound to it. None if the skill `is_dynamic`.
        """
        if self.is_dynamic:
            return None
        files = sorted([each.uri, each.digest] for each in self.files.values())
        return f"sha256:{hashlib.sha256(encode([self.frontmatter, files])).hexdigest()}"

    async def read(self, path: str = SKILL_FILE, *, accept_unverified: bool = False) -> str:
        """Request a file, and return its text after it was verified. Each call requests it again.

        Args:
            path: the path of the file below the folder of the skill; by default its SKILL.md, with the frontmatter.
            accept_unverified: read also from a skill that `is_dynamic`. Of its files nothing is verified but the
                frontmatter of SKILL.md: the server may return something else each time.

        Raises:
            SkillChanged: the file is not what the entry says, the entry has no such file, or an earlier read has found
                such a difference. Or the skill `is_dynamic`, and *accept_unverified* is not set.
            ValueError: the file is not text; use `read_bytes`.
            ErrorResponse: the server does not serve the file.

        Specification: https://modelcontextprotocol.io/extensions/skills/overview
        """
        data = await self.read_bytes(path, accept_unverified=accept_unverified)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path!r} of skill {self.name!r} is not text; use read_bytes()") from None

    async def read_bytes(self, path: str = SKILL_FILE, *, accept_unverified: bool = False) -> bytes:
        """Request a file, and return its bytes after they were verified; otherwise as `read`.

        Raises:
            SkillChanged: the file is not what the entry says.
        """
        if self._changed is not None:
            raise copy(self._changed)
        expected = self.files.get(path)
        if expected is not None:
            uri = expected.uri
        elif self.is_dynamic and accept_unverified and is_safe_path(path):
            uri = f"{_folder_of(self.uri)}/{quote(path)}"
        else:
            raise SkillChanged(self.uri, self._refusal_of(path, accept_unverified=accept_unverified))
        result = await self._client.read_resource(uri, fresh=True)
        try:
            data = _bytes_of(uri, result)
            if expected is not None:
                _verify(expected, data)
            if uri == self.uri:
                self._verify_frontmatter(data)
        except SkillChanged as change:
            self._changed = change
            raise
        return data

    async def save(self, directory: str | Path) -> Path:
        """Read all files, verify them, and write them into a new folder of the skill's name; return that folder.

        The folder appears when it is complete: if a file cannot be verified or written, or this is cancelled, nothing
        is left.

        Args:
            directory: the folder in which to make the new one; it is made too if there is none.

        Raises:
            FileExistsError: there is such a folder already.
            SkillChanged: a file is not what the entry says.
            OSError: a file cannot be written.

        Raises also what `read` raises.
        """
        if self.is_dynamic:
            raise SkillChanged(self.uri, "it is dynamic: it has no list of files to save")
        contents = {path: await self.read_bytes(path) for path in dict.fromkeys((SKILL_FILE, *self.files))}
        return await trio.to_thread.run_sync(_write, Path(directory), self.name, contents)

    def _refusal_of(self, path: str, *, accept_unverified: bool) -> str:
        if self.is_dynamic and accept_unverified:
            return f"{path!r:.200} is not a safe path below the folder of the skill"
        if self.is_dynamic:
            return (
                "its files have no digests, so nothing can be verified; accept_unverified=True reads them all the same"
            )
        known = ", ".join(sorted(self.files)[:20])
        return f"{path!r:.200} is not a file of the skill; its files are {known}"

    def _verify_frontmatter(self, data: bytes) -> None:
        try:
            path = frontmatter_difference(dict(self.frontmatter), data.decode())
        except UnicodeDecodeError:
            raise SkillChanged(self.uri, "it is not UTF-8 text") from None
        except FrontmatterError as error:
            raise SkillChanged(self.uri, f"its frontmatter is not valid: {error}") from None
        if path is not None:
            raise SkillChanged(self.uri, f"its frontmatter differs from that of the entry at {path:.200}")


# --- Checks ---


def _folder_of(uri: str) -> str:
    return uri.removesuffix(f"/{SKILL_FILE}")


def _checked_files(entry: types.Skill) -> Mapping[str, types.SkillResource]:
    """Return the files of an entry by path.

    Raises:
        RemoteProtocolError: the entry is not valid.
    """
    fault = next(_faults_of(entry), None)
    files: dict[str, types.SkillResource] = {}
    for each in () if fault or entry.resources == "dynamic" else entry.resources:
        path = unquote(each.uri.removeprefix(f"{_folder_of(entry.uri)}/"))
        fault = fault or _fault_of_file(entry, each, path, files)
        files[path] = each
    if fault is None and entry.resources != "dynamic" and SKILL_FILE not in files:
        fault = f"its resources do not contain {SKILL_FILE}"
    if fault is not None:
        raise RemoteProtocolError(f"the entry of skill {entry.uri!r:.{_MOST_REPORTED}} is not valid: {fault}")
    return files


def _faults_of(entry: types.Skill) -> Iterator[str]:
    for member in ("name", "description"):
        value = entry.frontmatter.get(member)
        if not isinstance(value, str) or not value.strip():
            yield f"its frontmatter has no {member}"
    name = str(entry.frontmatter.get("name"))
    if not is_skill_name(name):
        yield f"{name!r:.200} is not a name of a skill"
    if not is_uri(entry.uri):
        yield "its URI is not a URI"
    if not entry.uri.endswith(f"/{name}/{SKILL_FILE}"):
        yield f"its URI does not end in /{name}/{SKILL_FILE}"


def _fault_of_file(
    entry: types.Skill, file: types.SkillResource, path: str, others: Mapping[str, object]
) -> str | None:
    shown = f"{file.uri!r:.{_MOST_REPORTED}}"
    if not file.uri.startswith(f"{_folder_of(entry.uri)}/"):
        return f"{shown} is not below the folder of the skill"
    if not is_safe_path(path):
        return f"{shown} is not a safe path below the folder of the skill"
    if path in others:
        return f"{shown} is given twice"
    if not _DIGEST.fullmatch(file.digest):
        return f"{shown} has the digest {file.digest!r:.200}; expected sha256: and 64 hexadecimal digits"
    return None


def _bytes_of(uri: str, result: ReadResourceResult) -> bytes:
    """Return the bytes of a file that was read as a resource."""
    if len(result.contents) != 1:
        raise SkillChanged(uri, f"the server sent {len(result.contents)} contents instead of one file")
    (contents,) = result.contents
    try:
        if isinstance(contents, BlobResourceContents):
            return base64.b64decode(contents.blob, validate=True)
        return contents.text.encode()
    except (binascii.Error, UnicodeEncodeError):
        raise SkillChanged(uri, "what the server sent cannot be decoded") from None


def _verify(expected: types.SkillResource, data: bytes) -> None:
    if len(data) != expected.size:
        raise SkillChanged(expected.uri, f"it has {len(data)} bytes, and the entry says {expected.size}")
    if digest_of(data) != expected.digest:
        raise SkillChanged(expected.uri, "its digest is not that of the entry")


def _write(directory: Path, name: str, contents: Mapping[str, bytes]) -> Path:
    """Write the files of a skill into a new folder."""
    target = directory / name
    if target.exists() or target.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    directory.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=directory))
    try:
        for path, data in contents.items():
            place = new.joinpath(*path.split("/"))
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.write(data)
        new.chmod(0o755)
        return new.rename(target)
    except BaseException:
        shutil.rmtree(new)
        raise


# --- Lists ---


def list_skills(client: Client, server: str | None, max_pages: int) -> AsyncIterator[ClientSkill]:
    """Iterate over the skills of a server; `Client.skills` calls this.

    Args:
        client: a client of the server.
        server: the name of the server in a `Clients`; None if the client stands alone.
        max_pages: the number of pages after which the list is considered endless.
    """
    if not _is_declared(client):
        return _NoSkills()

    def read(page: types.ListSkillsResult) -> Iterator[ClientSkill]:
        for entry in page.skills:
            try:
                yield ClientSkill(client, entry, server)
            except RemoteProtocolError as error:
                _log.warning("a skill is left out: %s", error)

    return client.pages(
        "skills/list", types.ListSkillsResult, read, identity=lambda skill: skill.uri, max_pages=max_pages
    )


async def get_skill(client: Client, uri: str, server: str | None) -> ClientSkill:
    """Request the entry of one skill; see `Client.skill`.

    Args:
        client: the client of the server that has the skill.
        uri: the URI of the skill.
        server: the name of the server, which the skill gets; None if there is only one.

    Raises:
        MissingCapability: the server has not declared that it has skills.
        RemoteProtocolError: the server answered with the entry of another skill, or with one that is not valid.
    """
    if not _is_declared(client):
        raise MissingCapability("the server has not declared that it has skills", {"extensions": {types.EXTENSION: {}}})
    result = await client.request("skills/get", types.GetSkillRequestParams(uri=uri), types.GetSkillResult)
    if result.skill.uri != uri:
        raise RemoteProtocolError(f"the server answered with the entry of {result.skill.uri!r:.200} for {uri!r:.200}")
    return ClientSkill(client, result.skill, server)


def list_skills_of_many(
    clients: Mapping[str, Client], report: Callable[[str, Exception | None], None]
) -> AsyncIterator[ClientSkill]:
    """Iterate over the skills of several servers; see `Clients.skills`.

    Args:
        report: called with the name of each server that was asked, and the reason if it could not be listed.
    """
    return _SkillsOfMany(deque(clients.items()), report)


def _is_declared(client: Client) -> bool:
    return types.EXTENSION in (client.server_capabilities.extensions or {})


class _NoSkills(AsyncIterator[ClientSkill]):
    """The skills of a server that has not declared that it has any."""

    async def __anext__(self) -> ClientSkill:
        await trio.lowlevel.checkpoint()
        raise StopAsyncIteration


@define(eq=False)
class _SkillsOfMany(AsyncIterator[ClientSkill]):
    """The skills of servers, one server after the other. A server that fails is reported, and left out.

    It is not an async generator, so that it may continue after a cancellation.
    """

    _servers: deque[tuple[str, Client]]
    _report: Callable[[str, Exception | None], None]
    _found: deque[ClientSkill] = field(factory=deque[ClientSkill], init=False)

    async def __anext__(self) -> ClientSkill:
        while not self._found:
            if not self._servers:
                raise StopAsyncIteration
            server, client = self._servers[0]
            failure: Exception | None = None
            try:
                self._found.extend([skill async for skill in list_skills(client, server, MOST_PAGES)])
            except Exception as error:  # noqa: BLE001 # reported
                failure = error
            self._servers.popleft()
            self._report(server, failure)
        return self._found.popleft()
