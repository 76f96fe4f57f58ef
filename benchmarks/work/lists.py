"""The tools of many servers, as a gateway lists them: the time to the last byte of the answer.

The client only looks for the end of the line, because what a client makes of the bytes is measured by `payloads`.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import IO, Any

from ..adapters.sides import Adapter
from ..adapters.tools import dummy_name
from ..effort import Effort
from ..figures import percentile
from .connections import stdio_command

__all__ = ["many"]

TOOLS = 2000
INFO = {"name": "bench", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}


async def many(_: Adapter, name: str, era: str, effort: Effort) -> dict[str, float]:
    """List all tools; the first list, for which the gateway asks the servers, is not measured."""
    return _measured(name, era, effort)  # it waits for nothing else


def _measured(name: str, era: str, effort: Effort) -> dict[str, float]:
    with subprocess.Popen(stdio_command(name, TOOLS), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if era == "2025":
            _answer(process.stdin, process.stdout, "initialize", INITIALIZE)
            _send(process.stdin, {"method": "notifications/initialized"})
        params = {} if era == "2025" else {"_meta": META}
        taken: list[float] = []
        answer = _answer(process.stdin, process.stdout, "tools/list", params)
        for _ in range(effort.repeats):
            began = time.perf_counter()
            answer = _answer(process.stdin, process.stdout, "tools/list", params)
            taken.append(time.perf_counter() - began)
        process.stdin.close()
    listed = [tool["name"] for tool in json.loads(answer)["result"]["tools"]]
    if listed != [dummy_name(number) for number in range(TOOLS)]:
        raise AssertionError(f"tools are missing: {listed!r}")
    return {"p50_ms": percentile(taken, 0.5) * 1e3, "max_ms": max(taken) * 1e3}


def _answer(to: IO[bytes], back: IO[bytes], method: str, params: dict[str, Any]) -> bytes:
    """Send a request; return the next line that is an answer, not a notification."""
    _send(to, {"id": 1, "method": method, "params": params})
    while True:
        line = back.readline()
        if b'"id":1' in line[:100] or b'"id":1' in line[-100:]:
            return line
        if not line:
            raise AssertionError("the gateway has ended")


def _send(to: IO[bytes], message: dict[str, Any]) -> None:
    to.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    to.flush()
