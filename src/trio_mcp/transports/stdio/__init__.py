"""The stdio transport: child processes for clients, standard input and output for servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._client import StdioServer as StdioServer
    from ._client import kill_group as kill_group
    from ._client import stdio_transport as stdio_transport
    from ._descendants import DescendantMark as DescendantMark
    from ._pipes import ImmediateStream as ImmediateStream
    from ._server import claim_stdio as claim_stdio
    from ._stderr import StderrTarget as StderrTarget
    from ._stderr import check_stderr as check_stderr
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_client": ("StdioServer", "kill_group", "stdio_transport"),
            "_descendants": ("DescendantMark",),
            "_pipes": ("ImmediateStream",),
            "_server": ("claim_stdio",),
            "_stderr": ("StderrTarget", "check_stderr"),
        },
    )  # fmt: skip
