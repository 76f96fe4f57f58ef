"""How a person lets a client in: the authorization code grant, with a browser, and all options it has.

Called by whoever opens a client; the steps are in `_code_grant`.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define

from . import _code_grant
from ._client_profile import ClientProfile, check_metadata_url, check_redirect_uri, is_loopback
from ._grant import Grant, TokenAsk
from ._steps import Flow
from ._tokens import Registration, Tokens

if TYPE_CHECKING:
    from ._visitor import Visitor

__all__ = ["OAuth"]

_ANY_PORT = "http://127.0.0.1/callback"
"""Where browsers come back to by default; servers add the port (RFC 8252, 7.3)."""


@define(kw_only=True, eq=False)
class OAuth(Grant):
    """Has a person sign in, in a browser, when a server asks who is there; a `ClientAuth`.

    ::

        async with open_http_client(url, auth=OAuth(storage=FileTokenStorage())) as client: ...

    By default the system's browser opens and comes back to a port of this machine, and the client registers itself.
    Tokens are refreshed, and kept in `storage`, as long as that works without the person. `storage`, `scopes`, `dpop`
    and some more are options of every way to get tokens, and described at `auth.Grant`.

    Args:
        client_name: what people read on the page where they let the client in; so are `client_uri`, `logo_uri`,
            `policy_uri`, `tos_uri` and `contacts`, where the authorization server shows them.
        client: how the client is registered at the authorization server, where somebody has done that by hand. The id
            may be the URL of a document that describes the client, one with a private key say.
        client_metadata_url: where a document describes the client, to authorization servers that read such documents:
            an ``https`` URL with a path. `client_metadata` returns the document.
        redirect_uri: where the browser comes back to, if that matters: because it was registered, or because a port is
            forwarded. Without a port, any that is free is taken. By default ``http://127.0.0.1:PORT/callback``.
        show: an async function that shows a URL to the person, in place of the system's browser: `auth.print_url`, or
            yours. The browser still comes back to a port of this machine.
        visit: an async function that leads the person to a URL by means of the application's, and returns the whole URL
            to which the browser was sent back. It needs `redirect_uri`; no port is opened then.
        visit_seconds: how long a person may take, from when the page is shown.

    Raises:
        ValueError: options that contradict one another, or one that cannot be meant; the text names it.

    Concurrency: at most one person is asked at a time for one authorization server.
    """

    client_name: str = "trio-mcp client"
    client_uri: str | None = None
    """The client's home page."""
    logo_uri: str | None = None
    """Its picture."""
    policy_uri: str | None = None
    """What it does with people's data."""
    tos_uri: str | None = None
    """Its terms of service."""
    contacts: Sequence[str] = ()
    """Mail addresses of those who answer for it."""
    client: Registration | None = None
    client_metadata_url: str | None = None
    redirect_uri: str | None = None
    show: Callable[[str], Awaitable[None]] | None = None
    visit: Callable[[str], Awaitable[str]] | None = None
    visit_seconds: float = 300

    interactive: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        registered = None if self.client is None else self.client.redirect_uri
        for uri in (self.redirect_uri, registered):
            if uri is not None:
                check_redirect_uri(uri)
        if None not in {self.redirect_uri, registered} and self.redirect_uri != registered:
            raise ValueError(f"redirect_uri={self.redirect_uri!r}: the client is registered with {registered!r}")
        if self.client_metadata_url is not None:
            check_metadata_url(self.client_metadata_url)
        if self.visit is not None and self.show is not None:
            raise ValueError("show, visit: what leads a person there and back shows the URL itself")
        if self.visit is not None and self._redirect_uri is None:
            raise ValueError("visit: it needs redirect_uri, where the browser comes back to")
        if self.visit is None and self._redirect_uri is not None and not is_loopback(self._redirect_uri):
            raise ValueError(
                f"redirect_uri={self._redirect_uri!r}: a browser comes back to this program at http URLs of this "
                "machine alone; for others, pass visit"
            )
        if not self.visit_seconds > 0:
            raise ValueError(f"visit_seconds={self.visit_seconds!r}: it has to be positive")

    @property
    def _redirect_uri(self) -> str | None:
        return self.redirect_uri or (None if self.client is None else self.client.redirect_uri)

    @property
    def identity(self) -> str:
        """Tells this kind of client apart from others in one storage. No secret is in it."""
        if self.client is not None:
            return f"client {self.client.client_id}"
        if self.client_metadata_url is not None:
            return f"client {self.client_metadata_url}"
        return f"client named {self.client_name}"

    @property
    def stays_with_issuer(self) -> bool:
        """Whether the first authorization server that it got tokens from is the only one; see `Grant`.

        A client whose id is the URL of a document is the same one everywhere, unless it has a secret.
        """
        client = self.client
        if client is None or client.issuer is not None:
            return False
        return client.secret is not None or not client.client_id.startswith("https://")

    @property
    def _profile(self) -> ClientProfile:
        names = {
            "client_name": self.client_name,
            "client_uri": self.client_uri,
            "logo_uri": self.logo_uri,
            "policy_uri": self.policy_uri,
            "tos_uri": self.tos_uri,
            "contacts": list(self.contacts) or None,
        }
        return ClientProfile(
            identity=self.identity,
            account=self.account,
            registration=self.client,
            metadata_url=self.client_metadata_url,
            redirect_uri=self._redirect_uri,
            names={name: value for name, value in names.items() if value is not None},
        )

    def client_metadata(self) -> dict[str, Any]:
        """Return what to publish at `client_metadata_url`, as JSON: how authorization servers get to know the client.

        Raises:
            ValueError: there is no `client_metadata_url`.

        Specification: https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
        """
        if self.client_metadata_url is None:
            raise ValueError("client_metadata: there is no client_metadata_url that it could be published at")
        return self._profile.document(self._redirect_uri or _ANY_PORT)

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        """Have the person authorize the client, and get its tokens; raises `AuthorizationFailed`."""
        return _code_grant.authorize(ask, self._profile)

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        """Get tokens in exchange for a refresh token; raises `AuthorizationFailed`."""
        return _code_grant.refresh(ask, self._profile, refresh_token)

    def visitor(self) -> AbstractAsyncContextManager[Visitor]:
        """Open what leads the person to the authorization server and back, for one authorization."""
        if self.visit is not None:
            from ._handler_visitor import HandlerVisitor  # noqa: PLC0415 # one of two is needed

            assert self._redirect_uri is not None
            return nullcontext(HandlerVisitor(self.visit, self._redirect_uri, self.visit_seconds))
        from ._browser import open_browser  # noqa: PLC0415 # likewise
        from ._loopback import open_loopback_visitor  # noqa: PLC0415 # likewise

        return open_loopback_visitor(
            show=self.show or open_browser, seconds=self.visit_seconds, redirect_uri=self._redirect_uri
        )
