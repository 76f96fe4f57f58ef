"""A protected server and its authorization server, as a client's keeper of tokens meets them.

There are no sockets, a clock of its own, refresh tokens that are good once, and whatever a test wants to go wrong.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import trio
from attrs import define, field

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


@define
class Clock:
    """Tells what time a test says it is."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@define(eq=False, repr=False)
class Network:
    """Everything that a client asks beside the protocol, and the protected server's own judgement of requests."""

    clock: Clock
    issuer: str = ISSUER
    lifetime: int | None = 3600
    """Seconds for which access tokens are said to be good; None: nothing is said."""
    refreshable: bool = True
    rotates: bool = True
    same_token: bool = False
    """Whether all tokens are one and the same."""
    scopes_supported: list[str] | None = None
    needs_dpop: bool = False
    nonce: str | None = None
    """What proofs to the protected server have to hold."""
    refusal: str | None = None
    """The error with which all requests for tokens are answered."""
    is_down: bool = False
    held_up: trio.Event | None = None
    """What requests for tokens wait for."""
    accepted: set[str] = field(factory=set[str], init=False)
    """The tokens that the protected server takes."""
    scopes_needed: set[str] = field(factory=set[str], init=False)
    granted: dict[str, str] = field(factory=dict[str, str], init=False)
    """The scopes of each token."""
    asked: list[dict[str, str]] = field(factory=list[dict[str, str]], init=False)
    """The forms of the requests for tokens."""
    urls: list[str] = field(factory=list[str], init=False)
    presented: list[str] = field(factory=list[str], init=False)
    """The refresh tokens, in the order in which they came."""
    good_refresh: set[str] = field(factory=set[str], init=False)
    serial: int = field(default=0, init=False)

    @property
    def grants(self) -> list[str]:
        """What was asked for, of each request for a token."""
        return [form["grant_type"] for form in self.asked]

    async def fetch(self, call: HttpCall) -> HttpReply:
        """Answer a request; an `abc.Fetch`."""
        await trio.lowlevel.checkpoint()
        self.urls.append(call.url)
        if self.is_down:
            raise CallFailed("nobody is there")
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
        """Make a response out of the members that are not None."""
        body = json.dumps({name: member for name, member in value.items() if member is not None})
        return HttpReply(status=status, headers={"content-type": "application/json"}, body=body.encode())

    async def token(self, form: dict[str, str]) -> HttpReply:
        """Answer a request for a token."""
        self.asked.append(form)
        if form["grant_type"] == "refresh_token":
            self.presented.append(form["refresh_token"])
        if self.held_up is not None:
            await self.held_up.wait()
        if self.refusal is not None:
            return self.json({"error": self.refusal}, status=400)
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.good_refresh:
                return self.json({"error": "invalid_grant"}, status=400)
            if self.rotates:
                self.good_refresh.remove(form["refresh_token"])
        return self.json(self.issue(form.get("scope", ""), confirms=form["grant_type"] == "refresh_token"))

    def issue(self, scope: str, *, confirms: bool = False) -> dict[str, object]:
        """Make a token that the protected server takes, and what comes with it."""
        self.serial += 1
        token = "always-the-same" if self.same_token else f"access-{self.serial}"
        self.accepted.add(token)
        self.granted[token] = scope
        refresh = f"refresh-{self.serial}" if self.refreshable and (self.rotates or not confirms) else None
        if refresh is not None:
            self.good_refresh.add(refresh)
        return {"access_token": token, "expires_in": self.lifetime, "refresh_token": refresh, "scope": scope or None}

    def revoke(self) -> None:
        """Take none of the access tokens any more that there are."""
        self.accepted.clear()

    def judge(self, fields: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        """Answer a request to the protected server that has these header fields."""
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
    """Return the nonce of a proof of possession."""
    from joserfc import jws

    claims = json.loads(jws.extract_compact(proof.encode()).payload)
    nonce: str | None = claims.get("nonce")
    return nonce


@define(kw_only=True, eq=False)
class MachineGrant(Grant):
    """Asks for tokens without a person."""

    @property
    def identity(self) -> str:
        return "machine"

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        return (yield from self.ask(ask, {"grant_type": "client_credentials"}))

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        return (yield from self.ask(ask, {"grant_type": "refresh_token", "refresh_token": refresh_token}))

    def ask(self, ask: TokenAsk, form: dict[str, str]) -> Flow[Tokens]:
        """Ask the authorization server for tokens."""
        scope = {"scope": " ".join(ask.scopes)} if ask.scopes else {}
        try:
            reply = yield from post_form(ask.token_issuer.server.token_endpoint, {**form, **scope}, {})
        except CallFailed as failure:
            raise AuthorizationFailed(f"the token request failed: {failure}") from failure
        said = json.loads(reply.body)
        if reply.status != 200:
            raise AuthorizationFailed(f"refused: {said['error']}", error=said["error"])
        return Tokens(
            access_token=said["access_token"],
            token_type="Bearer" if ask.proofs is None else "DPoP",
            expires_at=None if "expires_in" not in said else self.clock() + said["expires_in"],
            refresh_token=said.get("refresh_token"),
            scopes=tuple(said["scope"].split()) if "scope" in said else None,
        )


@define(kw_only=True, eq=False)
class PersonGrant(MachineGrant):
    """Asks a person before it asks for tokens."""

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
    """Visits authorization servers; a `BrowserAgent` of any number of flows."""

    thinking: trio.Event | None = None
    """What the person waits for; None: they agree at once."""
    refusal: str | None = None
    sign_ins: list[str] = field(factory=list[str], init=False)
    at_once: int = field(default=0, init=False)
    most_at_once: int = field(default=0, init=False)

    @asynccontextmanager
    async def accompanied(self) -> AsyncGenerator[BrowserAgent]:
        """Go along for one flow."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            yield self
        finally:
            self.at_once -= 1

    async def pick_redirect(self, preferred: str | None) -> str:
        """Return where the browser comes back to."""
        await trio.lowlevel.checkpoint()
        return preferred or REDIRECT_URI

    async def sign_in(self, url: str, redirect_uri: str) -> str:
        """Look at the page, and come back."""
        self.sign_ins.append(url)
        await trio.lowlevel.checkpoint()
        if self.thinking is not None:
            await self.thinking.wait()
        if self.refusal is not None:
            raise AuthorizationFailed("the person said no", error=self.refusal)
        return f"{redirect_uri}?code=1"


@define(eq=False)
class Asking:
    """Counts the requests of a connection for which a person is being asked."""

    now: int = field(default=0, init=False)

    @contextmanager
    def person(self) -> Generator[None]:
        """Enter while a person is being asked."""
        self.now += 1
        try:
            yield
        finally:
            self.now -= 1


def connect(
    grant: Grant, network: Network, nursery: trio.Nursery, *, url: str = URL, asking: Asking | None = None
) -> GrantSource:
    """Return what shows the tokens of a grant, for a new connection whose tasks are in *nursery*."""
    asking_person = nullcontext if asking is None else asking.person
    source = grant.source(url, fetch=network.fetch, nursery=nursery, asking_person=asking_person)
    assert isinstance(source, GrantSource)
    return source


Judge = Callable[[Mapping[str, str]], tuple[int, dict[str, str]]]


async def request(source: GrantSource, judge: Judge) -> int:
    """Send a request as the transport does, and return the status it ends with."""
    attempt = source.attempt("POST", URL)
    for _ in range(10):
        fields = await attempt.fields()
        await trio.lowlevel.checkpoint()
        status, headers = judge(fields)
        if not attempt.on_response(status, headers):
            return status
        await attempt.resolve()
    raise AssertionError("a request is repeated without end")


def cache_of(source: GrantSource) -> TokenCache:
    """Return who keeps the tokens."""
    return source.cache


def connection_of(source: GrantSource) -> ConnectionServices:
    """Return what the connection lends."""
    return source.connection
