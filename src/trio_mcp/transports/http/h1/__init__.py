"""HTTP/1.1 without I/O: bytes in, heads and bodies out, for both roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...._facade import lazy_names

if TYPE_CHECKING:
    from ._client import ResponseHead as ResponseHead
    from ._client import ResponseReader as ResponseReader
    from ._client import request_head as request_head
    from ._server import RequestHead as RequestHead
    from ._server import RequestReader as RequestReader
    from ._server import field_lines as field_lines
    from ._server import response_head as response_head
    from ._server import status_line as status_line
    from ._syntax import LAST_CHUNK as LAST_CHUNK
    from ._syntax import ChunkedBody as ChunkedBody
    from ._syntax import Fields as Fields
    from ._syntax import HttpSyntaxError as HttpSyntaxError
    from ._syntax import chunk as chunk
    from ._syntax import joined_fields as joined_fields
    from ._syntax import options_of as options_of
    from ._syntax import values_of as values_of
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_client": ("ResponseHead", "ResponseReader", "request_head"),
            "_server": ("RequestHead", "RequestReader", "field_lines", "response_head", "status_line"),
            "_syntax": (
                "LAST_CHUNK",
                "ChunkedBody",
                "Fields",
                "HttpSyntaxError",
                "chunk",
                "joined_fields",
                "options_of",
                "values_of",
            ),
        },
    )
