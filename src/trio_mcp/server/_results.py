"""A typed result as the JSON object of its revision, with what the revision adds to every result.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses
"""

from __future__ import annotations

from .. import types
from ..peer import ExchangeContext
from ..wire import SERVER_INFO_KEY, JsonObject

__all__ = ["finish_result"]


def finish_result(result: types.Result | JsonObject, context: ExchangeContext, server_info: JsonObject) -> JsonObject:
    """Return what goes over the wire for *result*.

    Args:
        result: typed, or a page of a list in its JSON form.
        server_info: how the server names itself, in the shape of `types.Implementation`.
    """
    json: JsonObject
    if isinstance(result, dict):
        is_page, json = True, result
    else:
        is_page, json = False, types.unstructure(result, revision=context.revision)
    if context.modern:
        json.setdefault("resultType", "complete")
        if is_page or hasattr(result, "ttl_ms"):  # a result that may be cached says for how long, and by whom
            json.setdefault("ttlMs", 0)
            json.setdefault("cacheScope", "private")
        json["_meta"] = {SERVER_INFO_KEY: server_info, **json.get("_meta", {})}
    return json
