"""A gateway in front of the server that the conformance suite tests; the suite tests both together.

Usage, from the root of the project: ``python -m tests.conformance.everything_gateway --port N [--to URL]``. Without
``--to`` the server is a child process. The endpoint is ``http://127.0.0.1:N/mcp``, for every revision; SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import trio

from trio_mcp import MemoryEventStore, SessionSettings, serve_http
from trio_mcp.gateway import Gateway

CHILD = [sys.executable, "-m", "tests.conformance.everything_server", "--stdio"]


def make_gateway(url: str | None) -> Gateway:
    """Return the gateway.

    Args:
        url: the endpoint of the server; None to start one as a child process.
    """
    gateway = Gateway("gateway", version="1.0")
    gateway.mount(CHILD if url is None else url, name="everything")
    return gateway


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--to", metavar="URL")
    options = parser.parse_args(arguments)
    sessions = SessionSettings(event_store=MemoryEventStore())
    trio.run(partial(serve_http, make_gateway(options.to), port=options.port, sessions=sessions))


if __name__ == "__main__":
    main()
