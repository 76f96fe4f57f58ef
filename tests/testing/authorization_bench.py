"""A raw client of the development authorization server, which inspects its responses and tokens."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from attrs import frozen
from joserfc import jwt
from joserfc.jwk import ECKey

from trio_mcp.testing import AsgiEngine, AuthorizationServer, KnownClient

ISSUER = "https://auth.test"
RESOURCE = "https://mcp.test/mcp"
BACK = "http://127.0.0.1:4000/callback"
VERIFIER = "a-verifier-of-forty-three-characters-or-more-0"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
PUBLIC = KnownClient("public", name="An editor", redirect_uris=[BACK])
SECRET = KnownClient("known", secret="s3cret", redirect_uris=[BACK])

Claims = dict[str, Any]


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@frozen
class Reply:
    """A response with its complete body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """The status and the OAuth error code."""
        return self.status, self.json["error"]

    @property
    def back(self) -> dict[str, str]:
        """The query parameters of the redirect."""
        return dict(parse_qsl(urlsplit(self.headers["location"]).query))


class Bench:
    """An authorization server in this process, with its clock."""

    def __init__(self, issuer: str = ISSUER, **options: Any) -> None:
        self.clock = Clock()
        usual: dict[str, Any] = {"auto_consent": True, "clients": [PUBLIC, SECRET], "clock": self.clock}
        self.auth = AuthorizationServer(issuer, **{**usual, **options})
        self.engine = AsgiEngine(self.auth)

    async def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> Reply:
        """Send one request."""
        async with (
            self.engine.request(method, self.auth.issuer + path, headers or {}, content) as response,
            aclosing(response.chunks()) as chunks,
        ):
            return Reply(response.status, response.headers, b"".join([chunk async for chunk in chunks]))

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.send("GET", path, headers)

    async def post(self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Reply:
        """Post a form."""
        fields = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        return await self.send("POST", path, fields, urlencode(form).encode())

    async def register(self, **members: Any) -> Reply:
        """Post the metadata of a client to the registration endpoint."""
        body = json.dumps({"redirect_uris": [BACK], **members}).encode()
        return await self.send("POST", "/register", {"content-type": "application/json; charset=utf-8"}, body)

    async def authorize(self, **changed: str | None) -> Reply:
        """Open the authorization endpoint as a browser of the public client; None omits a parameter."""
        usual = {
            "response_type": "code",
            "client_id": "public",
            "redirect_uri": BACK,
            "state": "of mind",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "resource": RESOURCE,
            "scope": "read write",
        }
        query = {name: value for name, value in {**usual, **changed}.items() if value is not None}
        return await self.get(f"/authorize?{urlencode(query)}")

    async def token(self, grant_type: str, headers: Mapping[str, str] | None = None, /, **form: str) -> Reply:
        """Send a request to the token endpoint."""
        return await self.post("/token", {"grant_type": grant_type, **form}, headers)

    async def code(self, **changed: str | None) -> str:
        """Return an authorization code for the public client."""
        return (await self.authorize(**changed)).back["code"]

    async def redeem(self, code: str, headers: Mapping[str, str] | None = None, /, **changed: str) -> Reply:
        """Exchange a code as the public client."""
        form = {"client_id": "public", "code": code, "code_verifier": VERIFIER, **changed}
        return await self.token("authorization_code", headers, **form)

    async def tokens(self, **changed: str | None) -> Any:
        """Run the whole flow as the public client, and return the token response."""
        return (await self.redeem(await self.code(**changed))).json

    async def refresh(self, token: str, headers: Mapping[str, str] | None = None, /, **changed: str) -> Reply:
        """Refresh tokens as the public client."""
        return await self.token("refresh_token", headers, refresh_token=token, **{"client_id": "public", **changed})

    async def introspect(self, token: str) -> Any:
        """Introspect a token as the client with the secret."""
        return (await self.post("/introspect", {"token": token}, basic("known", "s3cret"))).json

    def claims(self, token: str) -> Claims:
        """Return the claims of a token that this server has signed."""
        (key, *_) = self.auth.jwks["keys"]
        return jwt.decode(token, ECKey.import_key(key), algorithms=["ES256"]).claims


def basic(client_id: str, secret: str) -> dict[str, str]:
    """Return the header field of a client that authenticates with a secret."""
    return {"authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


class Signer:
    """A client or an issuer that signs assertions."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256")

    @property
    def jwks(self) -> dict[str, Any]:
        """The public key as a JWK set."""
        return {"keys": [self.jwk]}

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key."""
        return dict(self.key.as_dict(private=False))

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        """Return a signed JWT; None omits a claim."""
        present = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "ES256", **header}, present, self.key)
