"""The server: the registry of tools, resources and prompts, dispatch, and the ways to serve.

Each name is imported from its module at its first use, because few programs serve in more than one way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._context import Context as Context
    from ._context import past_of as past_of
    from ._context import progress_of as progress_of
    from ._context import run_of as run_of
    from ._context import serving_of as serving_of
    from ._extension_points import ServerExtensionPoints as ServerExtensionPoints
    from ._extension_points import ServingPart as ServingPart
    from ._extension_points import internals_of as internals_of
    from ._extensions import ExtensionResult as ExtensionResult
    from ._forwarder import Forwarder as Forwarder
    from ._forwarder import ForwardingResponder as ForwardingResponder
    from ._forwarder import TasklessRequest as TasklessRequest
    from ._forwarder import TasklessResponder as TasklessResponder
    from ._http_app import HttpOptions as HttpOptions
    from ._http_app import http_app as http_app
    from ._inspection import inspection_sockets as inspection_sockets
    from ._middleware import CallNext as CallNext
    from ._middleware import Middleware as Middleware
    from ._middleware import RateLimit as RateLimit
    from ._middleware import Request as Request
    from ._middleware import checked_result as checked_result
    from ._progress import TokenBucket as TokenBucket
    from ._serve import serve_listeners as serve_listeners
    from ._serve import serve_stdio as serve_stdio
    from ._serve import serve_stream as serve_stream
    from ._serve_http import HttpBound as HttpBound
    from ._serve_http import HttpService as HttpService
    from ._serve_http import ServeHttpOptions as ServeHttpOptions
    from ._serve_http import serve_http as serve_http
    from ._server import Server as Server
    from ._serving import ActiveServer as ActiveServer
    from ._snapshot import BackgroundSnapshot as BackgroundSnapshot
    from ._snapshot import ConnectionSnapshot as ConnectionSnapshot
    from ._snapshot import RequestSnapshot as RequestSnapshot
    from ._snapshot import ServerSnapshot as ServerSnapshot
    from ._snapshot import ServerStatistics as ServerStatistics
    from ._stopping import StuckTask as StuckTask
    from .asking import Accepted as Accepted
    from .asking import Ask as Ask
    from .asking import AskingMode as AskingMode
    from .asking import Choices as Choices
    from .asking import Declined as Declined
    from .asking import Dismissed as Dismissed
    from .asking import Elicit as Elicit
    from .asking import ListRoots as ListRoots
    from .asking import Sample as Sample
    from .asking import Visit as Visit
    from .asking import interim_result as interim_result
    from .features import Around as Around
    from .features import Assistant as Assistant
    from .features import Audio as Audio
    from .features import CacheHint as CacheHint
    from .features import Image as Image
    from .features import TaskMode as TaskMode
    from .features import User as User
    from .features import tool_json as tool_json
    from .signature import Resolve as Resolve
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_context": ("Context", "past_of", "progress_of", "run_of", "serving_of"),
            "_extension_points": ("ServerExtensionPoints", "ServingPart", "internals_of"),
            "_extensions": ("ExtensionResult",),
            "_forwarder": ("Forwarder", "ForwardingResponder", "TasklessRequest", "TasklessResponder"),
            "_http_app": ("HttpOptions", "http_app"),
            "_inspection": ("inspection_sockets",),
            "_middleware": ("CallNext", "Middleware", "RateLimit", "Request", "checked_result"),
            "_progress": ("TokenBucket",),
            "_serve": ("serve_listeners", "serve_stdio", "serve_stream"),
            "_serve_http": ("HttpBound", "HttpService", "ServeHttpOptions", "serve_http"),
            "_server": ("Server",),
            "_serving": ("ActiveServer",),
            "_snapshot": (
                "BackgroundSnapshot", "ConnectionSnapshot", "RequestSnapshot", "ServerSnapshot", "ServerStatistics",
            ),
            "_stopping": ("StuckTask",),
            "asking": (
                "Accepted", "Ask", "AskingMode", "Choices", "Declined", "Dismissed", "Elicit", "ListRoots", "Sample",
                "Visit", "interim_result",
            ),
            "features": ("Around", "Assistant", "Audio", "CacheHint", "Image", "TaskMode", "User", "tool_json"),
            "signature": ("Resolve",),
        },
    )  # fmt: skip
