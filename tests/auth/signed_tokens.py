"""A scripted authorization server: its keys, valid and invalid tokens, and its responses to token verifiers."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

import trio
from attrs import define, field
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from trio_mcp.auth import CallFailed, HttpCall, HttpReply

__all__ = [
    "ISSUER",
    "NOW",
    "RESOURCE",
    "Clock",
    "Issuer",
    "b64",
    "ec_key",
    "okp_key",
    "pem_of",
    "raw_jws",
    "rsa_key",
    "signed",
]

ISSUER = "https://as.example"
RESOURCE = "https://api.example/mcp"
NOW = 1_800_000_000.0

Answer = HttpReply | Exception | Callable[[HttpCall], Awaitable[HttpReply]]


@define
class Clock:
    """A clock that a test sets."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


@cache
def ec_key(name: str = "first", curve: str = "P-256") -> Key:
    """Return a separate private key for each name."""
    return ECKey.generate_key(curve, parameters={"kid": name})


@cache
def rsa_key(name: str = "rsa", bits: int = 2048) -> Key:
    return RSAKey.generate_key(bits, parameters={"kid": name})


@cache
def okp_key(name: str = "okp", curve: Any = "Ed25519") -> Key:
    return OKPKey.generate_key(curve, parameters={"kid": name})


def pem_of(key: Key) -> bytes:
    """Return the public half of a key pair as PEM."""
    assert not isinstance(key, OctKey)
    return key.as_pem(private=False)


def b64(data: bytes | str | Mapping[str, Any]) -> str:
    """Encode in base64url; a mapping is encoded as JSON first."""
    if isinstance(data, Mapping):
        data = json.dumps(data)
    if isinstance(data, str):
        data = data.encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def raw_jws(header: bytes | str | Mapping[str, Any], payload: bytes | str | Mapping[str, Any], signature: bytes) -> str:
    """Assemble a string in the form of signed JSON without checking its parts."""
    return f"{b64(header)}.{b64(payload)}.{b64(signature)}"


def signed(header: Mapping[str, Any], payload: Mapping[str, Any], key: Key) -> str:
    """Sign with the algorithm of the header; the header may contain any further members."""
    text = f"{b64(header)}.{b64(payload)}"
    return f"{text}.{b64(JWSRegistry.algorithms[header['alg']].sign(text.encode(), key))}"


@define(eq=False)
class Issuer:
    """An authorization server that also acts as the function that fetches from it (`abc.Fetch`)."""

    issuer: str = ISSUER
    clock: Clock = field(factory=Clock)
    keys: list[Key] = field(factory=lambda: [ec_key()])
    answers: dict[str, Answer] = field(factory=dict[str, Answer])
    """By URL, instead of the default responses."""
    calls: list[HttpCall] = field(factory=list[HttpCall])
    admission: trio.Event | None = None
    """If it is not None, requests wait until it is set."""

    @property
    def requested_urls(self) -> list[str]:
        """The URLs of all requests so far."""
        return [call.url for call in self.calls]

    @property
    def jwks(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/jwks",
            "introspection_endpoint": f"{self.issuer}/introspect",
        }

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return the claims of a valid token with the given changes; None removes a claim."""
        claims = {
            "iss": self.issuer,
            "sub": "ann",
            "client_id": "desk",
            "aud": RESOURCE,
            "scope": "read write",
            "iat": int(self.clock()),
            "exp": int(self.clock()) + 300,
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self,
        *,
        key: Key | None = None,
        algorithm: str = "ES256",
        header: Mapping[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Return a valid token with the given changes."""
        key = self.keys[0] if key is None else key
        fields = {"alg": algorithm, "typ": "at+jwt", "kid": key.kid, **(header or {})}
        fields = {name: value for name, value in fields.items() if value is not None}
        return signed(fields, self.claims(**claims), key)

    async def __call__(self, call: HttpCall) -> HttpReply:
        self.calls.append(call)
        if self.admission is not None:
            await self.admission.wait()
        answer = self.answers.get(call.url)
        match answer:
            case HttpReply():
                return answer
            case Exception():
                raise answer
            case None:
                return self._default_answer(call.url)
            case _:
                return await answer(call)

    def _default_answer(self, url: str) -> HttpReply:
        documents = {
            f"{self.issuer}/.well-known/oauth-authorization-server": self.metadata,
            f"{self.issuer}/jwks": self.jwks,
        }
        if url not in documents:
            return HttpReply(status=404)
        return HttpReply(status=200, body=json.dumps(documents[url]).encode())

    def become_unreachable(self) -> None:
        """Fail every further request as if the server were unreachable."""
        for path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/jwks"):
            self.answers[f"{self.issuer}{path}"] = CallFailed("unreachable")
