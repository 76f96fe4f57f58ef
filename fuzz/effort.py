"""The effort of a function as a number that is the same on every machine: function calls, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["effort"]

_WATCHER = "atheris."
"""The prefix of the modules of atheris, whose calls at each branch do not count."""

P = ParamSpec("P")
T = TypeVar("T")


def effort(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
    """Call *function*; return its result and the number of calls of Python and C functions.

    A call of a C function counts as one, whatever the length of its argument. Quadratic time inside it is found by the
    time limit of the fuzzer for one input.
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
