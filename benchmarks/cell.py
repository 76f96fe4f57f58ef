"""The program of one cell: it does one piece of work with one adapter in a fresh process, and prints the figures.

::

    python -m benchmarks.cell WORK ADAPTER ERA EFFORT

EFFORT is a JSON object, see `effort.py`. It is run by the interpreter that has the SDK, and uses the standard library.
"""

from __future__ import annotations

import importlib
import json
import sys
from functools import partial
from typing import Any

from .adapters.choose import choose
from .effort import Effort

__all__ = ["parts_of"]

WORKS = {
    "stdio": ("calls", "stdio"),
    "waiting": ("calls", "waiting"),
    "memory": ("calls", "memory"),
    "http": ("calls", "http"),
    "websocket": ("calls", "websocket"),
    "hop": ("calls", "stdio"),
    "hop-large": ("payloads", "large"),
    "hop-lists": ("lists", "many"),
    "list": ("payloads", "listing"),
    "text": ("payloads", "text"),
    "blob": ("payloads", "blob"),
    "storm": ("notifications", "storm", "stdio"),
    "http-storm": ("notifications", "storm", "http"),
    "first": ("notifications", "first", "stdio"),
    "http-first": ("notifications", "first", "http"),
    "cancel": ("notifications", "cancel", "stdio"),
    "http-cancel": ("notifications", "cancel", "http"),
    "clients": ("sessions", "clients"),
    "idle": ("sessions", "idle"),
    "growth": ("growth", "calls"),
    "cycles": ("growth", "cycles"),
    "tasks": ("tasks", "tasks"),
    "service": ("services", "sharing"),
    "service-forwarded": ("services", "forwarded"),
    "service-four": ("services", "many"),
    "service-change": ("services", "change", "redis"),
    "service-change-sqlite": ("services", "change", "sqlite"),
}
"""The function of each work, and its transport. A number at the end of its name is the number of calls in flight."""


def parts_of(work: str) -> tuple[Any, ...]:
    """Return the module and the function of a work, and what the function gets in addition."""
    name, _, in_flight = (work, "", "") if work in WORKS else work.rpartition("-")
    return (*WORKS[name], int(in_flight)) if in_flight else WORKS[name]


def main() -> None:
    """Do the work, and print the figures as a JSON object."""
    work, adapter, era, effort = sys.argv[1:]
    module, function, *more = parts_of(work)
    do = getattr(importlib.import_module(f"benchmarks.work.{module}"), function)
    chosen = choose(adapter)
    figures = chosen.loop.run(partial(do, chosen, adapter, era, Effort(**json.loads(effort)), *more))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
