"""The backends by which the processes of one service share state: in memory, in an SQLite file, and on Redis.

Each is an `abc.Shared`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._memory import MemoryShared as MemoryShared
    from ._redis import RedisShared as RedisShared
    from ._sqlite import SqliteShared as SqliteShared
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, {"_memory": ("MemoryShared",), "_redis": ("RedisShared",), "_sqlite": ("SqliteShared",)}
    )
