"""A server of revision 2025-11-25 that lists its tools in an unusual way: `python unusual_lister.py HOW`.

HOW is `exits` (after the first page), `lists once` (and exits at the next request), `recovers` (refuses once), `hangs`,
`repeats` (a name), `floods the log` (refuses with a long message of several lines), or `toolless`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

(HOW,) = sys.argv[1:]


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


def answers() -> dict[str, list[dict[str, Any]]]:
    refusal = {"error": {"code": -32603, "message": "not now"}}
    return {
        "exits": [{"result": {"tools": [tool("first")], "nextCursor": "2"}}],
        "lists once": [{"result": {"tools": [tool("first")]}}],
        "recovers": [refusal, {"result": {"tools": [tool("first")]}}],
        "repeats": [{"result": {"tools": [tool("twice", "the first"), tool("twice", "the second")]}}],
        "floods the log": [{"error": {"code": -32603, "message": "no\nERROR all is lost \x1b[2J" + "!" * 2000}}],
        "toolless": [],
        "hangs": [],
    }


pages = answers()[HOW]
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    answer: dict[str, Any] = {"error": {"code": -32601, "message": "unknown"}}
    if request["method"] == "initialize":
        capabilities: dict[str, Any] = {} if HOW == "toolless" else {"tools": {}}
        info = {"name": HOW, "version": "1"}
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}}
    elif request["method"] == "tools/list":
        if HOW == "hangs":
            sys.stderr.write("tools/list received\n")
            sys.stderr.flush()
            continue
        if not pages:
            sys.stderr.write("out of pages\n")
            sys.exit(4)
        answer = pages.pop(0)
    elif request["method"] == "tools/call":
        answer = {"result": {"content": []}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\n")
    sys.stdout.flush()
