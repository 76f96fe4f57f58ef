"""Answers to a form of the server's, compared with what it asks for before they leave.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema
"""

from __future__ import annotations

import logging
from typing import Any

from attrs import evolve

from .. import types
from .._errors import LocalProtocolError
from .._schema import SchemaError, compile_schema
from ..wire import JsonObject

__all__ = ["fitted_answer"]

_log = logging.getLogger("trio_mcp.client")


def fitted_answer(
    request: types.ElicitRequestFormParams | types.ElicitRequestURLParams,
    answer: types.ElicitResult,
    *,
    apply_defaults: bool,
) -> types.ElicitResult:
    """Return what may be sent of an answer: content leaves only with an accepted form, and only if it fits.

    Args:
        apply_defaults: take the form's defaults for the members that were left out.

    Raises:
        LocalProtocolError: the content does not fit the form; every fault is named.
    """
    if answer.action != "accept" or isinstance(request, types.ElicitRequestURLParams):
        return evolve(answer, content=None)
    form: JsonObject = types.unstructure(request.requested_schema)
    content: JsonObject = dict(answer.content or {})
    if apply_defaults:
        content = _defaults(form) | content
    faults = _faults(form, content)
    if faults:
        raise LocalProtocolError(f"on_elicit accepted a form with what does not fit it: {'; '.join(faults)}")
    return answer if content == (answer.content or {}) else evolve(answer, content=content)


def _defaults(form: JsonObject) -> JsonObject:
    """Return the defaults that fit the members they are for; for the others the server is to blame, not the answer."""
    members: dict[str, JsonObject] = form["properties"]
    proposed = {name: schema["default"] for name, schema in members.items() if "default" in schema}
    return {name: value for name, value in proposed.items() if not _faults(members[name], value)}


def _faults(schema: JsonObject, value: Any) -> list[str]:
    try:
        return compile_schema(schema).faults(value)
    except SchemaError as error:
        _log.warning("answers to a form cannot be checked: %s", error)  # the server has to check them by itself
        return []
