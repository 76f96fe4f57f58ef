"""A typed result as the JSON object of its revision, with what the revision adds to every result.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses
"""

from __future__ import annotations

from .. import types
from ..peer import ExchangeContext
from ..wire import SERVER_INFO_KEY, JsonObject, is_modern
from ._cache import NOT_KEPT, CacheHint

__all__ = ["finish_result", "not_to_be_kept"]


def finish_result(
    result: types.Result | JsonObject,
    context: ExchangeContext,
    server_info: JsonObject,
    hint: CacheHint | None = NOT_KEPT,
) -> JsonObject:
    """Return what goes over the wire for *result*.

    Args:
        result: typed, or in its JSON form, which may be changed.
        server_info: how the server names itself, in the shape of `types.Implementation`.
        hint: for how long the result may be kept, and by whom, where it does not say so itself; None for JSON of a
            method whose results are not kept.
    """
    json: JsonObject = result if isinstance(result, dict) else types.unstructure(result, revision=context.revision)
    if is_modern(context.revision):
        kind = json.setdefault("resultType", "complete")
        if hint is not None and kind == "complete" and (json is result or hasattr(result, "ttl_ms")):
            json = {**hint.to_wire(), **json}
        json["_meta"] = {SERVER_INFO_KEY: server_info, **json.get("_meta", {})}
    return json


def not_to_be_kept(result: JsonObject) -> JsonObject:
    """Return a result that came of the client's answers: whatever it says, nobody else may be given it."""
    return {**result, **NOT_KEPT.to_wire()} if "ttlMs" in result else result
