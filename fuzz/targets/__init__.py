"""One module for each target: `target(data)` raises if the bytes break a property of its subject."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

__all__ = ["TARGETS", "load"]

TARGETS = (
    "framing",
    "jsonrpc",
    "envelope",
    "sse",
    "header_fields",
    "header_params",
    "uri_template",
    "request_state",
    "structuring",
    "signature",
    "challenges",
    "http_response",
    "http_request",
)


def load(name: str) -> Callable[[bytes], None]:
    """Return the target of this name."""
    target: Callable[[bytes], None] = import_module(f"{__name__}.{name}").target
    return target
