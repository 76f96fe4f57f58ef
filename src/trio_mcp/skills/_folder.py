"""Skills in folders: their files are read into memory once, with the digests that clients verify.

Rules of this file:

1. A folder with a SKILL.md is a skill. Its name is the name of the folder, as its frontmatter must say too. A folder
   without one may hold skills, at any depth. A folder inside a skill that has a SKILL.md is a skill as well; its files
   belong to both.
2. Files and folders whose names begin with a dot, and ``__pycache__``, are left out.
3. Only regular files are read. A link is followed if it leads to a regular file of the same skill; every other link,
   and every device, pipe or socket, is refused, because its contents may be anything on this machine.
4. A skill has at most 512 files and 16 MiB: hosts need not accept more.
5. A fault names the file, and the line if it is in the frontmatter.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from mimetypes import MimeTypes
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from attrs import field, frozen

from ..wire import JsonObject, escapes, is_object
from . import types
from ._frontmatter import Frontmatter, FrontmatterError, is_skill_name, read_frontmatter

__all__ = [
    "MOST_BYTES",
    "MOST_FILES",
    "SKILL_FILE",
    "FolderSkill",
    "SkillFile",
    "digest_of",
    "is_safe_path",
    "read_folder",
]

SKILL_FILE = "SKILL.md"
MOST_FILES = 512
"""The number of files of a skill, beyond which hosts may refuse it."""
MOST_BYTES = 16 * 2**20
"""The size of all files of a skill in bytes, beyond which hosts may refuse it."""

_LEFT_OUT = "__pycache__"
_RESERVED = "io.modelcontextprotocol/"
_MIME_TYPES = MimeTypes()  # not of the system, so that a file has the same type on every machine
_MIME_TYPES.add_type("text/markdown", ".md")  # later versions of Python have it
_FLAGS = ("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
_OPEN = sum(getattr(os, flag, 0) for flag in _FLAGS)  # some exist on some systems only

_log = logging.getLogger("trio_mcp.skills")


def digest_of(data: bytes) -> str:
    """Return the digest of a file as the entry of a skill has it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def is_safe_path(path: str) -> bool:
    """Return True if a path stays in its folder on every system, and shows what it is."""
    return path.isprintable() and "\\" not in path and not {"", "."} & {*path.split("/")} and not escapes(path)


@frozen
class SkillFile:
    """A file of a skill."""

    uri: str
    path: PurePosixPath
    """The path below the folder that was added, or below the prefix of its URIs."""
    data: bytes = field(repr=False)
    digest: str
    mime_type: str
    is_text: bool
    """True if it is sent as text: it is UTF-8, so that its text has exactly its bytes."""


@frozen
class FolderSkill:
    """A skill that was read from a folder."""

    uri: str
    """The URI of its SKILL.md."""
    name: str
    description: str
    frontmatter: JsonObject
    files: Mapping[str, SkillFile]
    """Its files by URI, sorted by path."""

    def entry(self) -> types.Skill:
        """Return the entry of the skill, as `skills/list` has it."""
        resources = [types.SkillResource(uri=uri, digest=f.digest, size=len(f.data)) for uri, f in self.files.items()]
        return types.Skill(uri=self.uri, frontmatter=self.frontmatter, resources=resources)


def read_folder(folder: Path, prefix: Sequence[str] = ()) -> dict[str, FolderSkill]:
    """Return the skills in a folder by URI; waits for the disk.

    Args:
        folder: the folder of a skill, or a folder of skills.
        prefix: the segments before those of the folders in the URIs of the skills.

    Raises:
        ValueError: there is no skill, or a skill is not valid (rules 1, 3 and 4).
        OSError: a file or folder cannot be read.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 # `.` gets its name, and a link keeps its own
    if _has_skill_file(folder):
        return _read_skill(folder, (*prefix, folder.name))
    skills: dict[str, FolderSkill] = {}
    for path, segments in _skills_below(folder, prefix):
        skills |= _read_skill(path, segments)
    if not skills:
        raise ValueError(f"{folder}: there is no skill; neither the folder nor one below it has a {SKILL_FILE}")
    return skills


def _skills_below(folder: Path, segments: Sequence[str]) -> Iterator[tuple[Path, Sequence[str]]]:
    """Yield the folders of skills in a folder that is not one, and the segments of their URIs."""
    for each in _entries(folder):
        if not each.is_dir():
            continue
        if each.is_symlink():
            raise ValueError(f"{each.path}: is a link to a folder; add the folder that it leads to by itself")
        path, below = Path(each.path), (*segments, each.name)
        if _has_skill_file(path):
            yield path, below
        else:
            yield from _skills_below(path, below)


def _has_skill_file(folder: Path) -> bool:
    return any(each.name == SKILL_FILE for each in _entries(folder))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, sorted by name (rule 2)."""
    with os.scandir(folder) as found:
        kept = [each for each in found if not each.name.startswith(".") and each.name != _LEFT_OUT]
    return sorted(kept, key=lambda each: each.name)


