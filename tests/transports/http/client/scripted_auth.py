"""A client authentication that a test scripts: it sets the token, and what happens after a 401."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager

import trio
from attrs import define, field

from trio_mcp.abc import Fetch

__all__ = ["ScriptedAuth", "ScriptedAuthAttempt"]


@define(eq=False)
class ScriptedAuth:
    """An authentication that sends `token`; after a 401 it awaits `renew`, and the request is repeated."""

    token: str | None = "t0"
    """None: requests carry no credentials."""
    max_repeats: int = 1
    """The number of times that one request is repeated."""
    failure: Exception | None = None
    """Raised instead of returning credentials."""
    renew: Callable[[ScriptedAuth], Awaitable[None]] | None = None
    """By default the token changes each time."""
    responses: list[tuple[str, str, int]] = field(factory=list[tuple[str, str, int]], init=False)
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
    ) -> ScriptedAuth:
        """Record the arguments."""
        self.url, self.fetch, self.nursery, self.asking_person = url, fetch, nursery, asking_person
        return self

    def attempt(self, method: str, url: str) -> ScriptedAuthAttempt:
        """Return the authentication of one request."""
        return ScriptedAuthAttempt(self, method, url)


@define(eq=False)
class ScriptedAuthAttempt:
    """The authentication of one request and of its repetitions."""

    auth: ScriptedAuth
    method: str
    url: str
    _tries: int = field(default=0, init=False)

    async def fields(self) -> Mapping[str, str]:
        """Return the header field with the token."""
        await trio.lowlevel.checkpoint()
        if self.auth.failure is not None:
            raise self.auth.failure
        return {} if self.auth.token is None else {"authorization": f"Bearer {self.auth.token}"}

    def on_response(self, status: int, headers: Mapping[str, str]) -> bool:
        """Record the response; return True if the request shall be repeated."""
        self.auth.responses.append((self.method, self.url, status))
        if status != 401:
            return False
        self.auth.challenges.append(headers.get("www-authenticate", ""))
        self._tries += 1
        return self._tries <= self.auth.max_repeats

    async def resolve(self) -> None:
        """Renew the token."""
        self.auth.renewals += 1
        if self.auth.renew is None:
            self.auth.token = f"t{self.auth.renewals}"
            await trio.lowlevel.checkpoint()
        else:
            await self.auth.renew(self.auth)
