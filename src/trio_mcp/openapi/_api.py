"""The calls of one web API: its address, its credentials, and the bounds of a response.

Rules of this file:

1. The credentials of the API are those that the program gives. Nothing that a client sent with its request is passed
   on.
2. Redirects are not followed: a credential belongs to one server. Cookies are not kept: they belong to one caller.
3. Every field of a request that no argument set may be a secret, unless HTTP itself needs it. A failure of the API is
   told without the values of such fields.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin

import httpx2
import trio
from attrs import define, field

from .. import Context, Server, ToolError, types
from ..lowlevel import ServerExtensionPoints, ServingPart
from ..types import JSONObject
from ._operations import Operation
from ._requests import ApiRequest, http_request
from ._responses import error_of, result_of

__all__ = ["Api", "ClientOpener", "Credentials", "new_client"]

Credentials: TypeAlias = "Mapping[str, str] | Callable[[Context], Awaitable[Mapping[str, str]]] | httpx2.Auth"
"""The header fields of each request, an async function that returns them, or an object of httpx2."""
ClientOpener: TypeAlias = Callable[[], AbstractAsyncContextManager[httpx2.AsyncClient]]
"""A function that opens the HTTP client of a serving."""

_NO_SECRETS: Final = frozenset({
    *("accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"),
    "user-agent",
})  # fmt: skip
_SHORTEST_SECRET: Final = 4
"""In characters. To remove anything shorter would make a message unreadable, and protect nothing."""


def new_client(**options: Any) -> httpx2.AsyncClient:
    """Return a client that keeps no cookies, and has no timeout of its own: a tool has one."""
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx2.AsyncClient(cookies=no_cookies, timeout=None, **options)


@define(eq=False)
class Api:
    """One web API, as the tools of one server call it."""

    base_url: str
    overrides: bool
    """True if the base URL is that of the program, and not of the description."""
    auth: Credentials | None
    max_bytes: int
    open_client: ClientOpener
    _part: ServingPart[httpx2.AsyncClient] = field(init=False)
    """The client of each serving."""

    def join(self, server: Server) -> None:
        """Open a client in each serving of a server."""
        self._part = ServerExtensionPoints(server).add_part(self._open)

    @asynccontextmanager
    async def _open(self, _: Server, __: trio.Nursery) -> AsyncGenerator[httpx2.AsyncClient]:
        async with self.open_client() as client:
            yield client

    async def call(
        self, context: Context, operation: Operation, arguments: Mapping[str, Any]
    ) -> tuple[int, types.CallToolResult]:
        """Call an operation; return the status of its response, and the result.

        Raises:
            ToolError: the API cannot be reached, or reports a failure, or an argument cannot be sent.
        """
        request = http_request(operation, arguments)
        async with AsyncExitStack() as stack:
            client = self._part.of(context)
            if client is None:  # a serving of a single request
                client = await stack.enter_async_context(self.open_client())
            return await self._send(client, context, operation, request)

    async def _send(
        self, client: httpx2.AsyncClient, context: Context, operation: Operation, request: ApiRequest
    ) -> tuple[int, types.CallToolResult]:
        fields = await self._credentials(context)
        base = self.base_url
        if operation.server is not None and not self.overrides:
            base = urljoin(f"{base}/", operation.server).rstrip("/")
        own = {name.lower() for name in fields}
        headers = {name: text for name, text in request.headers.items() if name.lower() not in own}
        more: JSONObject = {"content": request.content} if request.parts is None else {"files": request.parts}
        auth = self.auth if isinstance(self.auth, httpx2.Auth) else httpx2.USE_CLIENT_DEFAULT
        try:
            sent = client.build_request(
                request.method,
                base + request.target,
                headers={"Accept": "application/json, */*;q=0.5", **headers, **fields},
                **more,
            )
            url = sent.url.copy_with(userinfo=b"")
            response = await client.send(sent, auth=auth, follow_redirects=False, stream=True)
            async with aclosing(response):
                content = await self._read(response)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ToolError(f"the API cannot be reached: {type(error).__name__}") from error
        media_type = response.headers.get("content-type", "")
        if response.is_success:
            return response.status_code, result_of(response.status_code, media_type, content, str(url))
        raise error_of(response.status_code, media_type, content, {*_secrets(response.request, headers, url)})

    async def _credentials(self, context: Context) -> Mapping[str, str]:
        if self.auth is None or isinstance(self.auth, httpx2.Auth):
            return {}
        return await self.auth(context) if callable(self.auth) else self.auth

    async def _read(self, response: httpx2.Response) -> bytes:
        """Return the body of a response, or the beginning of one that reports a failure."""
        content = bytearray()
        async with aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                content += part
                if len(content) > self.max_bytes:
                    if response.is_success:
                        raise ToolError(f"the response is longer than {self.max_bytes} bytes")
                    break
        return bytes(content)


def _secrets(sent: httpx2.Request, arguments: Collection[str], url: httpx2.URL) -> Iterator[str]:
    """Yield what must not be told of a request (rule 3).

    Args:
        sent: the request with its credentials.
        arguments: the names of the header fields that arguments set.
        url: the URL without credentials.
    """
    public = _NO_SECRETS | {name.lower() for name in arguments}
    values = [value for name, value in sent.headers.items() if name.lower() not in public]
    values += {value for _, value in {*sent.url.params.multi_items()} - {*url.params.multi_items()}}
    for value in values:
        scheme, _, rest = value.partition(" ")
        parts = [value, rest, *(cookie.partition("=")[2] for cookie in value.split("; "))]
        if scheme.lower() == "basic":
            parts += _password(rest)
        yield from (part for part in parts if len(part) >= _SHORTEST_SECRET)


def _password(credentials: str) -> Iterator[str]:
    """Yield the password of basic authentication."""
    with suppress(binascii.Error, ValueError):
        yield base64.b64decode(credentials, validate=True).decode().partition(":")[2]
