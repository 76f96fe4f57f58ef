"""Large answers over stdio: a list of 200 tools, texts of 1 and 10 MB, and a blob of 10 MB."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..adapters.sides import Adapter
from ..adapters.tools import blob_text, dummy_name
from ..effort import Effort
from ..figures import percentile
from .connections import connected

__all__ = ["blob", "large", "listing", "text"]

T = TypeVar("T")

DUMMIES = 200
TEXT = 1_000_000
LARGE_TEXT = 10_000_000


async def listing(adapter: Adapter, name: str, era: str, effort: Effort) -> dict[str, float]:
    """List all tools, as objects of the client."""
    async with connected(adapter, name, era, "stdio", dummies=DUMMIES) as session:
        names, figures = await _repeated(session.tools, effort.repeats)
    if not {dummy_name(number) for number in range(DUMMIES)} < set(names):
        raise AssertionError(f"tools are missing: {names!r}")
    return figures


async def text(adapter: Adapter, name: str, era: str, effort: Effort) -> dict[str, float]:
    """Fetch one block of a million characters."""
    return await _fetched(adapter, name, era, effort.repeats, TEXT)


async def large(adapter: Adapter, name: str, era: str, effort: Effort) -> dict[str, float]:
    """Fetch one block of ten million characters, so often that the first few, which get their memory, do not count."""
    return await _fetched(adapter, name, era, 2 * effort.repeats, LARGE_TEXT)


async def _fetched(adapter: Adapter, name: str, era: str, repeats: int, size: int) -> dict[str, float]:
    async with connected(adapter, name, era, "stdio") as session:
        answer, figures = await _repeated(lambda: session.text(size), repeats)
    if answer != "x" * size:
        raise AssertionError(f"the text has {len(answer)} characters")
    return figures


async def blob(adapter: Adapter, name: str, era: str, effort: Effort) -> dict[str, float]:
    """Fetch one resource of 10 MiB, in base64."""
    async with connected(adapter, name, era, "stdio") as session:
        answer, figures = await _repeated(session.blob, max(1, effort.repeats // 3))
    if answer != blob_text():
        raise AssertionError(f"the blob has {len(answer)} characters")
    return figures


async def _repeated(ask: Callable[[], Awaitable[T]], repeats: int) -> tuple[T, dict[str, float]]:
    answer = await ask()  # the first one compiles the hooks of the later ones
    taken: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        answer = await ask()
        taken.append(time.perf_counter() - began)
    return answer, {"p50_ms": percentile(taken, 0.5) * 1e3, "max_ms": max(taken) * 1e3}
