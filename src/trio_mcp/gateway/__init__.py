"""A server that stands for many others: one endpoint, one list of tools, one set of credentials and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._gateway import Gateway as Gateway
    from ._mount import Share as Share
    from ._search import ToolSearch as ToolSearch
    from ._status import Upstream as Upstream
    from ._status import UpstreamStatus as UpstreamStatus
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_gateway": ("Gateway",),
            "_mount": ("Share",),
            "_search": ("ToolSearch",),
            "_status": ("Upstream", "UpstreamStatus"),
        },
    )  # fmt: skip
