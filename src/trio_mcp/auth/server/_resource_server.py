"""The resource server: the accepted tokens of a protected MCP server, its metadata, and the check of each request.

Rules of the token guard:

1. A request is refused unless it is certainly allowed. If a verifier is out of reach, or fails, the status is 503: the
   token may be valid, and the client would discard it otherwise.
2. A refusal contains what RFC 6750 and RFC 9449 allow, and the missing scopes. The reason why a token is invalid is
   logged as a warning, which is seen without any configuration, and without the token. A missing scope that only some
   operations need is no warning: the client obtains it when it is told so.
3. The log is bounded: a minute has one line for each sender and reason, and others for the 10th, the 100th time and so
   on. The lines are a bound that all senders share (`trio_mcp._shares`); what has no line is counted.
4. A token is accepted only in the header field `Authorization`, and only if there is exactly one.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#error-handling and
https://www.rfc-editor.org/rfc/rfc9728
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote

import trio
from attrs import define, field, frozen

from ..._errors import McpError, SharedUnavailable
from ..._shares import Sender, SharedBound, sender_of
from ..._util import failure_of
from ...abc import Fetch, SharedService, TokenVerifier
from ...peer import Access
from ...wire import INTERNAL_ERROR, INVALID_REQUEST, Headers, Refusal, encode
from .._challenges import Challenge, write_challenge
from .._dpop import CheckedProof, SeenProofs, read_proof
from .._jwt import ASYMMETRIC, LEEWAY_SECONDS, InvalidToken, VerifiedToken, VerifierUnavailable
from .._urls import origin_of, read_url, shown_text, well_known_urls
from ._introspection import IntrospectionVerifier, SenderFetch
from ._token_verifiers import JwtVerifier, check_option

__all__ = ["ResourceServer", "TokenGuard"]


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
    """The token may be valid, but its proof of possession is not."""


_LOG_SECONDS = 60.0
_MOST_LINES = 50
"""The greatest number of different lines in a minute."""
_WITHOUT_LINE = "more requests were refused, for reasons that are not logged one by one"


@define(eq=False)
class RefusalLog:
    """The log of refused requests (rule 3).

    Args:
        clock: returns the time, as `time.time` does.
    """

    _clock: Callable[[], float]
    _begun_at: float = field(default=-math.inf, init=False)
    """The beginning of the minute."""
    _lines: SharedBound[tuple[Sender, str]] = field(init=False, repr=False)
    _times: dict[tuple[Sender, str], int] = field(factory=dict[tuple[Sender, str], int], init=False, repr=False)
    """The number of times for each line of this minute."""

    def __attrs_post_init__(self) -> None:
        self._lines = SharedBound(_MOST_LINES)

    def note(self, sender: Sender, line: str, failure: Exception | None = None) -> None:
        """Log a line as a warning, or count it.

        Args:
            sender: the sender of the refused request.
            line: the sentence. It may contain texts of a peer that `shown_text` has bounded.
            failure: the bug that is the reason; its traceback is logged.
        """
        now = self._clock()
        if not 0 <= now - self._begun_at < _LOG_SECONDS:
            self._begun_at, self._lines = now, SharedBound(_MOST_LINES)
            self._times.clear()
        if not self._has_line(sender, line):
            sender, line = None, _WITHOUT_LINE
        times = self._times[sender, line] = self._times.get((sender, line), 0) + 1
        if times == 1:
            _log.log(logging.WARNING if failure is None else logging.ERROR, "%s", line, exc_info=failure)
        elif f"{times}".rstrip("0") == "1":
            _log.warning("%s (%d times within a minute)", line, times)

    def _has_line(self, sender: Sender, line: str) -> bool:
        """Return True if a line may be logged, after another one has given way if necessary."""
        if (sender, line) in self._lines:
            return True
        if not self._lines.has_room():
            other = self._lines.oldest_to_give_way(sender)
            if other is None:
                return False
            self._lines.remove(other)
            del self._times[other]
        self._lines.add(sender, (sender, line))
        return True


@define(eq=False)
class TokenGuard:
    """The check of the requests of one application. Any number of tasks may use it at once.

    Args:
        server: the options.
        fetch: makes the requests to authorization servers.
    """

    _server: ResourceServer
    _fetch: Fetch
    shared: SharedService | None = field(default=None, init=False)
    """The memory that this process has in common with the others of its service; None if there are no others."""
    _replays: SeenProofs = field(factory=SeenProofs, init=False, repr=False)
    _refusals: RefusalLog = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._refusals = RefusalLog(self._server.clock)

    async def admit(
        self, method: str, path: str, query: str, headers: Headers, *, client: str | None = None
    ) -> Access | Refusal:
        """Return the access of a request, or its refusal. Admitted requests have the scopes that every request needs.

        Args:
            method: the method, in capitals.
            path: the path without percent-encoding, as in ASGI, including the path that the application is mounted at.
            query: the query without ``?``, percent-encoded.
            headers: the fields, by lower-case name; the values of repeated fields are joined with ``", "``.
            client: the network address of the client without its port; None if there is none.
        """
        await trio.lowlevel.checkpoint()
        credentials = self._credentials(query, headers, client)
        if not isinstance(credentials, _Credentials):
            return credentials
        sender = sender_of(None, client)
        try:
            fetch = SenderFetch(self._fetch, sender, self.shared)
            token = await self._server.verifier.verify(credentials.token, fetch)
            self._check(token)
            access = self._access(token)
            proof = self._check_binding(credentials, token, access.principal, method, path, headers)
            if proof is not None and self.shared is not None:
                await self._check_everywhere(proof, self.shared)
        except InvalidToken as exc:
            self._note_token(client, str(exc))
            return self._refuse_token(is_proof=isinstance(exc, _InvalidProofError))
        except VerifierUnavailable as exc:
            self._refusals.note(None, f"tokens cannot be checked: {shown_text(str(exc))}")
            return _UNAVAILABLE
        except BaseException as exc:  # noqa: BLE001 # rule 1: an application's own verifier may raise anything
            line = f"the token verifier failed: {type(exc).__name__}"
            self._refusals.note(None, line, failure_of(exc, "the token verifier", _log))
            return _UNAVAILABLE
        return self.permit(access, ()) or access

    def _note_token(self, client: str | None, reason: str) -> None:
        """Log the reason why a token is refused."""
        place = "" if client is None else f" from {shown_text(client)}"
        self._refusals.note(sender_of(None, client), f"a token{place} was refused: {shown_text(reason)}")

    def permit(self, access: Access, needed: Collection[str]) -> Refusal | None:
        """Return the refusal if scopes are missing, None if they are granted; synchronous.

        Args:
            access: the authenticated caller.
            needed: the required scopes, besides those that every request needs.
        """
        wanted = [*self._server.scopes, *sorted(set(needed).difference(self._server.scopes))]
        if self._server.granted_by(access.scopes).issuperset(wanted):
            return None
        line = f"{access.principal!r:.200} was refused: the scopes {' '.join(wanted)!r:.400} are required"
        if needed:
            _log.info("%s", line)
        else:
            self._refusals.note(sender_of(access.principal, None), line)
        sentence = f"this requires a token with the scope {' '.join(wanted)!r}"
        return self._refuse(403, sentence, error="insufficient_scope", scopes=wanted)

    def _credentials(self, query: str, headers: Headers, client: str | None) -> _Credentials | Refusal:
        if not _is_without_token(query):
            self._note_token(client, "it is in the URL, and not in the header")
            return self._refuse(400, "the token must be in the header, not in the URL", error="invalid_request")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        scheme, token = scheme.lower(), token.strip(" ")
        known = scheme == "bearer" or (scheme == "dpop" and self._server.dpop != "off")
        if not known:
            return self._refuse(401, f"a token is required; see {self._server.metadata_url}")
        if "," in token:
            self._note_token(client, "there is more than one")
            return self._refuse(400, "there is more than one token", error="invalid_request")
        if len(token) > _MAX_TOKEN_CHARS or not _TOKEN.fullmatch(token):
            self._note_token(client, "it is too long, or contains invalid characters")
            return self._refuse_token(is_proof=False)
        return _Credentials("dpop" if scheme == "dpop" else "bearer", token)

    def _check(self, token: VerifiedToken) -> None:
        """Check the claims of every token, independently of its verifier (rule 1: comparisons fail for NaN)."""
        server, now = self._server, self._server.clock()
        if token.issuer not in server.issuers:
            raise InvalidToken(f"its issuer {token.issuer!r:.200} is not trusted")
        if server.accepted_audiences.isdisjoint(token.audiences):
            raise InvalidToken(f"it is for {token.audiences!r:.200}, not for this server")
        if token.expires_at is not None and not now < token.expires_at + LEEWAY_SECONDS:
            raise InvalidToken(f"it expired {now - token.expires_at:.0f} s ago")
        if token.not_before is not None and not now >= token.not_before - LEEWAY_SECONDS:
            raise InvalidToken("it is not valid yet")

    def _check_binding(
        self, credentials: _Credentials, token: VerifiedToken, principal: str, method: str, path: str, headers: Headers
    ) -> CheckedProof | None:
        """Check that the client holds the key of a bound token, and that the scheme fits; return the proof, if any."""
        if credentials.scheme == "bearer":
            if token.key_thumbprint is not None:
                raise InvalidToken("it is bound to a key, but was sent as a bearer token")
            if self._server.dpop == "required":
                raise InvalidToken("it is not bound to a key")
            return None
        if token.key_thumbprint is None:
            raise InvalidToken("it is not bound to a key, but was sent as a bound token")
        now = self._server.clock()
        # A proxy may have changed the path: clients name the URL that they know.
        urls = {origin_of(self._server.resource) + quote(path), self._server.resource}
        try:
            text = headers.get("dpop", "")
            proof = read_proof(text, method=method, urls=urls, token=credentials.token, now=now)
            if proof.thumbprint != token.key_thumbprint:
                raise InvalidToken("it was made with another key than the token's")  # noqa: TRY301
            if not self._replays.note(proof, now, principal):
                raise InvalidToken("it was used before, or is older than the memory of used proofs")  # noqa: TRY301
        except InvalidToken as exc:
            raise _InvalidProofError(f"its proof is invalid: {exc}") from None
        return proof

    async def _check_everywhere(self, proof: CheckedProof, shared: SharedService) -> None:
        """Check that no other process of the service has accepted a proof.

        Raises:
            VerifierUnavailable: that cannot be known now (rule 1).
        """
        try:
            is_first = await shared.is_first(
                f"proof {proof.digest.hex()}", seconds=proof.seconds_after(self._server.clock())
            )
        except SharedUnavailable as exc:
            raise VerifierUnavailable(f"whether a proof was used before: {exc}") from None
        if not is_first:
            raise _InvalidProofError("its proof is invalid: another process of the service has accepted it before")

    def _access(self, token: VerifiedToken) -> Access:
        return Access(
            self._principal(token),
            scopes=token.scopes,
            client_id=token.client_id,
            expires_at=token.expires_at,
            claims=MappingProxyType(token.claims),
        )

    def _principal(self, token: VerifiedToken) -> str:
        """Return a string that identifies the principal uniquely.

        A user cannot take the name of an application: a subject that looks like one is marked as a subject. An
        application cannot take the name of a user: if it acts for itself, its subject is its own id or missing.
        """
        if token.subject and token.subject != token.client_id:
            looks_marked = token.subject.startswith(("client ", "subject "))
            name = f"subject {token.subject}" if looks_marked else token.subject
        elif token.client_id:
            name = f"client {token.client_id}"
        else:
            raise InvalidToken("it names neither a subject nor a client")
        return name if len(self._server.issuers) == 1 else f"{token.issuer} {name}"

    def _refuse_token(self, *, is_proof: bool) -> Refusal:
        error = "invalid_dpop_proof" if is_proof else "invalid_token"
        return self._refuse(401, "the token is not accepted", error=error)

    def _refuse(
        self, status: int, sentence: str, *, error: str | None = None, scopes: Sequence[str] | None = None
    ) -> Refusal:
        """Return a refusal with a challenge for each supported scheme."""
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
"""A scope for the authorization server only; resource servers never require it."""
_DPOP_MODES = ("allowed", "required", "off")


def _texts(values: Sequence[str]) -> tuple[str, ...]:
    """Return a list of strings; refuse a single string, which is a common mistake."""
    if isinstance(values, str):
        raise ValueError(f"{values!r:.80}: pass a list of strings, not one string")
    return tuple(values)


def _texts_or_none(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else _texts(values)


def _spellings(url: str) -> frozenset[str]:
    """Return a URL unchanged, and in the forms that clients write it in when they request tokens for it.

    Many clients append a slash if there is no path, and write host and port in the canonical form.
    """
    parts = read_url(url)
    assert parts is not None  # it has been checked
    paths = ("", "/") if parts.path in {"", "/"} else (parts.path,)
    return frozenset({url, *(parts.origin + path for path in paths)})


@define(eq=False)
class ResourceServer:
    """The protection of an MCP server: pass it as `auth` to `http_app` or `serve_http`.

    ::

        ResourceServer("https://example.com/mcp", issuers=["https://login.example.com"], scopes=["read"])

    Each request then needs a token of one of *issuers* for *resource*. Handlers find the principal in `Context.access`:
    its `principal` is the token's subject (with several issuers, the issuer and a space before it). Tokens are never
    passed on. One `ResourceServer` may protect several applications.

    A custom verifier is an object of this form::

        class Verifier:
            async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
                row = await find_token(token)
                if row is None:
                    raise InvalidToken("the token is unknown")
                return VerifiedToken(
                    issuer="https://login.example.com",
                    subject=row.user,
                    client_id=row.application,
                    audiences=("https://example.com/mcp",),
                    scopes=frozenset(row.scopes),
                    expires_at=row.expires_at,
                )

        ResourceServer("https://example.com/mcp", issuers=["https://login.example.com"], verifier=Verifier())

    Args:
        resource: the URL by which clients reach the server, such as ``"https://example.com/mcp"``: the audience of
            tokens.
        issuers: the authorization servers whose tokens are accepted, each exactly as its own metadata spells it.
        verifier: checks the tokens: `JwtVerifier`, `IntrospectionVerifier`, or a custom one. Issuer, audience and
            expiry are checked in any case.
        scopes: the scopes that every request needs.
        scopes_supported: the scopes that clients are told to request; by default *scopes*.
        implied_scopes: the scopes that a scope includes: ``{"admin": ["read", "write"]}``.
        audiences: the accepted audiences, instead of *resource*; they are compared unchanged.
        dpop: accept tokens that are bound to a key of the client (RFC 9449), require them, or refuse them. A proof is
            accepted once: by an application, or by all processes of a service (``serve_http(shared=...)``) together.
            Without ``shared=``, each application in each process remembers the used proofs by itself.
        name: the name of the server, for users.
        documentation: a URL of the server's documentation for developers.
        trusted_hosts: names of hosts, without port, that may be reached without TLS, besides this machine.
        fetch: makes the requests to authorization servers, instead of the application's own HTTP client.
        clock: returns the time, as `time.time` does.

    Raises:
        TypeError: *fetch* is no function.
        ValueError: an option is invalid; the message names it.

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
    """The accepted audiences: *audiences*, or else *resource* in each of its spellings."""

    def __attrs_post_init__(self) -> None:
        self._check_urls()
        self._check_scopes()
        self._check_fetch(self.fetch)
        if self.audiences is not None and not self.audiences:
            raise ValueError("audiences: pass at least one, or no token is accepted")
        self.accepted_audiences = _spellings(self.resource) if self.audiences is None else frozenset(self.audiences)
        if self.dpop not in _DPOP_MODES:
            raise ValueError(f"dpop={self.dpop!r}: must be one of {', '.join(_DPOP_MODES)}")
        if isinstance(self.verifier, JwtVerifier | IntrospectionVerifier):
            hosts, clock = self.trusted_hosts, self.clock
            self.verifier = self.verifier.serving(self.issuers, trusted_hosts=hosts, clock=clock)

    def _check_urls(self) -> None:
        if not self.issuers or len(set(self.issuers)) != len(self.issuers):
            raise ValueError("issuers: pass at least one, without duplicates")
        for url, name in [(self.resource, "resource"), *((issuer, "issuer") for issuer in self.issuers)]:
            check_option(url, name, self.trusted_hosts)
            parts = read_url(url)
            if parts is None or parts.query is not None:
                raise ValueError(f"the {name} {url!r} has a query, which is not allowed")

    def _check_scopes(self) -> None:
        implied = [name for names in self.implied_scopes.values() for name in _texts(names)]
        for name in (*self.scopes, *(self.scopes_supported or ()), *self.implied_scopes, *implied):
            if not _SCOPE.fullmatch(name):
                raise ValueError(f"{name!r} is not a scope; scopes contain no spaces, quotation marks or backslashes")
        if _FOR_CLIENTS_ALONE in self.scopes:
            raise ValueError(f"scopes: {_FOR_CLIENTS_ALONE!r} is for authorization servers; no request needs it")

    def _check_fetch(self, fetch: object) -> None:
        if fetch is not None and not callable(fetch):
            got = type(fetch).__name__
            raise TypeError(f"fetch: expected an async function, such as AsgiEngine(app).fetch, and got {got}")

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata, which challenges name."""
        return well_known_urls(self.resource, _DOCUMENT)[0]

    @property
    def metadata_paths(self) -> tuple[str, ...]:
        """The paths, as in ASGI, at which the metadata must be served without authentication."""
        parts = [read_url(url) for url in well_known_urls(self.resource, _DOCUMENT)]
        return tuple(unquote(part.path) for part in parts if part is not None)

    def document(self) -> bytes:
        """Return the metadata, as JSON."""
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
        """Return scopes, and all scopes that they imply."""
        granted: set[str] = set()
        waiting = list(scopes)
        while waiting:
            name = waiting.pop()
            if name not in granted:
                granted.add(name)
                waiting += self.implied_scopes.get(name, ())
        return frozenset(granted)

    def guard(self, fetch: Fetch) -> TokenGuard:
        """Return the token guard of one application.

        Args:
            fetch: makes the requests to authorization servers, unless the options contain a custom one.
        """
        return TokenGuard(self, self.fetch or fetch)
