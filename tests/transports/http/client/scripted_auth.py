"""What shows a server who asks, by hand: the test says what is shown, and what a refusal leads to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager

import trio
from attrs import define, field

from trio_mcp.abc import Fetch

__all__ = ["AttemptByHand", "AuthByHand"]


@define(eq=False)
class AuthByHand:
    """Shows `token`; where a request is answered with 401, `renew` is awaited, and it is sent again."""

    token: str | None = "t0"
    """None: nothing is shown."""
    times: int = 1
    """How often one request is sent again."""
    missing: Exception | None = None
    """Raised in place of showing anything."""
    renew: Callable[[AuthByHand], Awaitable[None]] | None = None
    """By default there is another token each time."""
    heard: list[tuple[str, str, int]] = field(factory=list[tuple[str, str, int]], init=False)
    """The method, the URL and the status of each response."""
    challenges: list[str] = field(factory=list[str], init=False)
    renewals: int = field(default=0, init=False)
    url: str = field(default="", init=False)
    fetch: Fetch = field(init=False)
    nursery: trio.Nursery = field(init=False)
    asking_person: Callable[[], AbstractContextManager[None]] = field(init=False)

    def source(
        self,
        url: str,
        *,
        fetch: Fetch,
        nursery: trio.Nursery,
        asking_person: Callable[[], AbstractContextManager[None]],
    ) -> AuthByHand:
        """Take note of everything."""
        self.url, self.fetch, self.nursery, self.asking_person = url, fetch, nursery, asking_person
        return self

    def attempt(self, method: str, url: str) -> AttemptByHand:
        """Accompany one request."""
        return AttemptByHand(self, method, url)


@define(eq=False)
class AttemptByHand:
    """Accompanies one request."""

    auth: AuthByHand
    method: str
    url: str
    _tries: int = field(default=0, init=False)

    async def fields(self) -> Mapping[str, str]:
        """Show the token."""
        await trio.lowlevel.checkpoint()
        if self.auth.missing is not None:
            raise self.auth.missing
        return {} if self.auth.token is None else {"authorization": f"Bearer {self.auth.token}"}

    def on_response(self, status: int, headers: Mapping[str, str]) -> bool:
        """Note it."""
        self.auth.heard.append((self.method, self.url, status))
        if status != 401:
            return False
        self.auth.challenges.append(headers.get("www-authenticate", ""))
        self._tries += 1
        return self._tries <= self.auth.times

    async def resolve(self) -> None:
        """Have the token renewed."""
        self.auth.renewals += 1
        if self.auth.renew is None:
            self.auth.token = f"t{self.auth.renewals}"
            await trio.lowlevel.checkpoint()
        else:
            await self.auth.renew(self.auth)
