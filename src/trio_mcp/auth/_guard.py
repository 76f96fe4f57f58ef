"""What stands before a protected server: it looks at the head of each request, and says who makes it, or refuses it.

Rules of this file:

1. Whatever cannot be told for certain is a refusal. A verifier that is out of reach, or fails, refuses with 503: the
   token may be good, and a client that is told otherwise throws it away.
2. A refusal says what RFC 6750 and RFC 9449 let it say, and which scopes are missing. Why a token is not good goes to
   the log, without the token.
3. Tokens are taken from one place, the header field `Authorization`, and only where there is one of them.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#error-handling
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, quote

import trio
from attrs import define, field, frozen

from .._errors import McpError
from ..abc import Fetch
from ..peer import Access
from ..wire import INTERNAL_ERROR, INVALID_REQUEST, Headers, Refusal
from ._challenges import Challenge, write_challenge
from ._dpop_check import Replays, read_proof
from ._jws import ASYMMETRIC
from ._urls import origin_of
from ._verified import LEEWAY_SECONDS, InvalidToken, VerifiedToken, VerifierUnavailable

if TYPE_CHECKING:
    from ._resource_server import ResourceServer

__all__ = ["Guard"]

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
class Guard:
    """Checks the requests of one application. Any number of tasks may use it at once.

    Args:
        server: whose tokens are taken, and what for.
        fetch: makes the requests to authorization servers.
    """

    _server: ResourceServer
    _fetch: Fetch
    _replays: Replays = field(factory=Replays, init=False, repr=False)

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
