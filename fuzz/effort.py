"""How much work something is, as a number that is the same on every machine: calls of functions, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["effort"]

_WATCHER = "atheris."
"""The modules whose functions atheris calls at each branch begin so; that counts for nothing."""

P = ParamSpec("P")
T = TypeVar("T")


def effort(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
    """Call *function*; return what it returns, and how many calls of Python and C functions that took.

    What one C function does to a text of any length is one call: time that grows as the square of the length there is
    found by the fuzzer's own limit for one input.
    """
    calls = 0

    def count(_frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" or (event == "c_call" and not str(argument.__module__).startswith(_WATCHER))

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        result = function(*args, **kwargs)
    finally:
        sys.setprofile(before)
    return result, calls
