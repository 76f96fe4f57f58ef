"""A protected server and its authorization server, as the token cache of a client sees them.

There are no sockets. Tests set the clock, refresh tokens are valid once, and tests switch failures on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import trio
from attrs import define, field

from tests.auth.signed_tokens import Clock
from trio_mcp import AuthorizationFailed
from trio_mcp.auth import CallFailed, Grant, HttpCall, HttpReply
from trio_mcp.auth._dpop import NONCE_FIELD
from trio_mcp.auth.client._browser import BrowserAgent
from trio_mcp.auth.client._source import GrantSource
from trio_mcp.auth.client._steps import BrowserStep, ConnectionServices, Flow, PickRedirect, post_form
from trio_mcp.auth.client._token_cache import TokenCache
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens

URL = "https://mcp.example.com/mcp"
ISSUER = "https://auth.example.com"
REDIRECT_URI = "http://127.0.0.1:7/callback"


@define(eq=False, repr=False)
class Network:
    """Both servers: the authorization server's HTTP interface, and the responses of the protected server."""

    clock: Clock
    issuer: str = ISSUER
    lifetime: int | None = 3600
    """The lifetime of access tokens in seconds; None: the response has no expires_in."""
    refreshable: bool = True
    rotates: bool = True
    same_token: bool = False
    """True if all issued tokens are equal."""
    scopes_supported: list[str] | None = None
    needs_dpop: bool = False
    nonce: str | None = None
    """The nonce that the protected server requires in proofs; None: none is required."""
    refusal: str | None = None
    """The error code that every token request gets; None: tokens are issued."""
    is_down: bool = False
    barrier: trio.Event | None = None
    """If it is not None, token requests wait until it is set."""
    accepted: set[str] = field(factory=set[str], init=False)
    """The tokens that the protected server accepts."""
    scopes_needed: set[str] = field(factory=set[str], init=False)
    granted: dict[str, str] = field(factory=dict[str, str], init=False)
    """The scopes of each token."""
    token_requests: list[dict[str, str]] = field(factory=list[dict[str, str]], init=False)
    """The forms of all token requests."""
    urls: list[str] = field(factory=list[str], init=False)
    presented: list[str] = field(factory=list[str], init=False)
    """All refresh tokens that were sent, in their order."""
    good_refresh: set[str] = field(factory=set[str], init=False)
    serial: int = field(default=0, init=False)

    @property
    def grants(self) -> list[str]:
        """The grant type of each token request."""
        return [form["grant_type"] for form in self.token_requests]

    async def fetch(self, call: HttpCall) -> HttpReply:
        """Answer a request; the function is an `abc.Fetch`."""
        await trio.lowlevel.checkpoint()
        self.urls.append(call.url)
        if self.is_down:
            raise CallFailed("unreachable")
        parts = urlsplit(call.url)
        if parts.path == "/token":
            return await self.token(dict(parse_qsl(call.body.decode())))
        if "oauth-protected-resource" in parts.path:
            return self.json(
                {
                    "resource": URL,
                    "authorization_servers": [self.issuer],
                    "scopes_supported": self.scopes_supported,
                    "dpop_bound_access_tokens_required": self.needs_dpop,
                }
            )
        assert call.url == f"{self.issuer}/.well-known/oauth-authorization-server", call.url
        return self.json({"issuer": self.issuer, "token_endpoint": f"{self.issuer}/token"})

    @staticmethod
    def json(value: Mapping[str, object], status: int = 200) -> HttpReply:
        """Return a JSON response with the members that are not None."""
        body = json.dumps({name: member for name, member in value.items() if member is not None})
        return HttpReply(status=status, headers={"content-type": "application/json"}, body=body.encode())

    async def token(self, form: dict[str, str]) -> HttpReply:
        """Answer a token request."""
        self.token_requests.append(form)
        if form["grant_type"] == "refresh_token":
            self.presented.append(form["refresh_token"])
        if self.barrier is not None:
            await self.barrier.wait()
        if self.refusal is not None:
            return self.json({"error": self.refusal}, status=400)
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.good_refresh:
                return self.json({"error": "invalid_grant"}, status=400)
            if self.rotates:
                self.good_refresh.remove(form["refresh_token"])
        return self.json(self.issue(form.get("scope", ""), confirms=form["grant_type"] == "refresh_token"))

    def issue(self, scope: str, *, confirms: bool = False) -> dict[str, object]:
        """Issue a token that the protected server accepts, and return the members of the token response."""
        self.serial += 1
        token = "always-the-same" if self.same_token else f"access-{self.serial}"
        self.accepted.add(token)
        self.granted[token] = scope
        refresh = f"refresh-{self.serial}" if self.refreshable and (self.rotates or not confirms) else None
        if refresh is not None:
            self.good_refresh.add(refresh)
        return {"access_token": token, "expires_in": self.lifetime, "refresh_token": refresh, "scope": scope or None}

    def revoke(self) -> None:
        """Revoke all access tokens."""
        self.accepted.clear()

    def respond(self, fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        """Return the status and header fields of the protected server's response to a request with these fields."""
        scheme, _, token = fields.get("authorization", "").partition(" ")
        challenge = (
            f'{scheme or "Bearer"} resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
        )
        if token not in self.accepted:
            return 401, {"www-authenticate": challenge}
        if self.nonce is not None and nonce_in(fields["dpop"]) != self.nonce:
            return 401, {"www-authenticate": 'DPoP error="use_dpop_nonce"', NONCE_FIELD: self.nonce}
        if not self.scopes_needed <= set(self.granted[token].split()):
            needed = " ".join(sorted(self.scopes_needed))
            return 403, {"www-authenticate": f'{challenge}, error="insufficient_scope", scope="{needed}"'}
        return 200, {}


def nonce_in(proof: str) -> str | None:
    """Return the nonce in a proof of possession."""
    from joserfc import jws

    claims = json.loads(jws.extract_compact(proof.encode()).payload)
    nonce: str | None = claims.get("nonce")
    return nonce


@define(kw_only=True, eq=False)
class MachineGrant(Grant):
    """A grant that obtains tokens without a user."""

    @property
    def identity(self) -> str:
        return "machine"

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        return (yield from self.ask(ask, {"grant_type": "client_credentials"}))

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        return (yield from self.ask(ask, {"grant_type": "refresh_token", "refresh_token": refresh_token}))

    def ask(self, ask: TokenAsk, form: dict[str, str]) -> Flow[Tokens]:
        """Send a token request to the authorization server."""
        scope = {"scope": " ".join(ask.scopes)} if ask.scopes else {}
        try:
            reply = yield from post_form(ask.token_issuer.server.token_endpoint, {**form, **scope}, {})
        except CallFailed as failure:
            raise AuthorizationFailed(f"the token request failed: {failure}") from failure
        members = json.loads(reply.body)
        if reply.status != 200:
            raise AuthorizationFailed(f"refused: {members['error']}", error=members["error"])
        return Tokens(
            access_token=members["access_token"],
            token_type="Bearer" if ask.proofs is None else "DPoP",
            expires_at=None if "expires_in" not in members else self.clock() + members["expires_in"],
            refresh_token=members.get("refresh_token"),
            scopes=tuple(members["scope"].split()) if "scope" in members else None,
        )


@define(kw_only=True, eq=False)
class PersonGrant(MachineGrant):
    """A grant that lets a user sign in before it requests tokens."""

    interactive: ClassVar[bool] = True
    person: Person

    @property
    def identity(self) -> str:
        return "person"

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        redirect_uri: str = yield PickRedirect(None)
        query = urlencode({"issuer": ask.token_issuer.server.issuer, "scope": " ".join(ask.scopes or ())})
        yield BrowserStep(f"{ask.token_issuer.server.issuer}/authorize?{query}", redirect_uri)
        return (yield from self.ask(ask, {"grant_type": "authorization_code"}))

    def agent(self) -> AbstractAsyncContextManager[BrowserAgent]:
        return self.person.accompanied()


@define(eq=False)
class Person:
    """A scripted user; a `BrowserAgent` of any number of flows."""

    decision: trio.Event | None = None
    """If it is not None, the user decides when it is set; otherwise at once."""
    refusal: str | None = None
    sign_ins: list[str] = field(factory=list[str], init=False)
    active_flows: int = field(default=0, init=False)
    most_active_flows: int = field(default=0, init=False)

    @asynccontextmanager
    async def accompanied(self) -> AsyncGenerator[BrowserAgent]:
        """Count one flow while it uses the browser."""
        self.active_flows += 1
        self.most_active_flows = max(self.most_active_flows, self.active_flows)
        try:
            yield self
        finally:
            self.active_flows -= 1

    async def pick_redirect(self, preferred: str | None) -> str:
        """Return the redirect URI."""
        await trio.lowlevel.checkpoint()
        return preferred or REDIRECT_URI

    async def sign_in(self, url: str, redirect_uri: str) -> str:
        """Record the page and return the URL that the browser is redirected to."""
        self.sign_ins.append(url)
        await trio.lowlevel.checkpoint()
        if self.decision is not None:
            await self.decision.wait()
        if self.refusal is not None:
            raise AuthorizationFailed("the user denied access", error=self.refusal)
        return f"{redirect_uri}?code=1"


@define(eq=False)
class WaitCounter:
    """A counter of the requests of a connection that wait for the user."""

    count: int = field(default=0, init=False)

    @contextmanager
    def person(self) -> Generator[None]:
        """Count one request while it waits for the user."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


def connect(
    grant: Grant, network: Network, nursery: trio.Nursery, *, url: str = URL, asking: WaitCounter | None = None
) -> GrantSource:
    """Return the token source of a new connection whose tasks run in *nursery*."""
    asking_person = nullcontext if asking is None else asking.person
    source = grant.source(url, fetch=network.fetch, nursery=nursery, asking_person=asking_person)
    assert isinstance(source, GrantSource)
    return source


Responder = Callable[[Mapping[str, str]], tuple[int, dict[str, str]]]


async def request(source: GrantSource, respond: Responder) -> int:
    """Send a request as the transport does, and return the final status."""
    attempt = source.attempt("POST", URL)
    for _ in range(10):
        fields = await attempt.fields()
        await trio.lowlevel.checkpoint()
        status, headers = respond(fields)
        if not attempt.on_response(status, headers):
            return status
        await attempt.resolve()
    raise AssertionError("the request is repeated without end")


def cache_of(source: GrantSource) -> TokenCache:
    """Return the token cache of a source."""
    return source.cache


def connection_of(source: GrantSource) -> ConnectionServices:
    """Return the services that the connection provides."""
    return source.connection
