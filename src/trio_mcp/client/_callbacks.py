"""What a server may ask of us: the application's callbacks, and the capabilities that follow from them.

A capability is declared when its callback is given, not otherwise.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from attrs import frozen

from .. import types

__all__ = ["Callbacks", "OnElicit", "OnLog", "OnSample", "Roots"]

OnElicit: TypeAlias = Callable[
    [types.ElicitRequestFormParams | types.ElicitRequestURLParams], Awaitable[types.ElicitResult]
]
"""Asks the user what the server wants to know."""
OnSample: TypeAlias = Callable[[types.CreateMessageRequestParams], Awaitable[types.CreateMessageResult]]
"""Asks the host's model what the server wants it to say."""
OnLog: TypeAlias = Callable[[types.LoggingMessageNotificationParams], Awaitable[None]]
"""Takes one log message of the server."""
Roots: TypeAlias = "Sequence[types.Root] | Callable[[], Awaitable[Sequence[types.Root]]]"
"""The folders and files a server may care about; a function is asked each time."""


@frozen(kw_only=True)
class Callbacks:
    """What the application answers. Each runs in a task of the connection, and is cancelled with the question."""

    on_elicit: OnElicit | None = None
    on_sample: OnSample | None = None
    roots: Roots | None = None
    on_log: OnLog | None = None

    def capabilities(self) -> types.ClientCapabilities:
        """Return what a handshake declares."""
        return types.ClientCapabilities(
            elicitation=None if self.on_elicit is None else types.ElicitationCapability(form={}),
            sampling=None if self.on_sample is None else types.SamplingCapability(),
            roots=None if self.roots is None else types.RootsCapability(list_changed=True),
        )

    async def listed_roots(self) -> Sequence[types.Root]:
        """Return the roots as they are now."""
        assert self.roots is not None
        return await self.roots() if callable(self.roots) else self.roots
