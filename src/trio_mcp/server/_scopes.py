"""What has to be granted for what: the scopes of tools, resources, prompts and methods, and those of one request.

Rules of this file:

1. Scopes are checked by what authenticates, before a request is begun: by HTTP applications, and by nothing else.
2. What is read of a request here is what its handler will read. Where that is nothing, it is refused elsewhere.
3. Lists show everything to everybody: what needs a scope has to be found before anybody asks for that.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from ..wire import JsonObject, is_array, is_object

if TYPE_CHECKING:
    from ._server import Server

__all__ = ["NO_SCOPES", "check_scopes", "needed_scopes"]

NO_SCOPES = frozenset[str]()

_SCOPE = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
"""As RFC 6749, section 3.3, spells one."""


def check_scopes(where: str, scopes: Sequence[str]) -> frozenset[str]:
    """Return the scopes that something needs.

    Raises:
        ValueError: *scopes* is one text, or one of them cannot be a scope.
    """
    if isinstance(scopes, str):
        raise ValueError(f"{where}: scopes={scopes!r} must be a list of texts, such as [{scopes!r}]")
    for scope in cast("Sequence[object]", scopes):
        if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
            raise ValueError(f"{where}: {scope!r} is no scope: visible ASCII without spaces, quotes and backslashes")
    return frozenset(scopes)


def needed_scopes(server: Server, method: str, params: JsonObject) -> frozenset[str]:
    """Return the scopes that a request needs, whatever its params are (rule 2)."""
    match method:
        case "tools/call":
            return server.tools.scopes_of(params.get("name"))
        case "prompts/get":
            return server.prompts.scopes_of(params.get("name"))
        case "resources/read" | "resources/subscribe":
            return server.resources.scopes_of(params.get("uri"))
        case "completion/complete":
            ref: Any = params.get("ref")
            named: JsonObject = ref if is_object(ref) else {}
            of_prompt = server.prompts.scopes_of(named.get("name"))
            return of_prompt | server.resources.scopes_of_template(named.get("uri"))
        case "subscriptions/listen":
            uris = islice(_listened(params), server.limits.max_subscriptions)  # with more of them it is refused
            return NO_SCOPES.union(*map(server.resources.scopes_of, uris))
        case _:
            return server.own.scopes_of(method)


def _listened(params: JsonObject) -> Iterable[str]:
    """Return what a request to listen names as resources; what it names twice counts once, as for its handler."""
    wanted: Any = params.get("notifications")
    uris: Any = wanted.get("resourceSubscriptions") if is_object(wanted) else None
    return dict.fromkeys(uri for uri in uris if isinstance(uri, str)) if is_array(uris) else ()
