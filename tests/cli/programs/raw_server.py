"""A scripted server of revision 2025-11-25: `python raw_server.py CONFIG`, where CONFIG is a JSON object.

Its members, all optional: "answers" (results by method), "errors" (messages by method), "notes" (notifications sent
before a call's result; PROGRESS stands for the call's progress token), "ask" (params of a question asked during a
call, whose answer is the result of the call), "withdraw" (the question is cancelled at once), "cancelled" (a file that
is written when a call is cancelled), "exit" (the exit status at a call, or after the notifications of "after"),
"after" (notifications sent after the answer, by method; ID stands for the id of the request; without an entry in
"answers", no answer is sent).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = json.loads(sys.argv[1])
INITIALIZE_RESULT = {
    "protocolVersion": "2025-11-25",
    "capabilities": CONFIG.get("capabilities", {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}),
    "serverInfo": {"name": "raw", "version": "0", **CONFIG.get("info", {})},
}
ANSWERS: dict[str, Any] = {
    "logging/setLevel": {},
    "initialize": INITIALIZE_RESULT,
    "tools/list": {"tools": [{"name": "book", "inputSchema": {"type": "object"}}]},
}
calls: list[Any] = []


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def call(message: dict[str, Any]) -> None:
    if "exit" in CONFIG:
        sys.exit(CONFIG["exit"])
    token = message["params"].get("_meta", {}).get("progressToken")
    for note in CONFIG.get("notes", []):
        send(**json.loads(json.dumps(note).replace('"PROGRESS"', json.dumps(token))))
    if "ask" in CONFIG:
        calls.append(message["id"])
        send(id="question", method="elicitation/create", params=CONFIG["ask"])
        if CONFIG.get("withdraw"):
            send(method="notifications/cancelled", params={"requestId": "question"})
            send(id=message["id"], result=text_result("never mind"))
    elif "cancelled" not in CONFIG:
        send(id=message["id"], result=CONFIG.get("answers", {}).get("tools/call", text_result("done")))


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "notifications/cancelled" and "cancelled" in CONFIG:
        Path(CONFIG["cancelled"]).write_text(json.dumps(message["params"]))
    elif method is None and calls:
        send(id=calls.pop(), result=text_result(json.dumps(message.get("result", message.get("error")))))
    elif "id" not in message:
        continue
    elif method in CONFIG.get("after", {}):
        if (known := CONFIG.get("answers", {}).get(method)) is not None:
            send(id=message["id"], result=known)
        for note in CONFIG["after"][method]:
            send(**json.loads(json.dumps(note).replace('"ID"', json.dumps(message["id"]))))
        if "exit" in CONFIG:
            sys.exit(CONFIG["exit"])
    elif method in CONFIG.get("errors", {}):
        send(id=message["id"], error={"code": -32000, "message": CONFIG["errors"][method]})
    elif method == "tools/call":
        call(message)
    elif (known := {**ANSWERS, **CONFIG.get("answers", {})}.get(method)) is not None:
        send(id=message["id"], result=known)
    else:
        send(id=message["id"], error={"code": -32601, "message": f"no {method}"})
