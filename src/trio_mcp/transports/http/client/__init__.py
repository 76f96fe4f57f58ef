"""The client side of Streamable HTTP and of the legacy HTTP+SSE transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._facade import lazy_names

if TYPE_CHECKING:
    from ._open import http_transport as http_transport
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_open": ("http_transport",),
        },
    )  # fmt: skip
