"""Adding the operations of a web API to a server as tools.

A program selects the operations, because hundreds of tools help no model. It is told how many were added, and about how
many tokens their definitions take.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast, get_args
from urllib.parse import urljoin, urlsplit

import httpx2
from attrs import frozen

from .. import Context, Server, types
from ..lowlevel import estimated_tokens
from ._api import Api, Credentials, new_client
from ._asgi import App, app_transport
from ._document import Description, Source, read_description
from ._operations import Operation, read_operations
from ._results import ResponseCheck
from ._schemas import without_patterns

__all__ = ["AddedTools", "add_asgi", "add_openapi"]

_log = logging.getLogger("trio_mcp.openapi")

_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{0,32}")
Misfit: TypeAlias = Literal["refuse", "warn"]


@frozen
class AddedTools:
    """The tools that were made of the operations of a web API."""

    names: Sequence[str]
    """The names of the tools."""
    left_out: Mapping[str, str]
    """The reasons why operations that were selected could not become tools, by method and path."""
    estimated_tokens: int
    """The estimated number of tokens that the definitions of the tools take in the context of a model."""


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
    check_responses: Misfit = "warn",
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
        auth: the credentials for the API. What a client of *server* has sent is never passed on. A function is called
            for each request; what it raises as a `ToolError` is told to the model.
        http_client: carries the requests, for proxies and certificates of your own. It is not closed, and it keeps
            cookies and its own `auth` if it does so otherwise. By default each serving has its own, which keeps none.
        check_responses: ``"refuse"`` makes a tool error of a response that does not fit its schema, and publishes the
            schemas of operations whose successes are all JSON. ``"warn"`` logs it, and publishes none.
        max_response_bytes: the longest response that is read; a longer one is a tool error. Of a failure, only so much
            is read.
        timeout: the seconds that a call may take.

    Raises:
        OSError: the description cannot be read.
        TypeError: *include* or *exclude* is no list.
        ValueError: it is not a description of a supported version, a pattern selects no operation, or there is no
            absolute base URL.

    Specification: https://spec.openapis.org/oas/v3.2.0.html
    """
    description = read_description(source)
    api = Api(
        base_url=_checked_url(base_url) if base_url is not None else _base_url(description),
        overrides=base_url is not None,
        auth=auth,
        max_bytes=max_response_bytes,
        open_client=partial(_client, http_client),
    )
    selection = _Selection(include, exclude, prefix)
    return _add(server, description, api, selection, check_responses, timeout)


def add_asgi(
    server: Server,
    app: Any,
    *,
    include: Sequence[str],
    source: Source | None = None,
    exclude: Sequence[str] = (),
    prefix: str = "",
    base_url: str = "http://application",
    auth: Credentials | None = None,
    lifespan: bool = False,
    check_responses: Misfit = "warn",
    max_response_bytes: int = 2**20,
    timeout: float = 60.0,
) -> AddedTools:
    """Add operations of an ASGI application to a server, each as a tool; the application is called in this process.

    No socket is involved. The application runs on Trio: one that needs asyncio is a tool error that says so. What it
    does after its answer, such as a background task, delays no answer; the end of the serving waits for it for 10
    seconds. A call that is cancelled cancels the application, unless it has answered.

    Args:
        server: the server.
        app: the application: FastAPI, Starlette, QuartTrio or any other that runs on Trio.
        include: the operations; see `add_openapi`.
        source: the description; by default what ``app.openapi()`` returns, which FastAPI has.
        exclude: as in `add_openapi`, like the arguments that follow.
        prefix: as in `add_openapi`.
        base_url: the URL under which the application finds itself; its host is in each request.
        auth: as in `add_openapi`.
        lifespan: True to run the lifespan of the application with each serving, and to give its state to the requests.
            Otherwise it is up to the program. If the application cannot start, the server is not served.
        check_responses: as in `add_openapi`.
        max_response_bytes: as in `add_openapi`.
        timeout: as in `add_openapi`.

    Raises:
        TypeError: *app* has no method `openapi`, and there is no *source*; or *include* is no list.
        ValueError: as in `add_openapi`.
    """
    if source is None:
        if not callable(getattr(app, "openapi", None)):
            raise TypeError("add_asgi(): this application does not describe itself; pass source=, its description")
        source = cast("Source", app.openapi())
    api = Api(
        base_url=_checked_url(base_url),
        overrides=True,
        auth=auth,
        max_bytes=max_response_bytes,
        open_client=partial(_app_client, app, lifespan=lifespan),
    )
    selection = _Selection(include, exclude, prefix)
    return _add(server, read_description(source), api, selection, check_responses, timeout)


