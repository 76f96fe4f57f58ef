"""PERMISSION: how a client shows who asks, and how a server checks it. OAuth 2.1, as MCP profiles it.

The flows are generators without I/O (`_steps`); names are imported from their homes when they are first used.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._steps import CallFailed as CallFailed
from ._steps import HttpCall as HttpCall
from ._steps import HttpReply as HttpReply
from ._steps import Unreadable as Unreadable
from ._verified import LEEWAY_SECONDS as LEEWAY_SECONDS
from ._verified import InvalidToken as InvalidToken
from ._verified import VerifiedToken as VerifiedToken
from ._verified import VerifierUnavailable as VerifierUnavailable

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
    from ._tokens import AuthMethod as AuthMethod
    from ._tokens import PrivateKey as PrivateKey
    from ._tokens import Registration as Registration

_HOME_OF = {
    "Bearer": "_bearer",
    "open_browser": "_browser",
    "print_url": "_browser",
    "EnterpriseManaged": "_enterprise_managed",
    "FileTokenStorage": "_file_storage",
    "Grant": "_grant",
    "Guard": "_guard",
    "IntrospectionVerifier": "_introspection",
    "JwtVerifier": "_jwt_verifier",
    "ClientCredentials": "_machine_grants",
    "WorkloadIdentity": "_machine_grants",
    "MemoryTokenStorage": "_memory_storage",
    "OAuth": "_oauth",
    "ResourceServer": "_resource_server",
    "AuthMethod": "_tokens",
    "PrivateKey": "_tokens",
    "Registration": "_tokens",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    return value
