"""PERMISSION: how a client shows who asks, and how a server checks it. OAuth 2.1, as MCP profiles it.

The flows are generators without I/O (`_steps`); names are imported from their homes when they are first used.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._bearer import Bearer as Bearer
    from ._browser import open_browser as open_browser
    from ._browser import print_url as print_url
    from ._enterprise_managed import EnterpriseManaged as EnterpriseManaged
    from ._file_storage import FileTokenStorage as FileTokenStorage
    from ._grant import Grant as Grant
    from ._guard import Guard as Guard
    from ._introspection import IntrospectionVerifier as IntrospectionVerifier
    from ._jwt_verifier import JwtVerifier as JwtVerifier
    from ._machine_grants import ClientCredentials as ClientCredentials
    from ._machine_grants import WorkloadIdentity as WorkloadIdentity
    from ._memory_storage import MemoryTokenStorage as MemoryTokenStorage
    from ._oauth import OAuth as OAuth
    from ._resource_server import ResourceServer as ResourceServer
    from ._steps import CallFailed as CallFailed
    from ._steps import HttpCall as HttpCall
    from ._steps import HttpReply as HttpReply
    from ._steps import Unreadable as Unreadable
    from ._tokens import AuthMethod as AuthMethod
    from ._tokens import PrivateKey as PrivateKey
    from ._tokens import Registration as Registration
    from ._verified import LEEWAY_SECONDS as LEEWAY_SECONDS
    from ._verified import InvalidToken as InvalidToken
    from ._verified import VerifiedToken as VerifiedToken
    from ._verified import VerifierUnavailable as VerifierUnavailable

_HOMES = {
    "_bearer": ("Bearer",),
    "_browser": ("open_browser", "print_url"),
    "_enterprise_managed": ("EnterpriseManaged",),
    "_file_storage": ("FileTokenStorage",),
    "_grant": ("Grant",),
    "_guard": ("Guard",),
    "_introspection": ("IntrospectionVerifier",),
    "_jwt_verifier": ("JwtVerifier",),
    "_machine_grants": ("ClientCredentials", "WorkloadIdentity"),
    "_memory_storage": ("MemoryTokenStorage",),
    "_oauth": ("OAuth",),
    "_resource_server": ("ResourceServer",),
    "_steps": ("CallFailed", "HttpCall", "HttpReply", "Unreadable"),
    "_tokens": ("AuthMethod", "PrivateKey", "Registration"),
    "_verified": ("LEEWAY_SECONDS", "InvalidToken", "VerifiedToken", "VerifierUnavailable"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll] # derived; a test compares

if not TYPE_CHECKING:  # which would take every name to be here

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return [*__all__]
