"""Host names that mean what a test says, and a record of who has looked them up."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import trio
from attrs import define, field

__all__ = ["Names"]


@define(eq=False)
class Names(trio.abc.HostnameResolver):
    """In place of the resolver of this machine, within one run of Trio.

    Args:
        meanings: the addresses of each name; what has several meanings has one after the other, and keeps the last.
    """

    meanings: dict[str, list[Sequence[str]]]
    asked: list[str] = field(factory=list[str], init=False)

    @classmethod
    def set(cls, name: str, *meanings: Sequence[str]) -> Names:
        """Have a name mean something; no other has a meaning."""
        names = cls({name: [*meanings]})
        trio.socket.set_custom_hostname_resolver(names)
        return names

    async def getaddrinfo(self, host: bytes | None, port: Any, *_: Any, **__: Any) -> Any:
        """Look a name up."""
        await trio.lowlevel.checkpoint()
        assert host is not None
        name = host.decode()
        self.asked.append(name)
        if name not in self.meanings:
            raise socket.gaierror(socket.EAI_NONAME, "nobody knows it")
        several = self.meanings[name]
        addresses = several.pop(0) if len(several) > 1 else several[0]
        return [self._info(address, port) for address in addresses]

    @staticmethod
    def _info(address: str, port: Any) -> Any:
        family, place = (
            (socket.AF_INET6, (address, port, 0, 0)) if ":" in address else (socket.AF_INET, (address, port))
        )
        return (family, socket.SOCK_STREAM, 6, "", place)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Nobody wants to know."""
        raise AssertionError
