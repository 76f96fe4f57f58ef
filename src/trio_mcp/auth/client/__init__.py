"""The client side of authorization: grants, the token cache, storage and the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._authorization_code import OAuth as OAuth
    from ._browser import open_browser as open_browser
    from ._browser import print_url as print_url
    from ._browser import show_in_browser as show_in_browser
    from ._discovery import ServerMetadata as ServerMetadata
    from ._grants import ClientCredentials as ClientCredentials
    from ._grants import EnterpriseManaged as EnterpriseManaged
    from ._grants import Grant as Grant
    from ._grants import WorkloadIdentity as WorkloadIdentity
    from ._source import Bearer as Bearer
    from ._steps import CallFailed as CallFailed
    from ._steps import HttpCall as HttpCall
    from ._steps import HttpReply as HttpReply
    from ._steps import Unreadable as Unreadable
    from ._token_endpoint import AuthMethod as AuthMethod
    from ._token_endpoint import PrivateKey as PrivateKey
    from ._token_endpoint import Registration as Registration
    from ._token_endpoint import authenticate as authenticate
    from ._token_storage import FileTokenStorage as FileTokenStorage
    from ._token_storage import MemoryTokenStorage as MemoryTokenStorage
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_authorization_code": ("OAuth",),
            "_browser": ("open_browser", "print_url", "show_in_browser"),
            "_discovery": ("ServerMetadata",),
            "_grants": ("ClientCredentials", "EnterpriseManaged", "Grant", "WorkloadIdentity"),
            "_source": ("Bearer",),
            "_steps": ("CallFailed", "HttpCall", "HttpReply", "Unreadable"),
            "_token_endpoint": ("AuthMethod", "PrivateKey", "Registration", "authenticate"),
            "_token_storage": ("FileTokenStorage", "MemoryTokenStorage"),
        },
    )  # fmt: skip
