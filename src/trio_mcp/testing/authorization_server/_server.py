"""An authorization server for development: everything that MCP requires, in one ASGI application without a database.

`_authorize` serves browsers, `_token` serves clients and keeps grants, and `_clients` keeps registrations.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Never, TypeAlias, Unpack
from urllib.parse import unquote, urlsplit

import trio
from attrs import evolve, frozen

from ..._util import owned_nursery
from ...transports import (
    AsgiChannel,
    HttpListening,
    HttpRequest,
    HttpSockets,
    Receive,
    Scope,
    Send,
    bind_sockets,
    open_fetch,
    read_body,
    serve_asgi,
)
from ...wire import Undecodable, decode, is_object
from ._authorize import BrowserSessions
from ._clients import THIS_MACHINE, ClientCheck, ClientRegistry
from ._http import BODY_SECONDS, MAX_BODY_BYTES, EndpointRequest, EndpointResponse, OAuthError, json_answer, refusal
from ._keys import ALGORITHMS, SigningKeys
from ._options import JWT_BEARER, TOKEN_EXCHANGE, AuthorizationRequest, AuthorizationServerOptions, Endpoint, Settings
from ._token import Exchanges, GrantBook, ProofCheck, TokenEndpoint, TokenFamily

__all__ = ["AuthorizationServer", "metadata_paths", "open_authorization_server", "server_metadata"]

_Handler: TypeAlias = Callable[[EndpointRequest], Awaitable[EndpointResponse]]
_MAX_REQUESTS = 10_000
"""The number of requests to remember."""
_SECRETS = frozenset(
    (
        "access_token",
        "assertion",
        "client_assertion",
        "client_secret",
        "code",
        "code_verifier",
        "id_token",
        "password",
        "refresh_token",
        "state",
        "subject_token",
        "ticket",
        "token",
    )
)
_ANY_ORIGIN = {"access-control-allow-origin": "*", "access-control-expose-headers": "DPoP-Nonce, WWW-Authenticate"}
_PREFLIGHT = {
    **_ANY_ORIGIN,
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "Authorization, Content-Type, DPoP, MCP-Protocol-Version",
}


@frozen
class _Route:
    endpoint: Endpoint
    method: str
    handler: _Handler


class AuthorizationServer:
    """An OAuth 2.1 authorization server for tests and development.

    **Not for production**: it keeps everything in memory, stores passwords in plain text, and can be made to misbehave.

    The server is an ASGI 3 application on Trio. In one process with a client and an MCP server::

        auth = AuthorizationServer("https://auth.example", auto_consent=True)
        network = AsgiNetwork({"https://auth.example": auth, "https://mcp.example": app})

    `open_authorization_server` serves it on a socket. The server issues access tokens as JWTs (RFC 9068, ES256) for the
    grants authorization_code (PKCE with S256), refresh_token (with rotation; reuse of an old token revokes the family),
    client_credentials and jwt-bearer (ID-JAGs, workloads), and issues ID-JAGs by token-exchange. Clients are
    configured, registered dynamically (RFC 7591), or described by a metadata document. Tokens may be bound to a key
    (DPoP).

    Args:
        issuer: the URL of the server; if it has a path, all endpoints are below the path.
        options: see `AuthorizationServerOptions`.

    Raises:
        ValueError: *issuer* is not a valid issuer URL.
        TypeError: an option is unknown.
    """

    def __init__(self, issuer: str, **options: Unpack[AuthorizationServerOptions]) -> None:
        self.settings = Settings(issuer=issuer, **options)
        """The options, by name; they may be changed while the server runs."""
        self.requests: list[AuthorizationRequest] = []
        """The requests so far, the newest last; the oldest are dropped after 10,000."""
        self._keys = SigningKeys()
        self._registry = ClientRegistry(self.settings)
        self._grants = GrantBook(self.settings, self._keys)
        self._proofs = ProofCheck(self.settings)
        self._check = ClientCheck(self.settings, self._registry)
        self._routes = self._make_routes()

    def _make_routes(self) -> Mapping[str, _Route]:
        exchanges = Exchanges(self.settings, self._keys, self._check, self._grants)
        token = TokenEndpoint(self.settings, self._check, self._proofs, self._grants, exchanges)
        visits = BrowserSessions(self.settings, self._registry, self._grants)
        base = unquote(urlsplit(self.issuer).path).rstrip("/")
        below = {
            "/authorize": _Route("authorize", "GET", visits.authorize),
            "/decide": _Route("decide", "POST", visits.decide),
            "/token": _Route("token", "POST", token.answer),
            "/register": _Route("register", "POST", self._register),
            "/jwks": _Route("jwks", "GET", self._show_keys),
            "/introspect": _Route("introspect", "POST", self._introspect),
            "/revoke": _Route("revoke", "POST", self._revoke),
        }
        metadata = dict.fromkeys(metadata_paths(self.issuer), _Route("metadata", "GET", self._show_metadata))
        return {**metadata, **{base + path: route for path, route in below.items()}}

    @property
    def issuer(self) -> str:
        """The issuer: the URL of the server."""
        return self.settings.issuer

    @property
    def jwks(self) -> dict[str, Any]:
        """The public keys that verify its tokens, as a JWK set."""
        return self._keys.public()

    @property
    def refreshes(self) -> int:
        """The number of tokens that were issued for a refresh token."""
        return self._grants.refreshes

    @property
    def reuses(self) -> int:
        """The number of refresh tokens that were presented again after their use."""
        return self._grants.reuses

    def asked(self, endpoint: Endpoint) -> list[AuthorizationRequest]:
        """Return the requests to one endpoint so far."""
        return [request for request in self.requests if request.endpoint == endpoint]

    async def visit(self, url: str) -> str:
        """Request *url*, a URL of this server, as a user's browser would, and return the URL of the redirect.

        With *auto_consent*, this method replaces the browser in a test of a client::

            OAuth(visit=auth.visit, redirect_uri="http://127.0.0.1/callback")

        Raises:
            ValueError: the response is a page instead of a redirect. The message contains the page.
        """
        parts = urlsplit(url)
        request = HttpRequest(method="GET", path=unquote(parts.path), query=parts.query, headers={})
        answer = await self._answer(request)
        if "location" not in answer.headers:
            raise ValueError(f"the server responded with a page instead of a redirect: {answer.body.decode()}")
        return answer.headers["location"]

    def issue_token(
        self,
        *,
        resource: str,
        scopes: Sequence[str] = (),
        subject: str = "user",
        client_id: str = "client",
        seconds: float | None = None,
        claims: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> str:
        """Return an access token, without a flow.

        Args:
            resource: the server that it is for.
            scopes: the scopes that it grants.
            subject: the user who has granted it.
            client_id: the client that it is for.
            seconds: its lifetime; by default that of other tokens.
            claims: claims to add, or to replace, by name: ``{"nbf": 1700000000}``.

        Raises:
            TypeError: an option is unknown, or *scopes* is one string.
        """
        if isinstance(scopes, str):
            raise TypeError(f"issue_token(): scopes={scopes!r}: pass a list of strings, such as {scopes.split()!r}")
        if unknown:
            raise TypeError(
                f"issue_token(): unexpected keyword argument {next(iter(unknown))!r}; it takes resource, scopes, "
                "subject, client_id, seconds (the lifetime) and claims"
            )
        family = TokenFamily(client_id=client_id, subject=subject, scopes=tuple(scopes), resource=resource)
        lifetime = self.settings.token_seconds if seconds is None else seconds
        return self._grants.access_token(family, family.scopes, lifetime, claims)

    def issue_id_token(self, *, subject: str, client_id: str, seconds: float = 300.0) -> str:
        """Return an ID token of a signed-in user, which a client can exchange for an ID-JAG.

        Args:
            subject: the name of the user.
            client_id: the client to which the token is issued.
            seconds: the lifetime of the token.
        """
        now = int(self.settings.clock())
        claims = {"iss": self.issuer, "sub": subject, "aud": client_id, "iat": now, "exp": now + int(seconds)}
        return self.sign(claims)

    def sign(self, claims: Mapping[str, Any], *, typ: str = "JWT") -> str:
        """Return a JWT with exactly these claims, signed with the newest key.

        Args:
            claims: the claims, as JSON.
            typ: the type of the token, in its header.
        """
        return self._keys.sign(claims, typ=typ)

    def rotate_key(self, *, keep: bool = True) -> None:
        """Use another signing key from now on; *keep* still publishes the earlier ones."""
        self._keys.rotate(keep=keep)

    def renew_nonce(self) -> None:
        """Require another nonce in proofs of possession from now on; see the option *dpop_nonces*."""
        self._proofs.renew_nonce()

    def forget_clients(self) -> None:
        """Delete all dynamic registrations."""
        self._registry.forget_registered()

    def expire_tokens(self) -> None:
        """Expire all access tokens for introspection; the expiry within a JWT stays the same."""
        self._grants.expire()

    def revoke_all(self) -> None:
        """Revoke everything that was granted so far, including refresh tokens and codes."""
        self._grants.revoke_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope.

        Raises:
            ValueError: the scope is neither HTTP nor a lifespan.
        """
        match scope["type"]:
            case "http":
                await self._take(HttpRequest.of(scope), scope, receive, send)
            case "lifespan":
                for moment in ("startup", "shutdown"):
                    await receive()
                    await send({"type": f"lifespan.{moment}.complete"})
            case unknown:
                raise ValueError(f"ASGI scope of the type {unknown!r}: this application supports only HTTP")

    async def _take(self, request: HttpRequest, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(AsgiChannel(scope, receive, send), MAX_BODY_BYTES, BODY_SECONDS)
        if body is None:
            return
        if isinstance(body, bytes):
            answer = await self._answer(evolve(request, body=body))
        else:
            answer = EndpointResponse(status=body.status)
        fields = {**answer.headers, "content-length": str(len(answer.body))}
        lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": lines})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})

    async def _answer(self, request: HttpRequest) -> EndpointResponse:
        route = self._routes.get(request.path)
        if route is None:
            return EndpointResponse(status=404)
        if request.method == "OPTIONS":
            return EndpointResponse(status=204, headers=_PREFLIGHT)
        if request.method != route.method:
            return EndpointResponse(status=405, headers={"allow": route.method})
        parameters: Mapping[str, Any] = {}
        try:
            asked = EndpointRequest.of(request)
            parameters = _shown(asked)
            if self.settings.before is not None:
                await self.settings.before(route.endpoint)
            answer = await route.handler(asked)
        except OAuthError as error:
            answer = refusal(error)
        self.requests.append(
            AuthorizationRequest(
                endpoint=route.endpoint, parameters=parameters, status=answer.status, error=answer.error
            )
        )
        del self.requests[:-_MAX_REQUESTS]
        return (
            answer
            if route.endpoint in {"authorize", "decide"}
            else evolve(answer, headers={**answer.headers, **_ANY_ORIGIN})
        )

    async def _show_metadata(self, _: EndpointRequest) -> EndpointResponse:
        return json_answer(self.settings.changed("metadata", server_metadata(self.settings)))

    async def _show_keys(self, _: EndpointRequest) -> EndpointResponse:
        return json_answer(self.settings.changed("jwks", self.jwks))

    async def _register(self, asked: EndpointRequest) -> EndpointResponse:
        if not self.settings.registration:
            raise OAuthError("access_denied", "dynamic client registration is not supported", status=403)
        response = self._registry.register(asked.json())
        return json_answer(self.settings.changed("register", response), status=201)

    async def _introspect(self, asked: EndpointRequest) -> EndpointResponse:
        client = await self._check.check(asked)
        if client.is_public:
            raise OAuthError("invalid_client", "the client must authenticate", status=401)
        return json_answer(self.settings.changed("introspect", self._grants.introspect(asked.form.get("token", ""))))

    async def _revoke(self, asked: EndpointRequest) -> EndpointResponse:
        client = await self._check.check(asked)
        self._grants.revoke(asked.form.get("token", ""), client.client_id)
        return json_answer(self.settings.changed("revoke", {}))


def _shown(asked: EndpointRequest) -> Mapping[str, Any]:
    """Return the parameters of a request, without secrets."""
    try:
        body: Any = decode(asked.body)
    except Undecodable:
        body = None
    everything: dict[str, Any] = {**asked.query, **asked.form, **(body if is_object(body) else {})}
    return {name: "(secret)" if name in _SECRETS else value for name, value in everything.items()}


# --- Serving on a local socket, for browsers and other processes ---


@asynccontextmanager
async def open_authorization_server(
    *, host: str = "127.0.0.1", port: int = 0, path: str = "", **options: Unpack[AuthorizationServerOptions]
) -> AsyncGenerator[AuthorizationServer]:
    """Serve an `AuthorizationServer` over HTTP within a block.

    Not for production. An example with a resource server:

    ::

        async with open_authorization_server(auto_consent=True) as auth:
            protection = ResourceServer("http://127.0.0.1:8000/mcp", issuers=[auth.issuer])

    The server reads client ID metadata documents, including local ones, unless *fetch* is None.

    Args:
        host: ``"127.0.0.1"``, ``"localhost"`` (at each of its addresses) or ``"::1"``.
        port: the port; 0 means any free one.
        path: the path of the issuer, for several authorization servers on one host: ``"/tenant1"``.
        options: see `AuthorizationServerOptions`.

    Raises:
        OSError: the address is not available.
        ValueError: *host* is not a loopback host.
    """
    if host not in THIS_MACHINE:
        raise ValueError(
            f"open_authorization_server(host={host!r}): only a loopback host is allowed for a development server"
        )
    listening = HttpListening(host=host, port=port)
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(await bind_sockets(listening))
        if "fetch" not in options:
            options["fetch"] = await stack.enter_async_context(open_fetch(trusted_hosts=[*THIS_MACHINE]))
        auth = AuthorizationServer(f"http://{_in_brackets(host)}:{sockets.bound.port}{path}", **options)
        await stack.enter_async_context(_served(auth, listening, sockets))
        yield auth


@asynccontextmanager
async def _served(auth: AuthorizationServer, listening: HttpListening, sockets: HttpSockets) -> AsyncGenerator[None]:
    stop, ended = trio.Event(), trio.Event()

    async def serve(task_status: trio.TaskStatus[object]) -> None:
        await serve_asgi(
            auth,
            listening,
            stopping=stop.wait,
            drain=trio.lowlevel.checkpoint,
            drain_seconds=1.0,
            sockets=sockets,
            task_status=task_status,
        )
        ended.set()

    async def wind_down() -> None:
        stop.set()
        await ended.wait()

    async with owned_nursery(wind_down) as nursery:
        await nursery.start(serve)
        yield


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def metadata_paths(issuer: str) -> tuple[str, ...]:
    """Return the paths of an issuer's metadata at its origin, without percent-encoding."""
    path = unquote(urlsplit(issuer).path).rstrip("/")
    both = (f"/.well-known/oauth-authorization-server{path}", f"/.well-known/openid-configuration{path}")
    return (*both, f"{path}/.well-known/openid-configuration") if path else both


def server_metadata(settings: Settings) -> dict[str, Any]:
    """Return the metadata: one document for both specifications."""
    grants = ["authorization_code", "refresh_token", "client_credentials", TOKEN_EXCHANGE]
    members: dict[str, Any] = {
        "issuer": settings.issuer,
        "authorization_endpoint": settings.endpoint_url("/authorize"),
        "token_endpoint": settings.endpoint_url("/token"),
        "jwks_uri": settings.endpoint_url("/jwks"),
        "introspection_endpoint": settings.endpoint_url("/introspect"),
        "revocation_endpoint": settings.endpoint_url("/revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "grant_types_supported": [*grants, JWT_BEARER] if settings.trusted_issuers else grants,
        "token_endpoint_auth_methods_supported": [*settings.auth_methods],
        "token_endpoint_auth_signing_alg_values_supported": [*ALGORITHMS],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": settings.fetch is not None,
    }
    scopes = [*(settings.scopes or ())]
    if settings.refresh_tokens == "offline_access" and "offline_access" not in scopes:
        scopes.append("offline_access")
    if scopes:
        members["scopes_supported"] = scopes
    if settings.registration:
        members["registration_endpoint"] = settings.endpoint_url("/register")
    if settings.dpop != "off":
        members["dpop_signing_alg_values_supported"] = ["ES256"]
    return members
