"""Tools for tests: ours and the users'.

Names only, each imported from its home when it is first used: a pytest that finds this package's plugin among others
must not load the whole of it. The plugin is described in `trio_mcp.testing.pytest_plugin`; nothing else here needs
pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._asgi_bridge import AsgiEngine as AsgiEngine
    from ._asgi_network import AsgiNetwork as AsgiNetwork
    from ._authorization_http import OAuthError as OAuthError
    from ._authorization_open import open_authorization_server as open_authorization_server
    from ._authorization_options import AccessAsk as AccessAsk
    from ._authorization_options import AuthorizationRequest as AuthorizationRequest
    from ._authorization_options import AuthorizationServerOptions as AuthorizationServerOptions
    from ._authorization_options import KnownClient as KnownClient
    from ._authorization_server import AuthorizationServer as AuthorizationServer
    from ._cancel import cancel_everywhere as cancel_everywhere
    from ._contract import TransportContract as TransportContract
    from ._contract_remote import RemoteTransportContract as RemoteTransportContract
    from ._contract_remote import StreamContract as StreamContract
    from ._contract_run import broken_clauses as broken_clauses
    from ._contract_run import check_contract as check_contract
    from ._contract_server import contract_server as contract_server
    from ._faults import Fault as Fault
    from ._faults import FaultyStream as FaultyStream
    from ._faults import cut as cut
    from ._faults import delay as delay
    from ._faults import duplicate as duplicate
    from ._faults import reorder as reorder
    from ._faults import rewrite as rewrite
    from ._faults import stall as stall
    from ._memory import open_memory_client as open_memory_client
    from ._recorder import WireMessage as WireMessage
    from ._recorder import WireRecorder as WireRecorder
    from ._script import ScriptedPeer as ScriptedPeer
    from ._script import open_scripted_client as open_scripted_client
    from ._script import open_scripted_server as open_scripted_server

_HOMES = {
    "_asgi_bridge": ("AsgiEngine",),
    "_asgi_network": ("AsgiNetwork",),
    "_authorization_http": ("OAuthError",),
    "_authorization_open": ("open_authorization_server",),
    "_authorization_options": ("AccessAsk", "AuthorizationRequest", "AuthorizationServerOptions", "KnownClient"),
    "_authorization_server": ("AuthorizationServer",),
    "_cancel": ("cancel_everywhere",),
    "_contract": ("TransportContract",),
    "_contract_remote": ("RemoteTransportContract", "StreamContract"),
    "_contract_run": ("broken_clauses", "check_contract"),
    "_contract_server": ("contract_server",),
    "_faults": ("Fault", "FaultyStream", "cut", "delay", "duplicate", "reorder", "rewrite", "stall"),
    "_memory": ("open_memory_client",),
    "_recorder": ("WireMessage", "WireRecorder"),
    "_script": ("ScriptedPeer", "open_scripted_client", "open_scripted_server"),
}
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
