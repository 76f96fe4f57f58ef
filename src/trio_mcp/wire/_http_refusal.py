"""What an HTTP request gets in place of what it asked for: a status, and mostly a JSON-RPC error that says why.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from .._errors import McpError
from ._envelope import MISSING_CAPABILITY, UNSUPPORTED_REVISION
from ._jsonrpc import METHOD_NOT_FOUND, RequestId, encode_error

__all__ = ["HEADER_MISMATCH", "Refusal", "status_of"]

HEADER_MISMATCH = -32020

_STATUS_OF = {METHOD_NOT_FOUND: 404, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400, UNSUPPORTED_REVISION: 400}


@frozen
class Refusal:
    """An HTTP response to a request that is not served."""

    status: int
    error: McpError | None = None
    """What is wrong; None where the status says it all."""
    id: RequestId | None = None
    """The id of the message that is refused, None where it has none or it could not be read."""
    headers: Mapping[str, str] = field(factory=dict[str, str])
    """Header fields that belong to the status, by lower-case name."""

    def body(self, *, null_id: bool = False) -> bytes:
        """Return the JSON-RPC error, which is `application/json`; empty where there is none.

        Args:
            null_id: whether the revision of the client writes an unknown id as null, instead of leaving it out; see
                `needs_null_id`.
        """
        if self.error is None:
            return b""
        error = self.error
        line = encode_error(self.id, error.code, error.message, error.data, omit_id=not null_id)
        return line.removesuffix(b"\n")


def status_of(error_code: int) -> int:
    """Return the status of a modern response that is an error and nothing else."""
    return _STATUS_OF.get(error_code, 200)
