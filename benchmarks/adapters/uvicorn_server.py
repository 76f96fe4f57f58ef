"""The server of the SDKs that depend on uvicorn. It runs in their interpreters, never in that of this project."""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Callable
from typing import Any

__all__ = ["serve_asgi"]


def serve_asgi(app: Any, path: str, announce: Callable[[str], None]) -> None:
    """Serve an application on a free port until this process ends; *announce* is called with the URL."""
    # Imported by name, because the type checkers run where it is not installed.
    uvicorn = importlib.import_module("uvicorn")
    # The protocol is named because asyncio sends small answers at once only on sockets that name it.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        announce(f"http://127.0.0.1:{listening.getsockname()[1]}{path}")
        config = uvicorn.Config(app, log_level="error", loop="asyncio", http="h11")
        asyncio.run(uvicorn.Server(config).serve([listening]))
