"""Adding the operations of a web API to a server as tools, and calling them.

Rules of this file:

1. A program selects the operations, because hundreds of tools help no model. It is told how many were added, and about
   how many tokens their definitions take.
2. The credentials of the API are those that the program gives. Nothing that a client sent with its request is passed
   on.
3. Redirects are not followed: a credential belongs to one server. Cookies are not kept: they belong to one caller.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urljoin, urlsplit

import httpx2
import trio
from attrs import define, field, frozen

from .. import Context, Server, ToolError, types
from ..lowlevel import SchemaError, ServerExtensionPoints, ServingPart, Validator, compile_schema
from ..types import JSONObject
from ..wire import is_array, is_object
from ._document import Description, Source, read_description
from ._operations import Operation, read_operations
from ._requests import ApiRequest, http_request
from ._responses import error_of, result_of

__all__ = ["AddedTools", "Credentials", "add_asgi", "add_openapi"]

_log = logging.getLogger("trio_mcp.openapi")

CHARACTERS_PER_TOKEN: Final = 4
_MOST_WARNINGS: Final = 20
"""The number of responses of one API that are logged because they do not fit their schema."""
_MOST_FAULTS: Final = 3

Credentials: TypeAlias = "Mapping[str, str] | Callable[[Context], Awaitable[Mapping[str, str]]] | httpx2.Auth"
"""The header fields of each request, an async function that returns them, or an object of httpx2."""


@frozen
class AddedTools:
    """The tools that were made of the operations of a web API."""

    names: Sequence[str]
    left_out: Mapping[str, str]
    """Why operations that are selected could not become tools, by method and path."""
    estimated_tokens: int
    """About how many tokens the definitions of the tools take in the context of a model."""


def add_openapi(
    server: Server,
    source: Source,
    *,
    include: Sequence[str],
    exclude: Sequence[str] = (),
    prefix: str = "",
    base_url: str | None = None,
    auth: Credentials | None = None,
    http_client: httpx2.AsyncClient | None = None,
    check_responses: Literal["refuse", "warn"] = "warn",
    max_response_bytes: int = 2**20,
    timeout: float = 60.0,
) -> AddedTools:
    """Add operations of a web API to a server, each as a tool.

    ::

        add_openapi(server, "openapi.json", include=["tag:orders", "GET /customers/{id}"], auth={"X-Key": key})

    An argument of a tool is a parameter of its operation, or ``body``. If several parameters have one name, each is
    called ``name_in_place``, as in ``id_in_query``. Responses in JSON are structured content. A response that reports a
    failure is a tool error with its status and its problem details.

    Args:
        server: the server; tools may be added while it is being served.
        source: the path or the URL of a description (OpenAPI 3.0, 3.1 or 3.2, in JSON or YAML), or its contents. A file
            is read, and a URL fetched, before this function returns.
        include: the operations: ``"tag:orders"``, ``"GET /customers/{id}"``, or an `operationId`. Each may have ``*``.
        exclude: operations that are left out of these.
        prefix: the beginning of the name of each tool.
        base_url: the URL that paths are appended to; by default that of the first server in the description.
        auth: the credentials for the API. What a client of *server* has sent is never passed on.
        http_client: carries the requests, for proxies and certificates of your own. It is not closed, and it keeps
            cookies if it does so otherwise. By default each serving has its own, which keeps none.
        check_responses: ``"refuse"`` publishes the schemas of responses, and a response that does not fit is a tool
            error. ``"warn"`` publishes none, and such a response is logged.
        max_response_bytes: the longest response that is read; a longer one is a tool error.
        timeout: the seconds that a call may take.

    Raises:
        OSError: the description cannot be read.
        ValueError: it is not a description of a supported version, a pattern selects no operation, or there is no
            absolute base URL.

    Specification: https://spec.openapis.org/oas/v3.2.0.html
    """
    description = read_description(source)
    api = _Api(
        base_url=_checked_url(base_url) if base_url is not None else _base_url(description),
        overrides=base_url is not None,
        auth=auth,
        http_client=http_client,
        publishes=check_responses == "refuse",
        max_bytes=max_response_bytes,
        timeout=timeout,
    )
    api.part = ServerExtensionPoints(server).add_part(api.open)
    return _add(server, description, api, include=include, exclude=exclude, prefix=prefix)


def add_asgi(
    server: Server,
    app: Any,
    *,
    include: Sequence[str],
    source: Source | None = None,
    exclude: Sequence[str] = (),
    prefix: str = "",
    auth: Credentials | None = None,
    check_responses: Literal["refuse", "warn"] = "warn",
    max_response_bytes: int = 2**20,
    timeout: float = 60.0,
) -> AddedTools:
    """Add operations of an ASGI application to a server, each as a tool; the application is called in this process.

    No socket is involved. The lifespan of the application is not run: that is up to the program.

    Args:
        server: the server.
        app: the application: FastAPI, Starlette, Quart or any other that runs under Trio.
        include: the operations; see `add_openapi`.
        source: the description; by default what ``app.openapi()`` returns, which FastAPI has.
        exclude: as in `add_openapi`, like the arguments that follow.
        prefix: as in `add_openapi`.
        auth: as in `add_openapi`.
        check_responses: as in `add_openapi`.
        max_response_bytes: as in `add_openapi`.
        timeout: as in `add_openapi`.

    Raises:
        TypeError: *app* has no method `openapi`, and there is no *source*.
        ValueError: as in `add_openapi`.
    """
    if source is None:
        if not callable(getattr(app, "openapi", None)):
            raise TypeError("add_asgi(): this application does not describe itself; pass source=, its description")
        source = cast("Source", app.openapi())
    client = _new_client(transport=httpx2.ASGITransport(app=app))
    return add_openapi(
        server,
        source,
        include=include,
        exclude=exclude,
        prefix=prefix,
        base_url="http://application",
        auth=auth,
        http_client=client,
        check_responses=check_responses,
        max_response_bytes=max_response_bytes,
        timeout=timeout,
    )


def _new_client(**options: Any) -> httpx2.AsyncClient:
    """Return a client that keeps no cookies, and has no timeout of its own: a tool has one."""
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx2.AsyncClient(cookies=no_cookies, timeout=None, **options)


def _base_url(description: Description) -> str:
    servers: Any = description.document.get("servers", [])
    first: Any = servers[0] if is_array(servers) and servers else {}
    url: Any = first.get("url", "") if is_object(first) else ""
    if not isinstance(url, str):
        url = ""
    variables: Any = first.get("variables", {}) if is_object(first) else {}
    for name, variable in variables.items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    try:
        return _checked_url(url)
    except ValueError:
        raise ValueError(f"{description.where}: servers: {url!r} is not an absolute URL; pass base_url=") from None


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError(f"base_url={url!r}: must be an http or https URL")
    return url.rstrip("/")


def _add(
    server: Server,
    description: Description,
    api: _Api,
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    prefix: str,
) -> AddedTools:
    operations, left_out = read_operations(description, include, exclude, prefix)
    names: list[str] = []
    characters = 0
    for operation in operations:
        try:
            _add_one(server, api, operation)
        except (TypeError, ValueError) as fault:
            left_out[operation.label] = str(fault)
            continue
        names.append(operation.name)
        published = {"name": operation.name, "description": operation.description, "schema": operation.input_schema}
        characters += len(json.dumps(published, ensure_ascii=False))
    for label, reason in left_out.items():
        _log.warning("%s: %s cannot be a tool: %s", description.where, label, reason)
    tokens = characters // CHARACTERS_PER_TOKEN
    _log.info("%s: %d tools were added, which take about %d tokens", description.where, len(names), tokens)
    return AddedTools(names, left_out, tokens)


def _add_one(server: Server, api: _Api, operation: Operation) -> None:
    check = None if operation.result is None else _ResponseCheck(operation)
    publishes = api.publishes and check is not None and check.is_usable

    # No argument begins with "_", so that none has the name of the first parameter.
    async def call(_context: Context, **arguments: Any) -> types.CallToolResult:
        result = await api.call(_context, operation, arguments)
        if check is not None and not api.publishes:
            check.warn(result)
        return result

    server.tool(
        name=operation.name,
        title=operation.title,
        description=operation.description or operation.label,
        annotations=operation.annotations,
        input_schema=operation.input_schema,
        output_schema=operation.result if publishes else None,
        timeout=api.timeout,
    )(call)


@define
class _ResponseCheck:
    """The schema of the responses of one operation. It is compiled when it is needed, which takes time."""

    _operation: Operation
    _validator: Validator | None = field(default=None, init=False)
    """The compiled schema; None before, and if it cannot be used."""
    _was_compiled: bool = field(default=False, init=False)
    _warnings: int = field(default=0, init=False)

    @property
    def is_usable(self) -> bool:
        """True if responses can be checked. Otherwise the reason was logged: the tool is useful all the same."""
        return self._compiled() is not None

    def _compiled(self) -> Validator | None:
        if not self._was_compiled:
            self._was_compiled = True
            try:
                self._validator = compile_schema(self._operation.result)
            except SchemaError as fault:
                _log.warning("the responses of %s are not checked: %s", self._operation.label, fault)
        return self._validator

    def warn(self, result: types.CallToolResult) -> None:
        """Log how a response differs from its schema."""
        validator = self._compiled() if self._warnings < _MOST_WARNINGS else None
        faults = [] if validator is None else validator.faults(result.structured_content)
        if faults:
            self._warnings += 1
            shown = "; ".join(faults[:_MOST_FAULTS])
            _log.warning("the response of %s does not fit its schema: %s", self._operation.label, shown)


@define(eq=False)
class _Api:
    """One web API, as the tools of one server call it."""

    base_url: str
    overrides: bool
    """True if the base URL is that of the program, and not of the description."""
    auth: Credentials | None
    http_client: httpx2.AsyncClient | None
    publishes: bool
    """True if the schemas of responses are published."""
    max_bytes: int
    timeout: float
    part: ServingPart[httpx2.AsyncClient] = field(init=False)
    """The client of each serving."""

    @asynccontextmanager
    async def open(self, _: Server, __: trio.Nursery) -> AsyncGenerator[httpx2.AsyncClient]:
        """Open the client of a serving."""
        async with self._client() as client:
            yield client

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[httpx2.AsyncClient]:
        if self.http_client is not None:
            yield self.http_client
            return
        async with _new_client() as client:
            yield client

    async def call(self, context: Context, operation: Operation, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call an operation.

        Raises:
            ToolError: the API cannot be reached, or reports a failure, or an argument cannot be sent.
        """
        request = http_request(operation, arguments)
        async with AsyncExitStack() as stack:
            client = self.part.of(context)
            if client is None:  # a serving of a single request
                client = await stack.enter_async_context(self._client())
            return await self._send(client, context, operation, request)

    async def _send(
        self, client: httpx2.AsyncClient, context: Context, operation: Operation, request: ApiRequest
    ) -> types.CallToolResult:
        fields = await self._credentials(context)
        base = self.base_url
        if operation.server is not None and not self.overrides:
            base = urljoin(f"{base}/", operation.server).rstrip("/")
        url = base + request.target
        own = {name.lower() for name in fields}
        headers = {name: text for name, text in request.headers.items() if name.lower() not in own}
        more: JSONObject = {"content": request.content} if request.parts is None else {"files": request.parts}
        auth = self.auth if isinstance(self.auth, httpx2.Auth) else None
        try:
            async with client.stream(
                request.method,
                url,
                headers={"Accept": "application/json, */*;q=0.5", **headers, **fields},
                auth=auth,
                follow_redirects=False,
                **more,
            ) as response:
                content = await self._read(response)
        except httpx2.HTTPError as error:
            raise ToolError(f"the API cannot be reached: {type(error).__name__}") from error
        media_type = response.headers.get("content-type", "")
        if response.is_success:
            return result_of(response.status_code, media_type, content, url)
        secrets = {part for value in fields.values() for part in (value, *value.split(" "))}
        raise error_of(response.status_code, media_type, content, secrets)

    async def _credentials(self, context: Context) -> Mapping[str, str]:
        if self.auth is None or isinstance(self.auth, httpx2.Auth):
            return {}
        return await self.auth(context) if callable(self.auth) else self.auth

    async def _read(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async with aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                content += part
                if len(content) > self.max_bytes:
                    raise ToolError(f"the response is longer than {self.max_bytes} bytes")
        return bytes(content)
