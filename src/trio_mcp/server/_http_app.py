"""A server as an ASGI application: `http_app` and its options.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack
from urllib.parse import urlsplit

from .._capabilities import load_capability
from .._misuse import check_class, check_server, did_you_mean
from .._other_sdks import option_cure
from ..abc import HttpAnswerer, Shared
from ..transports import HttpApp, HttpRoute, HttpSettings, NodesOpener, RouteTable, SessionSettings
from ..wire import HttpPolicy, is_modern
from .asking import AskingMode

if TYPE_CHECKING:
    from ..auth import ResourceServer

__all__ = ["HttpOptions", "http_app", "known_names"]


LOCAL_HOSTS = ("localhost:*", "127.0.0.1:*", "[::1]:*")
"""The names of this machine for itself."""
_OF_SERVE_HTTP = (
    *("host", "port", "unix_socket", "certfile", "keyfile", "keyfile_password", "http2", "backlog", "max_connections"),
    *("head_seconds", "keep_alive_seconds", "write_seconds", "max_head_bytes", "workers", "worker_timeout"),
    "drain_delay",
)
"""The options of `serve_http` alone."""
_MAX_BODY_BYTES = 4 * 2**20
_MAX_BUFFER_BYTES = 256 * 2**20
_BODY_SECONDS = 60.0
_KEEP_ALIVE = 15.0


class HttpOptions(TypedDict, total=False):
    """The options of `http_app` and `serve_http`: keywords, all optional; None means the default, except for `path`.

    Sizes are bytes, times are seconds.
    """

    path: str | None
    """The path of the endpoint, ``"/mcp"`` by default, relative to the application's mount point. None answers at every
    path, for hosts that route by path themselves."""
    allowed_hosts: Sequence[str] | Literal["any"] | None
    """The host names, with ports, by which clients reach the server: ``["example.com", "example.com:8443"]``; the port
    ``*`` matches any port. By default only the names of this machine (``localhost:*``, ``127.0.0.1:*``, ``[::1]:*``)
    and the host of *auth*'s URL. Other hosts are refused with 403, which prevents DNS rebinding. ``"any"`` disables the
    check, for servers behind a proxy that checks."""
    allowed_origins: Sequence[str] | Literal["any"] | None
    """The origins whose web pages may use the server: ``["https://example.com"]``. By default those of *allowed_hosts*,
    over HTTP and HTTPS. A request without an `Origin` field is accepted, because only web pages send one."""
    max_body_bytes: int | None
    """The maximum size of a request body, 4 MiB by default; a larger one is refused before it is read."""
    max_buffer_bytes: int | None
    """The maximum number of bytes of request bodies, and of responses that wait to be read, of all clients together;
    256 MiB by default. Beyond it, a new body is refused with 503 and `Retry-After` if its client holds the most.
    Otherwise the client that holds the most loses the response or body that has made no progress for the longest time.
    """
    body_seconds: float | None
    """The timeout for receiving a request body, 60 by default."""
    keep_alive: float | None
    """The seconds after which an idle stream sends a keep-alive comment, 15 by default. A request that is not answered
    within this time gets a stream."""
    asking: AskingMode | None
    """The way in which handlers wait for the answers of modern clients; overrides the option of `Server`. With several
    processes behind one address and no *shared*, it must be ``"replayed"``, and the server needs `keys`."""
    sessions: SessionSettings | Literal[False] | None
    """The sessions of clients of 2025-11-25 and earlier: their limits, and the store of events for reconnections.

    A session lives in one process; with *shared*, the other processes forward its requests there, and continue it when
    that process stops. False refuses such clients; use it with several processes behind one address that have neither
    *shared* nor sticky routing, where they would fail at random."""
    auth: ResourceServer | None
    """The token verification; with it every request needs an access token. The metadata for clients is public, below
    ``/.well-known/oauth-protected-resource``; a host that mounts the application must route these root paths to it too
    (`HttpApp.wrap` does). By default there is no authentication."""
    health_path: str | None
    """The path of the check whether the process lives, such as ``"/healthz"``; by default there is none. A GET gets 200
    as long as the process answers, also while it stops, and 503 while it starts and after it has stopped. It is public:
    any host may ask, without authentication. Restart the process when it fails."""
    ready_path: str | None
    """The path of the check whether the process takes new requests, such as ``"/readyz"``; by default there is none. A
    GET gets 200 while it does, and 503 while it starts, and from the moment at which its stop was requested
    (`ServeHttpOptions.drain_delay`, `HttpApp.announce_stop`). It is public, as *health_path* is. Send the process no
    new requests while it fails."""
    metrics_path: str | None
    """The path of a page for Prometheus, such as ``"/metrics"``, in its text format 0.0.4; by default there is none,
    and nothing is counted. The page has the MCP requests by method and outcome with their durations, the calls by tool,
    the HTTP responses by status, and what is open now: requests in flight, sessions, WebSockets, listeners, parked
    handlers, buffered bytes. A method or tool that the server does not know is counted as ``other``.

    The page is public, as *health_path* is, and names the tools that were called: keep clients from it at the proxy if
    they must not know. Each process counts for itself, so with several behind one address (`ServeHttpOptions.workers`)
    any of them answers, and what it tells is true of that one alone; give each an address of its own to read them all.
    """
    routes: Mapping[str, HttpRoute] | None
    """The routes beside the endpoint, by path: ASGI applications, as of Starlette or FastAPI, and async functions
    that take the `HttpRequest`, or nothing, and return a string, bytes, JSON, or an ASGI application such as a response
    of Starlette. A function answers GET and HEAD. A path that ends in a slash is a mount point: it has all paths below.

    Routes are public: *auth* protects only the endpoint. They accept the hosts, the origins and the bodies that the
    endpoint accepts, and are refused with 503 while the server starts or stops. The lifespan of a route is not run; use
    `HttpApp.wrap` for an application with a lifespan."""
    access_log: logging.Logger | bool | None
    """The log of requests, of all paths; True for the logger ``trio_mcp.access``. Each request is one line of the level
    INFO when its response ends: method, path, status, milliseconds, and the principal or ``-``. Its record has the
    attributes `http_method`, `http_path`, `http_status`, `http_seconds`, `http_principal`, `http_request_id` (of the
    header field `traceparent` or else `x-request-id`, or else random), `http_principal_hash` (the first 16 hexadecimal
    digits of the SHA-256 of the principal) and `http_node` (the name of the process in a service of several, or None).
    By default requests are not logged."""
    shared: Shared | None
    """The backend by which several processes are one service: `SqliteShared` on one machine, `RedisShared` on any
    number of machines. Then every process takes every request, whichever of them has the session or the waiting handler
    that it continues, and changes reach the listeners of all of them. By default the process is the only one."""
    websocket: bool | None
    """True to serve WebSockets at the path of the endpoint too, with the hosts, the origins and *auth* of HTTP; each
    message is a text message. One serves its client until either side closes it, so it needs no sticky routing. By
    default WebSockets are refused."""


def _cure_of_option(name: str) -> str:
    """Return what the user may do about an unknown option; empty if that is unknown."""
    if name in _OF_SERVE_HTTP:
        return f"; serve_http takes {name!r}"
    return option_cure("serve_http", name) or did_you_mean(name, [*HttpOptions.__annotations__, *_OF_SERVE_HTTP])


def http_app(server: HttpAnswerer, **options: Unpack[HttpOptions]) -> HttpApp:
    """Return *server* as an ASGI 3 application, for ``hypercorn -k trio module:app`` or for mounting.

    All revisions are served at one path. The requests of one principal, or without authentication of one address, share
    the `Limits` of a connection. Without *auth* there is no authentication: listen only where trusted clients can
    connect; requests that need scopes (`Server.tool`) are refused. See `HttpApp` for how to run it.

    Args:
        options: see `HttpOptions`.

    Raises:
        ValueError: an option is not valid; the message names it.
        TypeError: there is no option of this name.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
    """
    check_server("http_app()", server)
    unknown = sorted(options.keys() - HttpOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"unknown options: {', '.join(unknown)}{''.join(map(_cure_of_option, unknown))}")
    path = options.get("path", "/mcp")
    if path is not None and not path.startswith("/"):
        raise ValueError(f"path={path!r}: must begin with a slash")
    if options.get("sessions"):
        check_class("sessions", options.get("sessions"), SessionSettings, "SessionSettings(store=...) or False")
    if options.get("routes") is not None:
        check_class("routes", options.get("routes"), Mapping, "routes={'/version': function}")
    names = known_names(options.get("auth"))
    hosts = _hosts(options.get("allowed_hosts"), names)
    policy = HttpPolicy(
        allowed_hosts=hosts,
        allowed_origins=_origins(options.get("allowed_origins"), names if hosts is None else hosts),
        max_body_bytes=_whole("max_body_bytes", options.get("max_body_bytes"), _MAX_BODY_BYTES),
        legacy=options.get("sessions") is not False and not all(map(is_modern, server.revisions)),
        modern=any(map(is_modern, server.revisions)),
    )
    body_seconds = _positive("body_seconds", options.get("body_seconds"), _BODY_SECONDS)
    settings = HttpSettings(
        path=path,
        policy=policy,
        body_seconds=body_seconds,
        keep_alive=_positive("keep_alive", options.get("keep_alive"), _KEEP_ALIVE),
        asking=options.get("asking"),
        sessions=options.get("sessions") or SessionSettings(),
        auth=options.get("auth"),
        max_buffer_bytes=_buffer_bytes(options.get("max_buffer_bytes"), policy.max_body_bytes),
        routes=_routes(options, path, policy, body_seconds),
        health_path=options.get("health_path"),
        ready_path=options.get("ready_path"),
        metrics_path=options.get("metrics_path"),
        access_log=_access_log(options.get("access_log")),
        websocket=bool(options.get("websocket")),
        open_nodes=_nodes_opener(server, options.get("shared")),
    )
    return HttpApp(server, settings)


def _nodes_opener(server: HttpAnswerer, shared: Shared | None) -> NodesOpener | None:
    if shared is None:
        return None
    if not hasattr(shared, "open"):
        raise TypeError(f"shared={shared!r}: must be a backend such as RedisShared('redis://cache:6379/0')")
    opener: NodesOpener = partial(load_capability("cluster").open_node, server, shared)
    return opener


def _routes(options: HttpOptions, path: str | None, policy: HttpPolicy, body_seconds: float) -> RouteTable:
    routes, auth = options.get("routes") or {}, options.get("auth")
    pages: Mapping[str, str | None] = {
        "health_path": options.get("health_path"),
        "ready_path": options.get("ready_path"),
        "metrics_path": options.get("metrics_path"),
    }
    given = {name: page for name, page in pages.items() if page is not None}
    if path is None and (routes or given):
        names = " or ".join(["routes", *(given or ["health_path"])])
        raise ValueError(f"path=None answers at every path, so there is no room for {names}; give it a path")
    sessions = options.get("sessions") or SessionSettings()
    places = [path, sessions.sse_path, *(() if auth is None else auth.metadata_paths)]
    taken = [each for each in places if each is not None]
    for name, page in given.items():
        if not page.startswith("/") or page.rstrip("/") in [each.rstrip("/") for each in taken]:
            raise ValueError(
                f"{name}={page!r}: must begin with a slash, and not be the path of the endpoint or of another page"
            )
        taken.append(page)
    return RouteTable.of(routes, taken, policy, body_seconds)


def _access_log(given: object) -> logging.Logger | None:
    if given is True:
        return logging.getLogger("trio_mcp.access")
    if given is None or given is False:
        return None
    if isinstance(given, logging.Logger):
        return given
    raise TypeError(f"access_log={given!r}: must be True, False or a logging.Logger")


def known_names(auth: ResourceServer | None) -> Sequence[str]:
    """Return the host names that an HTTP service accepts by default: this machine's, and that of the URL of *auth*.

    Raises:
        TypeError: *auth* is not a `ResourceServer`.
    """
    if auth is None:
        return LOCAL_HOSTS
    given: object = auth
    if not hasattr(given, "guard"):
        raise TypeError(f"auth: expected ResourceServer(url, issuers=[...]), and got {type(given).__name__}")
    place = urlsplit(auth.resource)
    usual_port = ":443" if place.scheme == "https" else ":80"
    return [*LOCAL_HOSTS, place.netloc.removesuffix(usual_port)]  # as in the `Host` field


def _hosts(allowed: Sequence[str] | Literal["any"] | None, known: Sequence[str]) -> Sequence[str] | None:
    if allowed is None:
        return known
    return None if allowed == "any" else allowed


def _origins(allowed: Sequence[str] | Literal["any"] | None, names: Sequence[str]) -> Sequence[str] | None:
    if allowed is None:
        return [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return None if allowed == "any" else allowed


def _whole(name: str, given: int | None, default: int) -> int:
    if given is None:
        return default
    if type(given) is not int or given <= 0:
        raise ValueError(f"{name}={given!r}: must be an integer above 0")
    return given


def _buffer_bytes(given: int | None, max_body_bytes: int) -> int:
    buffer_bytes = _whole("max_buffer_bytes", given, max(_MAX_BUFFER_BYTES, max_body_bytes))
    if buffer_bytes < max_body_bytes:
        raise ValueError(f"max_buffer_bytes={given!r}: must be at least max_body_bytes={max_body_bytes}")
    return buffer_bytes


def _positive(name: str, given: float | None, default: float) -> float:
    if given is None:
        return default
    if isinstance(given, bool) or math.isnan(given) or given <= 0:
        raise ValueError(f"{name}={given!r}: must be a number above 0")
    return given
