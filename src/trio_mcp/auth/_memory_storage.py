"""A token storage that ends with the process.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#token-theft
"""

from __future__ import annotations

import trio
from attrs import define, field

__all__ = ["MemoryTokenStorage"]


@define(eq=False)
class MemoryTokenStorage:
    """Keeps tokens for as long as it lives; an `abc.TokenStorage`."""

    _values: dict[str, str] = field(factory=dict[str, str], init=False, repr=False)

    async def load(self, key: str) -> str | None:
        """Return the value of a key, None where there is none."""
        await trio.lowlevel.checkpoint()
        return self._values.get(key)

    async def swap(self, key: str, old: str | None, new: str | None) -> bool:
        """Set the value of a key to *new*, if it is *old* now; return whether it was."""
        await trio.lowlevel.checkpoint()
        if self._values.get(key) != old:
            return False
        if new is None:
            self._values.pop(key, None)
        else:
            self._values[key] = new
        return True
