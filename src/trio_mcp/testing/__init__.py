"""Tools for the tests of this package and of its users.

Each name is imported on first use, so that pytest does not load the whole package when it loads the plugin. The plugin
is described in `trio_mcp.testing.pytest_plugin`; nothing else here needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._asgi import AsgiEngine as AsgiEngine
    from ._asgi import AsgiNetwork as AsgiNetwork
    from ._contract import TransportContract as TransportContract
    from ._contract import broken_clauses as broken_clauses
    from ._contract import check_contract as check_contract
    from ._contract import contract_server as contract_server
    from ._contract_remote import RemoteTransportContract as RemoteTransportContract
    from ._contract_remote import StreamContract as StreamContract
    from ._contract_shared import SharedContract as SharedContract
    from ._faults import Fault as Fault
    from ._faults import FaultyStream as FaultyStream
    from ._faults import cancel_everywhere as cancel_everywhere
    from ._faults import cut as cut
    from ._faults import delay as delay
    from ._faults import duplicate as duplicate
    from ._faults import open_memory_client as open_memory_client
    from ._faults import reorder as reorder
    from ._faults import rewrite as rewrite
    from ._faults import stall as stall
    from ._recorder import WireMessage as WireMessage
    from ._recorder import WireRecorder as WireRecorder
    from ._script import ScriptedPeer as ScriptedPeer
    from ._script import open_scripted_client as open_scripted_client
    from ._script import open_scripted_server as open_scripted_server
    from .authorization_server import AccessAsk as AccessAsk
    from .authorization_server import AuthorizationRequest as AuthorizationRequest
    from .authorization_server import AuthorizationServer as AuthorizationServer
    from .authorization_server import AuthorizationServerOptions as AuthorizationServerOptions
    from .authorization_server import KnownClient as KnownClient
    from .authorization_server import OAuthError as OAuthError
    from .authorization_server import open_authorization_server as open_authorization_server
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_asgi": ("AsgiEngine", "AsgiNetwork"),
            "_contract": ("TransportContract", "broken_clauses", "check_contract", "contract_server"),
            "_contract_remote": ("RemoteTransportContract", "StreamContract"),
            "_contract_shared": ("SharedContract",),
            "_faults": (
                "Fault", "FaultyStream", "cancel_everywhere", "cut", "delay", "duplicate", "open_memory_client",
                "reorder", "rewrite", "stall",
            ),
            "_recorder": ("WireMessage", "WireRecorder"),
            "_script": ("ScriptedPeer", "open_scripted_client", "open_scripted_server"),
            "authorization_server": (
                "AccessAsk", "AuthorizationRequest", "AuthorizationServer", "AuthorizationServerOptions",
                "KnownClient", "OAuthError", "open_authorization_server",
            ),
        },
    )  # fmt: skip
