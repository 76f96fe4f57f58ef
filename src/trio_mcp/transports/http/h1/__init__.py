"""HTTP/1.1 without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._facade import lazy_names

if TYPE_CHECKING:
    from ._client import HttpSyntaxError as HttpSyntaxError
    from ._client import ResponseHead as ResponseHead
    from ._client import ResponseReader as ResponseReader
    from ._client import request_head as request_head
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, {"_client": ("HttpSyntaxError", "ResponseHead", "ResponseReader", "request_head")}
    )