def _read_skill(folder: Path, segments: Sequence[str]) -> dict[str, FolderSkill]:
    """Return the skill of a folder, and those inside it, by URI."""
    files = _FileReader(folder, folder.resolve()).read(folder, PurePosixPath(*segments))
    by_path = {file.path: file for file in sorted(files, key=lambda file: file.path)}
    skills: dict[str, FolderSkill] = {}
    for file in by_path.values():
        if file.path.name == SKILL_FILE:
            inside = {each.uri: each for each in by_path.values() if each.path.is_relative_to(file.path.parent)}
            place = folder.joinpath(*file.path.parts[len(segments) :])
            skills[file.uri] = _checked_skill(place, file, inside)
    return skills


class _FileReader:
    """Reads the files of one skill."""

    def __init__(self, folder: Path, resolved: Path) -> None:
        self._folder = folder
        self._resolved = resolved
        """The folder without links."""
        self._count = 0
        self._size = 0

    def read(self, folder: Path, path: PurePosixPath) -> Iterator[SkillFile]:
        """Yield the files of a folder, which has *path* in URIs, and of those below it."""
        for each in _entries(folder):
            place, below = Path(each.path), path / each.name
            if not is_safe_path(each.name):
                raise ValueError(f"{str(place)!r}: the name is not safe on every system")
            if each.is_symlink():
                place = self._target_of(place)
            elif each.is_dir():
                yield from self.read(place, below)
                continue
            yield self._read_file(place, below)

    def _target_of(self, link: Path) -> Path:
        target = link.resolve()
        if not target.is_relative_to(self._resolved):
            raise ValueError(f"{link}: is a link that leads out of the skill, to {target}")
        if not target.is_file():
            raise ValueError(f"{link}: is a link to {target}, which is not a regular file")
        return target

    def _read_file(self, place: Path, path: PurePosixPath) -> SkillFile:
        descriptor = os.open(place, _OPEN)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"{place}: is not a regular file")
            data = file.read(MOST_BYTES + 1 - self._size)
        self._count, self._size = self._count + 1, self._size + len(data)
        if self._count > MOST_FILES:
            raise ValueError(f"{self._folder}: the skill has more than {MOST_FILES} files")
        if self._size > MOST_BYTES:
            raise ValueError(f"{self._folder}: the files of the skill have more than {MOST_BYTES} bytes (16 MiB)")
        uri = f"skill://{'/'.join(quote(part, safe='') for part in path.parts)}"
        is_text = _is_text(data)
        return SkillFile(uri, path, data, digest_of(data), _mime_type(path.name, is_text=is_text), is_text)


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _mime_type(name: str, *, is_text: bool) -> str:
    guessed, encoding = _MIME_TYPES.guess_type(name)
    if guessed is None or encoding is not None:
        return "text/plain" if is_text else "application/octet-stream"
    return guessed


# --- Checks ---


def _checked_skill(place: Path, file: SkillFile, files: Mapping[str, SkillFile]) -> FolderSkill:
    """Return the skill of a SKILL.md.

    Args:
        place: the path of the SKILL.md on this machine, for errors.

    Raises:
        ValueError: it is not valid.
    """
    if not file.is_text:
        raise ValueError(f"{place}: is not UTF-8 text")
    try:
        frontmatter = read_frontmatter(file.data.decode())
    except FrontmatterError as error:
        raise ValueError(f"{place}:{error.line}: {error.fault}") from None
    members = frontmatter.members
    name = _text_of(place, frontmatter, "name")
    if not is_skill_name(name):
        wanted = "1 to 64 characters of a-z, 0-9 and -, without a hyphen at either end or two in a row"
        raise _fault(place, frontmatter, "name", f"{name!r:.100} is not a name of a skill: use {wanted}")
    if name != place.parent.name:
        raise _fault(place, frontmatter, "name", f"{name!r} is not the name of its folder, {place.parent.name!r}")
    metadata = members.get("metadata")
    for key in metadata if is_object(metadata) else ():
        if key.startswith(_RESERVED):
            _log.warning("%s: metadata: the key %r is reserved for the protocol", place, key)
    return FolderSkill(file.uri, name, _text_of(place, frontmatter, "description"), members, files)


def _text_of(place: Path, frontmatter: Frontmatter, member: str) -> str:
    """Return a member that must be a string which is not empty."""
    value = frontmatter.members.get(member)
    if not isinstance(value, str) or not value.strip():
        raise _fault(place, frontmatter, member, "expected a text" if member in frontmatter.members else "is missing")
    return value


def _fault(place: Path, frontmatter: Frontmatter, member: str, fault: str) -> ValueError:
    return ValueError(f"{place}:{frontmatter.lines.get(member, 1)}: {member}: {fault}")
