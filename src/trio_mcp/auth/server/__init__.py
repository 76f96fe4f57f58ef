"""The server side of authorization: resource servers and token verifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._introspection import IntrospectionVerifier as IntrospectionVerifier
    from ._resource_server import ResourceServer as ResourceServer
    from ._resource_server import TokenGuard as TokenGuard
    from ._token_verifiers import JwtVerifier as JwtVerifier
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_introspection": ("IntrospectionVerifier",),
            "_resource_server": ("ResourceServer", "TokenGuard"),
            "_token_verifiers": ("JwtVerifier",),
        },
    )  # fmt: skip
