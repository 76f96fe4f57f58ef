"""What all ways to get a token have in common: the options, and what the keeper of the tokens calls.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import abc
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, cast

from attrs import define, field, frozen

from ._discovery import TokenIssuer
from ._flow import Flow
from ._tokens import MemoryTokenStorage, Registration, Tokens

if TYPE_CHECKING:
    import trio

    from ...abc import Fetch, TokenSource, TokenStorage
    from .._dpop import DpopProver
    from ._browser import BrowserAgent
    from ._token_cache import TokenCaches

__all__ = ["Grant", "TokenAsk"]

_SCOPE = re.compile(r"[!#-\[\]-~]+")


@frozen(kw_only=True)
class TokenAsk:
    """What a token is wanted for."""

    place: TokenIssuer
    scopes: tuple[str, ...] | None
    """What to ask for; None: whatever the authorization server gives to those who name none."""
    proofs: DpopProver | None
    """Makes the proofs of possession; None where tokens are for their bearer."""
    client: Registration | None = None
    """As whom the tokens were obtained that are to be refreshed; None where the grant knows that by itself."""


def check_scopes(_: object, __: object, scopes: Sequence[str] | None) -> None:
    """Refuse what are no scopes (RFC 6749, 3.3); raises `ValueError`."""
    each = () if scopes is None else cast("Sequence[object]", scopes)
    if isinstance(scopes, str) or any(not isinstance(scope, str) or not _SCOPE.fullmatch(scope) for scope in each):
        raise ValueError(f"scopes={scopes!r}: scopes are a sequence of texts without blanks, such as ['read', 'write']")


@define(kw_only=True, eq=False)
class Grant(abc.ABC):
    """One way to get tokens, and where they are kept: what `OAuth`, `ClientCredentials` and the others have in common.

    It serves any number of clients, in one run of Trio at a time. It is not made to be derived from: a way of your own
    is an `abc.ClientAuth`, or `Bearer` with a function.
    """

    scopes: Sequence[str] | None = field(default=None, validator=check_scopes)
    """What to ask for at least; by default what the server says that it needs. When that turns out to be too little
    for a call, more is asked for."""
    storage: TokenStorage = field(factory=MemoryTokenStorage)
    """Keeps tokens and registrations, as a `FileTokenStorage` does; by default in memory, while this object lives."""
    account: str = ""
    """Tells apart the accounts of one storage: tokens of different ones are never mixed."""
    dpop: bool = False
    """Whether tokens are bound to a key of this client's (DPoP, RFC 9449), so that a stolen one is of no use."""
    trusted_hosts: Sequence[str] = ()
    """Names of hosts that may be reached without TLS and at private addresses, though a server has named them."""
    clock: Callable[[], float] = time.time
    """Tells the time by which tokens end."""
    _keepers: TokenCaches | None = field(default=None, init=False, repr=False)
    """What is known of the servers, by all connections together."""

    interactive: ClassVar[bool] = False
    """Whether a person takes part when tokens are obtained."""

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """Tells this kind of client apart from others in one storage. No secret is in it."""

    @property
    def stays_with_issuer(self) -> bool:
        """Whether it shows what one authorization server has given by hand, though nobody has said which that is.

        The first one that tokens came from is then the only one; the MCP server may not lead to another.
        """
        return False

    @abc.abstractmethod
    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Get tokens anew; raises `AuthorizationFailed`."""

    @abc.abstractmethod
    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        """Get tokens in exchange for a refresh token, which the answer may replace or confirm by leaving one out.

        Raises:
            AuthorizationFailed: it was refused (`error` says how), or could not be asked for.
        """

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]:
        """Open what leads a person to an authorization server and back, for one authorization."""
        raise RuntimeError(f"{type(self).__name__} leads nobody anywhere")

    def source(
        self,
        url: str,
        *,
        fetch: Fetch,
        nursery: trio.Nursery,
        asking_person: Callable[[], AbstractContextManager[None]],
    ) -> TokenSource:
        """Return what shows the server at *url* who asks; see `abc.ClientAuth`."""
        from ._renewal import ConnectionServices  # noqa: PLC0415 # these know what a grant is
        from ._source import GrantSource  # noqa: PLC0415
        from ._token_cache import TokenCaches  # noqa: PLC0415

        if self._keepers is None:
            self._keepers = TokenCaches(self)
        return GrantSource(self._keepers.of(url), ConnectionServices(fetch, nursery, asking_person))
