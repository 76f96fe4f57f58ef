"""Web APIs as tools: each operation of an OpenAPI description that a program selects becomes a tool of its server.

Specification: https://spec.openapis.org/oas/v3.2.0.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._add import AddedTools as AddedTools
    from ._add import add_asgi as add_asgi
    from ._add import add_openapi as add_openapi
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, {"_add": ("AddedTools", "add_asgi", "add_openapi")})
