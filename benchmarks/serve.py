"""The server of a cell that needs another process.

::

    python -m benchmarks.serve ADAPTER stdio|http DUMMIES

Over HTTP the first line of its output is its URL, and it serves until it is terminated.
"""

from __future__ import annotations

import sys

from .adapters.choose import choose

__all__: list[str] = []


def announce(url: str) -> None:
    """Print the URL for the process that waits for it."""
    sys.stdout.write(url + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve with an adapter."""
    name, transport, dummies = sys.argv[1:]
    adapter = choose(name)
    server = adapter.server(int(dummies))
    if transport == "stdio":
        adapter.serve_stdio(server)
    else:
        adapter.serve_http(server, announce)


if __name__ == "__main__":
    main()
