"""`ResourceServer`: whose tokens a protected server takes, what for, and how it tells clients so.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization and
https://www.rfc-editor.org/rfc/rfc9728
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote

import trio
from attrs import define, field, frozen

from ..._errors import McpError
from ...abc import Fetch, TokenVerifier
from ...peer import Access
from ...wire import INTERNAL_ERROR, INVALID_REQUEST, Headers, Refusal, encode
from .._challenges import Challenge, write_challenge
from .._dpop import SeenProofs, read_proof
from .._jose import ASYMMETRIC, LEEWAY_SECONDS, InvalidToken, VerifiedToken, VerifierUnavailable
from .._urls import origin_of, read_url, well_known_urls
from ._token_verifiers import IntrospectionVerifier, JwtVerifier, check_option

__all__ = ["ResourceServer", "TokenGuard"]


# What stands before a protected server: it looks at the head of each request, and says who makes it, or refuses it.
#
# Rules of this file:
#
# 1. Whatever cannot be told for certain is a refusal. A verifier that is out of reach, or fails, refuses with 503: the
#    token may be good, and a client that is told otherwise throws it away.
# 2. A refusal says what RFC 6750 and RFC 9449 let it say, and which scopes are missing. Why a token is not good goes
# to
#    the log, without the token.
# 3. Tokens are taken from one place, the header field `Authorization`, and only where there is one of them.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#error-handling

_log = logging.getLogger("trio_mcp.auth")

_MAX_TOKEN_CHARS = 16_384
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)
_MAX_PARAMETERS = 100
_UNAVAILABLE = Refusal(503, McpError(INTERNAL_ERROR, "tokens cannot be checked now"), headers={"retry-after": "10"})


@frozen
class _Credentials:
    scheme: Literal["bearer", "dpop"]
    token: str = field(repr=False)


class _InvalidProofError(InvalidToken):
    """A token may be good, but the proof beside it is not."""


@define(eq=False)
class TokenGuard:
    """Checks the requests of one application. Any number of tasks may use it at once.

    Args:
        server: whose tokens are taken, and what for.
        fetch: makes the requests to authorization servers.
    """

    _server: ResourceServer
    _fetch: Fetch
    _replays: SeenProofs = field(factory=SeenProofs, init=False, repr=False)

    async def admit(self, method: str, path: str, query: str, headers: Headers) -> Access | Refusal:
        """Return who makes a request, or why it is not served. Whoever is admitted has the scopes of every request.

        Args:
            method: in capitals.
            path: without percent-encoding, as ASGI has it, with what the application is mounted under.
            query: without ``?``, still percent-encoded.
            headers: by lower-case name; the values of repeated fields are joined with ``", "``.
        """
        await trio.lowlevel.checkpoint()
        credentials = self._credentials(query, headers)
        if not isinstance(credentials, _Credentials):
            return credentials
        try:
            token = await self._server.verifier.verify(credentials.token, self._fetch)
            self._check(token)
            self._check_binding(credentials, token, method, path, headers)
            access = self._access(token)
        except InvalidToken as exc:
            _log.info("a token was refused: %s", exc)
            return self._refuse_token(is_proof=isinstance(exc, _InvalidProofError))
        except VerifierUnavailable as exc:
            _log.warning("tokens cannot be checked: %s", exc)
            return _UNAVAILABLE
        except Exception:  # noqa: BLE001 # rule 1: it may be the application's own code, and do anything
            _log.exception("the verifier of tokens failed")
            return _UNAVAILABLE
        return self.permit(access, ()) or access

    def permit(self, access: Access, needed: Collection[str]) -> Refusal | None:
        """Return why somebody may not do something; None where they may. Synchronous.

        Args:
            needed: the scopes that it needs, beside those of every request.
        """
        wanted = [*self._server.scopes, *sorted(set(needed).difference(self._server.scopes))]
        if self._server.granted_by(access.scopes).issuperset(wanted):
            return None
        _log.info("%r was refused something: it needs the scopes %s", access.principal, wanted)
        sentence = f"this needs a token with the scope {' '.join(wanted)!r}"
        return self._refuse(403, sentence, error="insufficient_scope", scopes=wanted)

    def _credentials(self, query: str, headers: Headers) -> _Credentials | Refusal:
        if not _is_without_token(query):
            return self._refuse(400, "a token belongs into the header, not into the URL", error="invalid_request")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        scheme, token = scheme.lower(), token.strip(" ")
        known = scheme == "bearer" or (scheme == "dpop" and self._server.dpop != "off")
        if not known:
            return self._refuse(401, f"a token is needed: {self._server.metadata_url} says where to get one")
        if "," in token:
            return self._refuse(400, "there is more than one token", error="invalid_request")
        if len(token) > _MAX_TOKEN_CHARS or not _TOKEN.fullmatch(token):
            _log.info("a token was refused: it is too long, or holds what no token does")
            return self._refuse_token(is_proof=False)
        return _Credentials("dpop" if scheme == "dpop" else "bearer", token)

    def _check(self, token: VerifiedToken) -> None:
        """Check what every token has to say, whoever has verified it (rule 1: in a way that NaN does not pass)."""
        server, now = self._server, self._server.clock()
        if token.issuer not in server.issuers:
            raise InvalidToken(f"its issuer {token.issuer!r:.200} is none of those that are trusted")
        if server.accepted_audiences.isdisjoint(token.audiences):
            raise InvalidToken(f"it is for {token.audiences!r:.200}, and not for this server")
        if token.expires_at is not None and not now < token.expires_at + LEEWAY_SECONDS:
            raise InvalidToken("it has expired")
        if token.not_before is not None and not now >= token.not_before - LEEWAY_SECONDS:
            raise InvalidToken("it does not hold yet")

    def _check_binding(
        self, credentials: _Credentials, token: VerifiedToken, method: str, path: str, headers: Headers
    ) -> None:
        """Check that whoever shows a token has its key, and that it is shown as what it is."""
        if credentials.scheme == "bearer":
            if token.key_thumbprint is not None:
                raise InvalidToken("it is bound to a key, but is shown as if it were not")
            if self._server.dpop == "required":
                raise InvalidToken("it is bound to no key")
            return
        if token.key_thumbprint is None:
            raise InvalidToken("it is bound to no key, but is shown as if it were")
        now = self._server.clock()
        # A proxy may have cut the path: clients name the URL that they know.
        urls = {origin_of(self._server.resource) + quote(path), self._server.resource}
        try:
            text = headers.get("dpop", "")
            proof = read_proof(text, method=method, urls=urls, token=credentials.token, now=now)
            if proof.thumbprint != token.key_thumbprint:
                raise InvalidToken("it is made with another key than the token is bound to")  # noqa: TRY301
            if not self._replays.note(proof, now):
                raise InvalidToken("it was shown before")  # noqa: TRY301
        except InvalidToken as exc:
            raise _InvalidProofError(f"the proof beside it is not good: {exc}") from None

    def _access(self, token: VerifiedToken) -> Access:
        return Access(
            self._principal(token),
            scopes=token.scopes,
            client_id=token.client_id,
            expires_at=token.expires_at,
            claims=MappingProxyType(token.claims),
        )

    def _principal(self, token: VerifiedToken) -> str:
        """Return a text that no two of those can share who may see different things.

        A user cannot take the name of an application: where a subject looks like one, it is marked as a subject. Nor
        can an application take a user's: where it speaks for itself, its subject is its own name, or it has none.
        """
        if token.subject and token.subject != token.client_id:
            looks_marked = token.subject.startswith(("client ", "subject "))
            name = f"subject {token.subject}" if looks_marked else token.subject
        elif token.client_id:
            name = f"client {token.client_id}"
        else:
            raise InvalidToken("it speaks for nobody")
        return name if len(self._server.issuers) == 1 else f"{token.issuer} {name}"

    def _refuse_token(self, *, is_proof: bool) -> Refusal:
        error = "invalid_dpop_proof" if is_proof else "invalid_token"
        return self._refuse(401, "the token is not accepted", error=error)

    def _refuse(
        self, status: int, sentence: str, *, error: str | None = None, scopes: Sequence[str] | None = None
    ) -> Refusal:
        """Return a refusal with a challenge for each way to show a token."""
        parameters: dict[str, str] = {} if error is None else {"error": error}
        wanted = self._server.scopes if scopes is None else scopes
        if wanted:
            parameters["scope"] = " ".join(wanted)
        parameters["resource_metadata"] = self._server.metadata_url
        challenges: list[Challenge] = []
        if self._server.dpop != "required" and error != "invalid_dpop_proof":
            challenges.append(Challenge("Bearer", parameters))
        if self._server.dpop != "off":
            challenges.append(Challenge("DPoP", {**parameters, "algs": " ".join(ASYMMETRIC)}))
        fields = {"www-authenticate": ", ".join(map(write_challenge, challenges))}
        return Refusal(status, McpError(INVALID_REQUEST, sentence), headers=fields)


def _is_without_token(query: str) -> bool:
    try:
        parameters = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        return False
    return all(name != "access_token" for name, _ in parameters)


_DOCUMENT = "oauth-protected-resource"
_SCOPE = re.compile(r"[!#-\[\]-~]+")
_FOR_CLIENTS_ALONE = "offline_access"
"""A scope that is between a client and the authorization server: no server of resources asks for it."""
_DPOP_MODES = ("allowed", "required", "off")


def _texts(values: Sequence[str]) -> tuple[str, ...]:
    """Return a list of texts, for which a text by itself is easily mistaken."""
    if isinstance(values, str):
        raise ValueError(f"{values!r:.80}: must be a list of texts, not one text")
    return tuple(values)


def _texts_or_none(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else _texts(values)


def _spellings(url: str) -> frozenset[str]:
    """Return a URL as it stands, and as clients write it when they have read it: that is what they ask tokens for.

    Many of them put a slash where there is no path, and write host and port in the usual way. It stays the same URL.
    """
    parts = read_url(url)
    assert parts is not None  # it has been checked
    paths = ("", "/") if parts.path in {"", "/"} else (parts.path,)
    return frozenset({url, *(parts.origin + path for path in paths)})


@define(eq=False)
class ResourceServer:
    """What protects a server: pass it as `auth` to `http_app` or `serve_http`.

    ::

        ResourceServer("https://example.com/mcp", issuers=["https://login.example.com"], scopes=["read"])

    Each request then has to show a token of one of *issuers*, made for *resource*; handlers see whose it is in
    `Context.access`, whose `principal` is the token's subject (with several issuers, the issuer and a blank before it).
    Tokens are used here and passed on to nobody. One `ResourceServer` may protect several applications.

    Args:
        resource: the URL by which clients reach the server, as ``"https://example.com/mcp"``: what tokens are made for.
        issuers: the authorization servers whose tokens are taken, each as its own metadata spell it.
        verifier: says what a token is: `JwtVerifier`, `IntrospectionVerifier`, or yours. Who issued a token, whom it is
            for and how long it holds is checked in any case.
        scopes: what every request needs.
        scopes_supported: what clients are told that they may ask for; by default *scopes*.
        implied_scopes: what a scope includes besides itself: ``{"admin": ["read", "write"]}``.
        audiences: what tokens may be made for, in place of *resource* alone; compared as they stand.
        dpop: whether tokens that are bound to a key of the client's (RFC 9449) are taken, or are the only ones taken.
            Each application, in each process, remembers by itself which proofs it has seen.
        name: of the server, for people.
        documentation: a URL where developers read about it.
        trusted_hosts: names of hosts, without port, that may be reached without TLS, besides this machine.
        fetch: makes the requests to authorization servers, in place of the application's own HTTP client.
        clock: tells the time, as `time.time` does.

    Raises:
        ValueError: an option makes no sense; the text names it.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#protocol-requirements
    """

    resource: str
    issuers: Sequence[str] = field(kw_only=True, converter=_texts)
    verifier: TokenVerifier = field(factory=JwtVerifier, kw_only=True)
    scopes: Sequence[str] = field(default=(), kw_only=True, converter=_texts)
    scopes_supported: Sequence[str] | None = field(default=None, kw_only=True, converter=_texts_or_none)
    implied_scopes: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]], kw_only=True)
    audiences: Sequence[str] | None = field(default=None, kw_only=True, converter=_texts_or_none)
    dpop: Literal["allowed", "required", "off"] = field(default="allowed", kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    documentation: str | None = field(default=None, kw_only=True)
    trusted_hosts: Sequence[str] = field(default=(), kw_only=True, converter=_texts)
    fetch: Fetch | None = field(default=None, kw_only=True, repr=False)
    clock: Callable[[], float] = field(default=time.time, kw_only=True, repr=False)
    accepted_audiences: frozenset[str] = field(init=False, repr=False)
    """What tokens may be made for: *audiences*, or else *resource*, in each of the ways to write that URL."""

    def __attrs_post_init__(self) -> None:
        self._check_urls()
        self._check_scopes()
        if self.audiences is not None and not self.audiences:
            raise ValueError("audiences: there must be one at least, or no token is taken")
        self.accepted_audiences = _spellings(self.resource) if self.audiences is None else frozenset(self.audiences)
        if self.dpop not in _DPOP_MODES:
            raise ValueError(f"dpop={self.dpop!r}: must be one of {', '.join(_DPOP_MODES)}")
        if isinstance(self.verifier, JwtVerifier | IntrospectionVerifier):
            hosts, clock = self.trusted_hosts, self.clock
            self.verifier = self.verifier.serving(self.issuers, trusted_hosts=hosts, clock=clock)

    def _check_urls(self) -> None:
        if not self.issuers or len(set(self.issuers)) != len(self.issuers):
            raise ValueError("issuers: there must be one at least, and none twice")
        for url, name in [(self.resource, "resource"), *((issuer, "issuer") for issuer in self.issuers)]:
            check_option(url, name, self.trusted_hosts)
            parts = read_url(url)
            if parts is None or parts.query is not None:
                raise ValueError(f"the {name} {url!r} has a query, which names no server")

    def _check_scopes(self) -> None:
        implied = [name for names in self.implied_scopes.values() for name in _texts(names)]
        for name in (*self.scopes, *(self.scopes_supported or ()), *self.implied_scopes, *implied):
            if not _SCOPE.fullmatch(name):
                raise ValueError(f"{name!r} is no scope: one has no blanks, quotes or backslashes")
        if _FOR_CLIENTS_ALONE in self.scopes:
            raise ValueError(f"scopes: {_FOR_CLIENTS_ALONE!r} is for authorization servers; no request needs it")

    @property
    def metadata_url(self) -> str:
        """Where clients find the metadata: what challenges name."""
        return well_known_urls(self.resource, _DOCUMENT)[0]

    @property
    def metadata_paths(self) -> tuple[str, ...]:
        """The paths, as ASGI has them, at which the metadata are to be served to everybody."""
        parts = [read_url(url) for url in well_known_urls(self.resource, _DOCUMENT)]
        return tuple(unquote(part.path) for part in parts if part is not None)

    def document(self) -> bytes:
        """Return the metadata, which are JSON."""
        supported = self.scopes if self.scopes_supported is None else self.scopes_supported
        members: dict[str, Any] = {
            "resource": self.resource,
            "authorization_servers": list(self.issuers),
            "scopes_supported": [name for name in supported if name != _FOR_CLIENTS_ALONE],
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
            "resource_documentation": self.documentation,
            "dpop_signing_alg_values_supported": [] if self.dpop == "off" else list(ASYMMETRIC),
            "dpop_bound_access_tokens_required": self.dpop == "required" or None,
        }
        return encode({name: value for name, value in members.items() if value})

    def granted_by(self, scopes: Collection[str]) -> frozenset[str]:
        """Return scopes with all that they imply."""
        granted: set[str] = set()
        waiting = list(scopes)
        while waiting:
            name = waiting.pop()
            if name not in granted:
                granted.add(name)
                waiting += self.implied_scopes.get(name, ())
        return frozenset(granted)

    def guard(self, fetch: Fetch) -> TokenGuard:
        """Return what checks the requests of one application.

        Args:
            fetch: makes the requests to authorization servers, unless there is one of the user's.
        """
        return TokenGuard(self, self.fetch or fetch)
