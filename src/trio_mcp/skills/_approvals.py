"""Approvals of skills by a user, which hold for one version of a skill of one server.

Rules of this file:

1. An approval is for the server, as the application calls it, the URI of the skill and its digest, which covers all
   files and the frontmatter. The name of a skill means nothing.
2. An entry with another digest revokes the approval for good: it does not return if the old version does.
3. A skill without a digest, whose files are not verified, cannot be approved.
4. The file is replaced as a whole. One that others may change, or that is damaged, is not used.

Specification: https://modelcontextprotocol.io/extensions/skills/overview
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

import trio
from attrs import define, field

from ..wire import Undecodable, decode, encode, is_object

if TYPE_CHECKING:
    from ._client import ClientSkill

__all__ = ["FileSkillApprovals", "MemorySkillApprovals", "SkillApprovals"]


class SkillApprovals(Protocol):
    """The approvals that a user has given: `MemorySkillApprovals`, `FileSkillApprovals`, or the application's own."""

    async def approve(self, skill: ClientSkill) -> None:
        """Approve a skill as it is now."""
        ...

    async def is_approved(self, skill: ClientSkill) -> bool:
        """Return True if the skill was approved, and has not changed; a change revokes the approval."""
        ...

    async def revoke(self, skill: ClientSkill) -> None:
        """Revoke the approval of a skill, if there is one."""
        ...


Approved = dict[str, dict[str, str]]
"""The digest of each approved skill, by server and URI."""


def _server_of(skill: ClientSkill) -> str:
    if skill.server is None:
        raise ValueError(f"skill {skill.uri!r} has no server: name it, as in client.skills(server='docs')")
    return skill.server


def _approve(skill: ClientSkill, approved: Approved) -> bool:
    """Enter an approval; return True if that is a change."""
    if skill.digest is None:
        raise ValueError(f"skill {skill.uri!r} is dynamic: an approval could not be bound to its contents")
    of_server = approved.setdefault(_server_of(skill), {})
    is_new = of_server.get(skill.uri) != skill.digest
    of_server[skill.uri] = skill.digest
    return is_new


def _revoke(skill: ClientSkill, approved: Approved) -> bool:
    """Remove an approval; return True if that is a change."""
    return approved.get(_server_of(skill), {}).pop(skill.uri, None) is not None


def _is_approved(skill: ClientSkill, approved: Approved) -> bool | None:
    """Return whether a skill is approved; None if it was, and has changed."""
    digest = approved.get(_server_of(skill), {}).get(skill.uri)
    if digest is None:
        return False
    return True if digest == skill.digest else None


@define(eq=False)
class MemorySkillApprovals:
    """Approvals in memory, for as long as this object lives; see `FileSkillApprovals`."""

    _approved: Approved = field(factory=Approved, init=False)

    async def approve(self, skill: ClientSkill) -> None:
        """Approve a skill as it is now. Raises ValueError as `FileSkillApprovals.approve` does."""
        await trio.lowlevel.checkpoint()
        _approve(skill, self._approved)

    async def is_approved(self, skill: ClientSkill) -> bool:
        """Return True if the skill was approved, and has not changed; a change revokes the approval."""
        await trio.lowlevel.checkpoint()
        verdict = _is_approved(skill, self._approved)
        if verdict is None:
            _revoke(skill, self._approved)
        return verdict or False

    async def revoke(self, skill: ClientSkill) -> None:
        """Revoke the approval of a skill, if there is one."""
        await trio.lowlevel.checkpoint()
        _revoke(skill, self._approved)


@define(eq=False)
class FileSkillApprovals:
    """Approvals in a file: JSON with the digest of each approved skill, by server and URI.

    The file is created with access only for the owner (0600), and replaced as a whole. It is read and written in worker
    threads. If several processes use it at the same moment, the change of one of them may be lost, which can only mean
    that the user is asked again, or that a skill is revoked when it is next looked at.

    Args:
        path: the path of the file; its folder must exist.

    Raises, in every method:
        ValueError: the skill has no `server`; or the file does not hold approvals.
        PermissionError: the file belongs to another user, or others may change it.
        OSError: the file cannot be read or written.

    Specification: https://modelcontextprotocol.io/extensions/skills/overview
    """

    path: Path = field(converter=Path)
    _lock: trio.Lock = field(factory=trio.Lock, init=False)

    async def approve(self, skill: ClientSkill) -> None:
        """Approve a skill as it is now, in place of an earlier version.

        Raises:
            ValueError: the skill is dynamic, so that an approval could not be bound to its contents.
        """
        await self._change(partial(_approve, skill))

    async def is_approved(self, skill: ClientSkill) -> bool:
        """Return True if the skill was approved, and has not changed; a change revokes the approval."""
        async with self._lock:
            approved = await trio.to_thread.run_sync(self._read)
        verdict = _is_approved(skill, approved)
        if verdict is None:
            await self.revoke(skill)
        return verdict or False

    async def revoke(self, skill: ClientSkill) -> None:
        """Revoke the approval of a skill, if there is one."""
        await self._change(partial(_revoke, skill))

    async def _change(self, change: Callable[[Approved], bool]) -> None:
        async with self._lock:
            await trio.to_thread.run_sync(self._change_file, change)

    def _change_file(self, change: Callable[[Approved], bool]) -> None:
        approved = self._read()
        if change(approved):
            self._write(approved)

    def _read(self) -> Approved:
        try:
            with self.path.open("rb") as file:
                self._check(os.fstat(file.fileno()))
                data = file.read()
        except FileNotFoundError:
            return {}
        approved: object = None
        with suppress(Undecodable):
            approved = decode(data)
        if not _are_approvals(approved):
            raise ValueError(f"{self.path} does not hold approvals of skills; move it away")
        return approved

    def _check(self, status: os.stat_result) -> None:
        if os.name != "posix":  # pragma: no cover # the tests run on POSIX
            return
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
            raise PermissionError(f"{self.path}: others may change these approvals; it must be yours, with chmod 600")

    def _write(self, approved: Approved) -> None:
        """Replace the file in one step that a failure leaves undone."""
        descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)  # with mode 0600
        new = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(encode(approved))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except BaseException:
            new.unlink()
            raise


def _are_approvals(value: object) -> TypeGuard[Approved]:
    return is_object(value) and all(
        is_object(of_server) and all(isinstance(digest, str) for digest in of_server.values())
        for of_server in value.values()
    )
