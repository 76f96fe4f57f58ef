"""How the SDKs that come with uvicorn are served: run by their own interpreters, never imported by ours."""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Callable
from typing import Any

__all__ = ["serve_asgi"]


def serve_asgi(app: Any, path: str, announce: Callable[[str], None]) -> None:
    """Serve an application on a port that is free, until this process is ended; *announce* is given the URL."""
    # By name, because the checkers of this file run where it is not installed.
    uvicorn = importlib.import_module("uvicorn")
    # The protocol is named because asyncio sends small answers at once only on sockets that name it.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        announce(f"http://127.0.0.1:{listening.getsockname()[1]}{path}")
        config = uvicorn.Config(app, log_level="error", loop="asyncio", http="h11")
        asyncio.run(uvicorn.Server(config).serve([listening]))
