"""What media types a request sends and takes: the `Content-Type` and `Accept` fields, as far as MCP needs them.

Specification: https://www.rfc-editor.org/rfc/rfc9110#name-accept
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["EVENT_STREAM_TYPE", "JSON_TYPE", "accepts", "is_json"]

JSON_TYPE = "application/json"
EVENT_STREAM_TYPE = "text/event-stream"

_ZERO_QUALITY = re.compile(r"q\s*=\s*0(?:\.0*)?")


def is_json(content_type: str | None) -> bool:
    """Tell whether a body is declared as JSON. One that is not declared at all is not: browsers send such unasked."""
    return content_type is not None and content_type.partition(";")[0].strip().lower() == JSON_TYPE


@lru_cache(maxsize=64)  # a client sends the same with each request
def accepts(accept: str | None, media_type: str) -> bool:
    """Tell whether a client takes *media_type*. One that does not say what it takes (None, or blank) takes everything.

    Of several ranges that fit, the most specific one decides; a quality of 0 refuses.
    """
    if accept is None or not accept.strip():
        return True
    verdicts: dict[str, bool] = {}
    for media_range in accept.lower().split(","):
        range_type, *parameters = (part.strip() for part in media_range.split(";"))
        refused = any(_ZERO_QUALITY.fullmatch(parameter) for parameter in parameters)
        verdicts[range_type] = verdicts.get(range_type, False) or not refused
    kind, _, _ = media_type.partition("/")
    ranges = (media_type, f"{kind}/*", "*/*")
    return next((verdicts[each] for each in ranges if each in verdicts), False)