@asynccontextmanager
async def _client(given: httpx2.AsyncClient | None) -> AsyncGenerator[httpx2.AsyncClient]:
    if given is not None:
        yield given
        return
    async with new_client() as client:
        yield client


@asynccontextmanager
async def _app_client(app: App, *, lifespan: bool) -> AsyncGenerator[httpx2.AsyncClient]:
    async with app_transport(app, lifespan=lifespan) as transport, new_client(transport=transport) as client:
        yield client


def _base_url(description: Description) -> str:
    url = description.server_url(description.document) or ("/" if description.is_fetched else "")
    try:
        return _checked_url(urljoin(description.where, url) if description.is_fetched else url)
    except ValueError:
        raise ValueError(f"{description.where}: servers: {url!r} is not an absolute URL; pass base_url=") from None


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError(f"base_url={url!r}: must be an http or https URL")
    return url.rstrip("/")


@frozen
class _Selection:
    """The selected operations, and the beginning of their names."""

    include: Sequence[str]
    exclude: Sequence[str]
    prefix: str

    def __attrs_post_init__(self) -> None:
        for name, patterns in (("include", self.include), ("exclude", self.exclude)):
            if isinstance(patterns, str):
                raise TypeError(f"{name}={patterns!r}: must be a list of patterns, such as [{patterns!r}]")
        if not self.include:
            raise ValueError("include= must select operations, such as ['tag:orders'], or all of them: ['* *']")
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f"prefix={self.prefix!r}: must be at most 32 letters, digits, '_' and '-'")


def _add(
    server: Server, description: Description, api: Api, selection: _Selection, misfit: Misfit, timeout: float
) -> AddedTools:
    if misfit not in get_args(Misfit):
        raise ValueError(f"check_responses={misfit!r}: must be 'refuse' or 'warn'")
    operations, left_out = read_operations(description, selection.include, selection.exclude, selection.prefix)
    api.join(server)
    names: list[str] = []
    tokens = 0
    for operation in operations:
        try:
            _add_one(server, api, operation, misfit, timeout)
        except (TypeError, ValueError) as fault:
            left_out[operation.label] = str(fault)
            continue
        names.append(operation.name)
        published = {"name": operation.name, "description": operation.description, "schema": operation.input_schema}
        tokens += estimated_tokens(published)
    for label, reason in left_out.items():
        _log.warning("%s: %s cannot be a tool: %s", description.where, label, reason)
    _log.info("%s: %d tools were added, which take about %d tokens", description.where, len(names), tokens)
    return AddedTools(names, left_out, tokens)


def _add_one(server: Server, api: Api, operation: Operation, misfit: Misfit, timeout: float) -> None:
    check = ResponseCheck(operation.label, operation.results, misfit)

    # No argument begins with "_", so that none has the name of the first parameter.
    async def call(_context: Context, **arguments: Any) -> types.CallToolResult:
        status, result = await api.call(_context, operation, arguments)
        check.check(status, result)
        return result

    def register(input_schema: Mapping[str, Any]) -> None:
        server.tool(
            name=operation.name,
            title=operation.title,
            description=operation.description or operation.label,
            annotations=operation.annotations,
            input_schema=input_schema,
            output_schema=check.published(),
            timeout=timeout,
        )(call)

    try:
        register(operation.input_schema)
    except ValueError as fault:
        if "pattern" not in str(fault):
            raise
        # A regular expression in another dialect, or a large one, costs its check and not the tool: the API has one.
        register(without_patterns(operation.input_schema))
        _log.info("the patterns of the arguments of %s are not checked: %s", operation.label, fault)
