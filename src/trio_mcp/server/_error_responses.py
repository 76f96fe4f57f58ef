"""What a handler's failure is answered with: a tool error that the model reads, or a protocol error.

Rules of this file:

1. `McpError` is the handler's own choice of an error, `ToolError` that of a tool error.
2. A capability that the client has not declared is -32021 in a modern revision. Older ones have no code for it: there
   it is a tool error, or -32603 with the same text.
3. Where no question can be asked because too many wait already, the request is refused as busy.
4. Anything else is a bug, and goes to the log. What a tool raised is told to the model, of the rest nothing is said.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from .. import types
from .._errors import AskExpired, McpError, MissingCapability, ToolError, TooManyParked
from ..peer import BUSY, ExchangeContext
from ..wire import INTERNAL_ERROR, MISSING_CAPABILITY

if TYPE_CHECKING:
    from ._server import Server

__all__ = ["DELIBERATE", "explain", "refusal_of"]

_log = logging.getLogger("trio_mcp.server")

_CALL = "tools/call"
DELIBERATE = (McpError, ToolError, MissingCapability, AskExpired, TooManyParked)
"""Failures that mean the same whoever raises them, a handler or a middleware."""


def explain(
    server: Server, method: str, params: Any, context: ExchangeContext, failure: Exception
) -> types.CallToolResult | McpError:
    """Return what to answer.

    Args:
        params: what the handler was given.
    """
    refusal = refusal_of(failure, context)
    if refusal is not None:
        return refusal
    if isinstance(failure, MissingCapability | AskExpired):
        if method == _CALL:
            return types.CallToolResult(content=[types.TextContent(text=str(failure))], is_error=True)
        return McpError(INTERNAL_ERROR, f"{method!r}: {failure}")
    if method == _CALL and isinstance(params, types.CallToolRequestParams):
        return server.tools.explain(params.name, failure)
    _log.error("answering %r failed", method, exc_info=failure)
    return McpError(INTERNAL_ERROR, f"{method!r} failed; the server's log says why")


def refusal_of(failure: Exception, context: ExchangeContext) -> McpError | None:
    """Return the protocol error that stands for a failure, whatever the method; None where there is none."""
    if isinstance(failure, McpError):
        return failure
    if isinstance(failure, TooManyParked):
        return McpError(BUSY, f"too busy: {failure}; try again later")
    if isinstance(failure, MissingCapability) and context.modern:
        return McpError(MISSING_CAPABILITY, str(failure), {"requiredCapabilities": failure.required})
    return None
