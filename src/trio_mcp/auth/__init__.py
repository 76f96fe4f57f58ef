"""Authorization: how a client obtains and sends tokens, and how a server checks them, by the OAuth 2.1 profile of MCP.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._jwt import LEEWAY_SECONDS as LEEWAY_SECONDS
    from ._jwt import InvalidToken as InvalidToken
    from ._jwt import VerifiedToken as VerifiedToken
    from ._jwt import VerifierUnavailable as VerifierUnavailable
    from .client import AuthMethod as AuthMethod
    from .client import Bearer as Bearer
    from .client import CallFailed as CallFailed
    from .client import ClientCredentials as ClientCredentials
    from .client import EnterpriseManaged as EnterpriseManaged
    from .client import FileTokenStorage as FileTokenStorage
    from .client import Grant as Grant
    from .client import HttpCall as HttpCall
    from .client import HttpReply as HttpReply
    from .client import MemoryTokenStorage as MemoryTokenStorage
    from .client import OAuth as OAuth
    from .client import PrivateKey as PrivateKey
    from .client import Registration as Registration
    from .client import Unreadable as Unreadable
    from .client import WorkloadIdentity as WorkloadIdentity
    from .client import open_browser as open_browser
    from .client import print_url as print_url
    from .client import show_in_browser as show_in_browser
    from .server import IntrospectionVerifier as IntrospectionVerifier
    from .server import JwtVerifier as JwtVerifier
    from .server import ResourceServer as ResourceServer
    from .server import TokenGuard as TokenGuard
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_jwt": ("LEEWAY_SECONDS", "InvalidToken", "VerifiedToken", "VerifierUnavailable"),
            "client": (
                "AuthMethod", "Bearer", "CallFailed", "ClientCredentials", "EnterpriseManaged", "FileTokenStorage",
                "Grant", "HttpCall", "HttpReply", "MemoryTokenStorage", "OAuth", "PrivateKey", "Registration",
                "Unreadable", "WorkloadIdentity", "open_browser", "print_url", "show_in_browser",
            ),
            "server": ("IntrospectionVerifier", "JwtVerifier", "ResourceServer", "TokenGuard"),
        },
    )  # fmt: skip
