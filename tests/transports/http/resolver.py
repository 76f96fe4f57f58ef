"""A host name resolver whose answers a test sets, and a record of the lookups."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import trio
from attrs import define, field

__all__ = ["FakeResolver"]


@define(eq=False)
class FakeResolver(trio.abc.HostnameResolver):
    """A resolver that replaces the one of this machine during one run of Trio.

    Args:
        answers: the lists of addresses that the lookups of each name return, one after the other; the last list is
            returned again and again.
    """

    answers: dict[str, list[Sequence[str]]]
    lookups: list[str] = field(factory=list[str], init=False)

    @classmethod
    def install(cls, name: str, *answers: Sequence[str]) -> FakeResolver:
        """Install a resolver that knows one name only."""
        resolver = cls({name: [*answers]})
        trio.socket.set_custom_hostname_resolver(resolver)
        return resolver

    async def getaddrinfo(self, host: bytes | None, port: Any, *_: Any, **__: Any) -> Any:
        """Return the next addresses of a name."""
        await trio.lowlevel.checkpoint()
        assert host is not None
        name = host.decode()
        self.lookups.append(name)
        if name not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "the name is unknown")
        answers = self.answers[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [self._info(address, port) for address in addresses]

    @staticmethod
    def _info(address: str, port: Any) -> Any:
        family, socket_address = (
            (socket.AF_INET6, (address, port, 0, 0)) if ":" in address else (socket.AF_INET, (address, port))
        )
        return (family, socket.SOCK_STREAM, 6, "", socket_address)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Fail: no test resolves an address."""
        raise AssertionError
