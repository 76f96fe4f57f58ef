"""Tools for tests: ours and the users'."""

from ._cancel import cancel_everywhere
from ._memory import open_memory_client

__all__ = ["cancel_everywhere", "open_memory_client"]
