"""ANSWERING: the registry of tools, resources and prompts, dispatch, and the ways to serve.

Names only, each imported from its home when it is first used: few programs serve in more than one way.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._ask import Ask as Ask
    from ._asking import AskingMode as AskingMode
    from ._cache import CacheHint as CacheHint
    from ._content import Audio as Audio
    from ._content import Image as Image
    from ._context import Context as Context
    from ._custom import ExtensionResult as ExtensionResult
    from ._form_choices import Choices as Choices
    from ._http_app import HttpOptions as HttpOptions
    from ._http_app import http_app as http_app
    from ._middleware import CallNext as CallNext
    from ._middleware import Middleware as Middleware
    from ._middleware import Request as Request
    from ._questions import Accepted as Accepted
    from ._questions import Declined as Declined
    from ._questions import Dismissed as Dismissed
    from ._questions import Elicit as Elicit
    from ._questions import Visit as Visit
    from ._questions_to_client import ListRoots as ListRoots
    from ._questions_to_client import Sample as Sample
    from ._rate_limit import RateLimit as RateLimit
    from ._serve import serve_listeners as serve_listeners
    from ._serve import serve_stdio as serve_stdio
    from ._serve import serve_stream as serve_stream
    from ._serve_http import HttpBound as HttpBound
    from ._serve_http import HttpService as HttpService
    from ._serve_http import ServeHttpOptions as ServeHttpOptions
    from ._serve_http import serve_http as serve_http
    from ._serve_http_workers import serve_as_worker as serve_as_worker
    from ._serve_http_workers import serve_in_workers as serve_in_workers
    from ._serve_http_workers import shared_key as shared_key
    from ._server import Server as Server
    from ._serving import ServerStatistics as ServerStatistics
    from ._serving import Serving as Serving

_HOMES = {
    "_ask": ("Ask",),
    "_asking": ("AskingMode",),
    "_cache": ("CacheHint",),
    "_content": ("Audio", "Image"),
    "_context": ("Context",),
    "_custom": ("ExtensionResult",),
    "_form_choices": ("Choices",),
    "_http_app": ("HttpOptions", "http_app"),
    "_middleware": ("CallNext", "Middleware", "Request"),
    "_questions": ("Accepted", "Declined", "Dismissed", "Elicit", "Visit"),
    "_questions_to_client": ("ListRoots", "Sample"),
    "_rate_limit": ("RateLimit",),
    "_serve": ("serve_listeners", "serve_stdio", "serve_stream"),
    "_serve_http": ("HttpBound", "HttpService", "ServeHttpOptions", "serve_http"),
    "_serve_http_workers": ("serve_as_worker", "serve_in_workers", "shared_key"),
    "_server": ("Server",),
    "_serving": ("ServerStatistics", "Serving"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll] # derived; a test compares

if not TYPE_CHECKING:  # which would take every name to be here

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return [*__all__]
