"""Services of several processes: any of them takes any request, whichever has the session or the waiting handler.

The processes find each other through an `abc.Shared` backend (`MemoryShared`, `SqliteShared`, `RedisShared`), and are
connected directly. `serve_http(server, shared=...)` makes a process one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._node import Node as Node
    from ._node import open_node as open_node
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, {"_node": ("Node", "open_node")})
