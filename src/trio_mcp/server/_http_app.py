"""`http_app`: a server as an ASGI application, and what may be said about it.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack
from urllib.parse import urlsplit

from ..abc import HttpAnswerer
from ..transports import HttpApp, HttpSettings, SessionSettings
from ..wire import HttpPolicy, is_modern
from ._asking import AskingMode

if TYPE_CHECKING:
    from ..auth import ResourceServer

__all__ = ["LOCAL_HOSTS", "HttpOptions", "http_app", "known_names"]

LOCAL_HOSTS = ("localhost:*", "127.0.0.1:*", "[::1]:*")
"""By what names this machine calls itself."""
_MAX_BODY_BYTES = 4 * 2**20
_BODY_SECONDS = 60.0
_KEEP_ALIVE = 15.0


class HttpOptions(TypedDict, total=False):
    """What `http_app` and `serve_http` take, all by keyword and all optional; None is the default of each but `path`.

    Sizes are bytes, times are seconds.
    """

    path: str | None
    """Where clients find it, ``"/mcp"`` by default, below what the application is mounted under. None answers at every
    path: for hosts that look at the path themselves."""
    allowed_hosts: Sequence[str] | Literal["any"] | None
    """The names, with ports, by which clients reach it: ``["example.com", "example.com:8443"]``; the port ``*`` stands
    for any. By default those of this machine (``localhost:*``, ``127.0.0.1:*``, ``[::1]:*``), and the one in the URL
    that *auth* names, alone: a page of a foreign site whose name was made to lead here is refused, with 403. ``"any"``
    checks nothing: for servers behind a proxy that does."""
    allowed_origins: Sequence[str] | Literal["any"] | None
    """The sites whose pages may use it, as ``["https://example.com"]``. By default those that *allowed_hosts* names,
    over HTTP and HTTPS. Clients that are no web pages name none, and are not asked for one."""
    max_body_bytes: int | None
    """The longest body of a request, 4 MiB by default; a longer one is refused before it is read."""
    body_seconds: float | None
    """How long a body may take to arrive, a minute by default."""
    keep_alive: float | None
    """After so many seconds of silence a stream says that it is alive, 15 by default; a request that has not been
    answered by then becomes one."""
    asking: AskingMode | None
    """Where handlers are while clients of the current revision find answers, in place of what the server says of itself
    (`Server`). With several processes behind one address it must be ``"replayed"``, and the server needs `keys`."""
    sessions: SessionSettings | Literal[False] | None
    """What clients of revisions up to 2025-11-25 may cost, and what is kept for those that lose a stream.

    Their sessions live in one process. With several behind one address, and nothing before them that leads each client
    to the same one, False refuses such clients, which would fail at random otherwise."""
    auth: ResourceServer | None
    """Whose tokens it takes, and for what: every request then has to come with one. What a client has to know for that
    can be read by anybody below ``/.well-known/oauth-protected-resource``: a host that mounts the application somewhere
    leads these paths of its own here as well (`HttpApp.wrap` does). By default nobody is authenticated."""


def http_app(server: HttpAnswerer, **options: Unpack[HttpOptions]) -> HttpApp:
    """Return *server* as an ASGI 3 application, for ``hypercorn -k trio module:app`` or for mounting.

    All its revisions are served at one path. Requests of one sender share the `Limits` of a connection: a sender is who
    was authenticated, or else an address. Without *auth* nobody is: then listen where only those you trust can connect,
    and what needs scopes (`Server.tool`) is refused. See `HttpApp` for how it is run.

    Args:
        options: see `HttpOptions`.

    Raises:
        ValueError: an option makes no sense; the text names it.
        TypeError: there is no option of this name.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
    """
    unknown = sorted(options.keys() - HttpOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"unknown options: {', '.join(unknown)}; there are {', '.join(HttpOptions.__annotations__)}")
    path = options.get("path", "/mcp")
    if path is not None and not path.startswith("/"):
        raise ValueError(f"path={path!r}: it begins with a slash")
    known = known_names(options.get("auth"))
    hosts = _hosts(options.get("allowed_hosts"), known)
    policy = HttpPolicy(
        allowed_hosts=hosts,
        allowed_origins=_origins(options.get("allowed_origins"), known if hosts is None else hosts),
        max_body_bytes=_whole("max_body_bytes", options.get("max_body_bytes"), _MAX_BODY_BYTES),
        legacy=options.get("sessions") is not False and not all(map(is_modern, server.revisions)),
        modern=any(map(is_modern, server.revisions)),
    )
    settings = HttpSettings(
        path=path,
        policy=policy,
        body_seconds=_positive("body_seconds", options.get("body_seconds"), _BODY_SECONDS),
        keep_alive=_positive("keep_alive", options.get("keep_alive"), _KEEP_ALIVE),
        asking=options.get("asking"),
        sessions=options.get("sessions") or SessionSettings(),
        auth=options.get("auth"),
    )
    return HttpApp(server, settings)


def known_names(auth: ResourceServer | None) -> Sequence[str]:
    """Return the names of a server that need not be said: those of this machine, and what its protection calls it."""
    if auth is None:
        return LOCAL_HOSTS
    place = urlsplit(auth.resource)
    usual_port = ":443" if place.scheme == "https" else ":80"
    return [*LOCAL_HOSTS, place.netloc.removesuffix(usual_port)]  # as it stands in the field `Host`


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
        raise ValueError(f"{name}={given!r}: must be a whole number above 0")
    return given


def _positive(name: str, given: float | None, default: float) -> float:
    if given is None:
        return default
    if isinstance(given, bool) or math.isnan(given) or given <= 0:
        raise ValueError(f"{name}={given!r}: must be a number above 0")
    return given
