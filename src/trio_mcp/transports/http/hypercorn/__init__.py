"""Serving an ASGI application with Hypercorn on Trio: sockets, TLS, connections and worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._facade import lazy_names

if TYPE_CHECKING:
    from ._serve import serve_asgi as serve_asgi
    from ._sockets import Bound as Bound
    from ._sockets import HttpListening as HttpListening
    from ._sockets import HttpSockets as HttpSockets
    from ._sockets import bind_sockets as bind_sockets
    from ._tls import tls_context as tls_context
    from ._workers import Inheritance as Inheritance
    from ._workers import inheritance_variables as inheritance_variables
    from ._workers import serve_workers as serve_workers
    from ._workers import take_inheritance as take_inheritance
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_serve": ("serve_asgi",),
            "_sockets": ("Bound", "HttpListening", "HttpSockets", "bind_sockets"),
            "_tls": ("tls_context",),
            "_workers": ("Inheritance", "inheritance_variables", "serve_workers", "take_inheritance"),
        },
    )  # fmt: skip
