"""Tokens that only the authorization server can read: it is asked what each of them is.

Specification: https://www.rfc-editor.org/rfc/rfc7662
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Literal
from urllib.parse import urlencode

import trio
from attrs import define, evolve, field, frozen

from .._errors import AuthorizationFailed
from ..abc import Fetch
from ..wire import JsonObject, is_array
from ._answers import Answers
from ._claims import is_of_another_kind, read_claims
from ._client_authentication import authenticate
from ._issuer import ACCEPT_JSON, check_option, endpoint_of, fetch_json, host_chosen_by, read_issuer
from ._metadata import ServerMetadata
from ._renewal import Renewal
from ._steps import HttpCall
from ._tokens import Registration
from ._verified import InvalidToken, VerifiedToken, VerifierUnavailable

__all__ = ["IntrospectionVerifier"]

_log = logging.getLogger("trio_mcp.auth")


@frozen(kw_only=True)
class _Place:
    """Where to ask."""

    url: str
    named_by: Literal["user", "server"]
    server: ServerMetadata
    """What the authorization server says of itself, as far as it concerns how its clients authenticate there."""


@define(eq=False)
class IntrospectionVerifier:
    """Asks the authorization server what a token is, with this server's own client id and secret there.

    What it answers is kept for a while, and asked for once by all who show the same token at the same time. Any number
    of tasks may use it at once.

    Args:
        endpoint: the URL at which it is asked; None: what its metadata say.
        client: how this server is known to it: ``Registration("id", secret="...")``.
        cache_seconds: how long an answer is used: so long a token that was withdrawn is taken. 0 asks each time.
        issuer: the authorization server; by default the only one of the `ResourceServer`.
        trusted_hosts: names of hosts that may be reached without TLS; by default those of the `ResourceServer`.
        clock: tells how old an answer is.

    Raises:
        ValueError: an option makes no sense; the text names it.
    """

    endpoint: str | None = None
    client: Registration = field(kw_only=True)
    cache_seconds: float = field(default=10.0, kw_only=True)
    issuer: str | None = field(default=None, kw_only=True)
    trusted_hosts: Sequence[str] = field(default=(), kw_only=True)
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    _place: _Place | None = field(default=None, init=False, repr=False)
    _renewal: Renewal = field(init=False, repr=False)
    _answers: Answers = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.cache_seconds < math.inf:
            raise ValueError(f"cache_seconds={self.cache_seconds!r}: must be a number of seconds, 0 or more")
        self.issuer = self.issuer or self.client.issuer
        self._renewal = Renewal("the place where tokens are introspected", self._look_up, self.clock)
        self._answers = Answers(self.cache_seconds, self.clock)

    def serving(
        self, issuers: Sequence[str], *, trusted_hosts: Sequence[str], clock: Callable[[], float]
    ) -> IntrospectionVerifier:
        """Return this verifier for one resource server; what was said of the issuer stays.

        Raises:
            ValueError: there are several issuers, and nothing says which of them is asked; or its URL is not safe.
        """
        if self.issuer is None and len(issuers) > 1:
            raise ValueError("IntrospectionVerifier: with several issuers, say by issuer= which of them is asked")
        trusted_hosts = self.trusted_hosts or trusted_hosts
        if self.endpoint is not None:
            check_option(self.endpoint, "introspection endpoint", trusted_hosts)
        return evolve(self, issuer=self.issuer or issuers[0], trusted_hosts=trusted_hosts, clock=clock)

    async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:
        """Return what a token says; see `abc.TokenVerifier`. If it is cancelled, others who wait for it ask anew."""
        await trio.lowlevel.checkpoint()
        verified = await self._answers.find(token, lambda: self._ask(token, fetch))
        if verified is None:
            raise InvalidToken("the authorization server says that it is not good")
        return verified

    async def _ask(self, token: str, fetch: Fetch) -> VerifiedToken | None:
        place = await self._where(fetch)
        try:
            client = authenticate(self.client, place.server, self.clock())
        except AuthorizationFailed as exc:
            raise VerifierUnavailable(str(exc)) from None
        headers = {**ACCEPT_JSON, "content-type": "application/x-www-form-urlencoded", **client.headers}
        form = urlencode({"token": token, "token_type_hint": "access_token", **client.form}).encode()
        call = HttpCall(method="POST", url=place.url, headers=headers, body=form, named_by=place.named_by)
        return _read_answer(await fetch_json(call, fetch), place.server.issuer)

    async def _where(self, fetch: Fetch) -> _Place:
        if self.issuer is None:
            raise RuntimeError("IntrospectionVerifier: outside of a ResourceServer it needs issuer=")
        if self.endpoint is not None:
            server = ServerMetadata(issuer=self.issuer, token_endpoint=self.endpoint)
            return _Place(url=self.endpoint, named_by="user", server=server)
        await self._renewal.keep_fresh(fetch)
        if self._place is None:
            raise VerifierUnavailable(f"it is not known where {self.issuer} introspects tokens")
        return self._place

    async def _look_up(self, fetch: Fetch) -> None:
        assert self.issuer is not None
        metadata = await read_issuer(self.issuer, fetch)
        url = endpoint_of(metadata, "introspection_endpoint", self.trusted_hosts)
        methods = metadata.get("introspection_endpoint_auth_methods_supported")
        server = ServerMetadata(
            issuer=self.issuer,
            token_endpoint=url,
            token_endpoint_auth_methods_supported=tuple(methods) if is_array(methods) else None,
        )
        self._place = _Place(url=url, named_by=host_chosen_by(self.issuer, url), server=server)


def _read_answer(answer: JsonObject, issuer: str) -> VerifiedToken | None:
    if answer.get("active") is not True:
        return None
    if answer.get("iss", issuer) != issuer:
        _log.info("a token is none of %s, but it has introspected it all the same", issuer)
        return None
    if is_of_another_kind(answer):  # a server is free to look for it among refresh tokens, too
        _log.info("what %s knows of a token is that it is none for access", issuer)
        return None
    try:
        return read_claims(answer, issuer=issuer)
    except InvalidToken as exc:
        _log.info("what %s says of a token is of no use: %s", issuer, exc)
        return None
