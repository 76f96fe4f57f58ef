"""An OAuth authorization server for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._http import OAuthError as OAuthError
    from ._options import AccessAsk as AccessAsk
    from ._options import AuthorizationRequest as AuthorizationRequest
    from ._options import AuthorizationServerOptions as AuthorizationServerOptions
    from ._options import KnownClient as KnownClient
    from ._server import AuthorizationServer as AuthorizationServer
    from ._server import open_authorization_server as open_authorization_server
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_http": ("OAuthError",),
            "_options": ("AccessAsk", "AuthorizationRequest", "AuthorizationServerOptions", "KnownClient"),
            "_server": ("AuthorizationServer", "open_authorization_server"),
        },
    )  # fmt: skip
