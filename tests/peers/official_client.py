"""The official SDK's client as a player of plans, run by the interpreter of that SDK.

Each line of standard input is a JSON object: `mode` is the mode of the official `Client` ("auto", "legacy" or a modern
revision), `server` a URL or the command that starts the server, `steps` the steps of one connection, and
`auth` the authentication of the client: {} for a user who signs in, or the client's own credentials. Each plan gets a
line of standard output: the negotiated revision, the HTTP traffic and the outcome of each step; or the error. One
process plays many plans, because its start takes longest. This program checks nothing; the tests do.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import traceback
import warnings
from typing import Any

# By name, because type checkers run where the official SDK is not installed.
httpx2 = importlib.import_module("httpx2")
mcp = importlib.import_module("mcp")
official_authorization = importlib.import_module("official_authorization")
streamable_http = importlib.import_module("mcp.client.streamable_http")

TIMEOUT = 60  # seconds for a whole plan

LISTS = {
    "tools": "list_tools",
    "resources": "list_resources",
    "resource_templates": "list_resource_templates",
    "prompts": "list_prompts",
}
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Player:
    """A player of steps on an open client; `step["do"]` names a method of this class, the rest are its arguments."""

    def __init__(self) -> None:
        self.client: Any = None
        self.meta: dict[str, Any] | None = None
        self.questions: list[Any] = []
        self.given: dict[str, Any] = {}
        self.messages: list[Any] = []
        self.message_came = asyncio.Event()
        self.auth: Any = None

    async def on_log(self, message: Any) -> None:
        """Store a log message of the server."""
        self.messages.append(plain(message))
        self.message_came.set()

    def callbacks(self, plan: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the callbacks for the answers of the plan's first step; none if that step has no answers."""
        results = {
            "elicitation": mcp.types.ElicitResult,
            "sampling": mcp.types.CreateMessageResult,
            "list_roots": mcp.types.ListRootsResult,
        }

        def answering(name: str) -> Any:
            async def answer(_: Any, params: Any = None) -> Any:
                self.questions.append(None if params is None else plain(params))
                return results[name].model_validate(self.given[name])

            return answer

        names = [name for name in plan[0] if name != "do"] if plan and plan[0]["do"] == "answers" else []
        return {f"{name}_callback": answering(name) for name in names}

    async def answers(self, **given: Any) -> None:
        """Set the answers to the server's later questions."""
        self.given |= given

    async def received_questions(self) -> list[Any]:
        """Return the questions that the server has sent so far."""
        return list(self.questions)

    async def together(self, steps: list[dict[str, Any]]) -> list[Any]:
        """The outcomes of steps that run concurrently."""
        return await asyncio.gather(*map(self.play, steps))

    async def play(self, step: dict[str, Any]) -> Any:
        """The outcome of one step."""
        arguments = {name: value for name, value in step.items() if name != "do"}
        return await getattr(self, step["do"])(**arguments)

    async def tools(self) -> list[str]:
        """The names of the tools, in the server's order."""
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def resources(self) -> list[str]:
        """The URIs of the resources."""
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def prompts(self) -> list[str]:
        """The names of the prompts."""
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def pages(self, kind: str) -> list[Any]:
        """The pages of a list, from the first to the last."""
        pages: list[Any] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            page = await getattr(self.client, LISTS[kind])(cursor=cursor)
            pages.append(plain(page)[to_camel_case(kind)])
            cursor = page.next_cursor
        return pages

    async def page(self, kind: str, cursor: str) -> Any:
        """The page of a list at a cursor."""
        return plain(await getattr(self.client, LISTS[kind])(cursor=cursor))

    async def complete(self, ref: dict[str, str], name: str, value: str, resolved: dict[str, str] | None = None) -> Any:
        """The suggestions for an argument."""
        kinds = {"ref/prompt": mcp.types.PromptReference, "ref/resource": mcp.types.ResourceTemplateReference}
        result = await self.client.complete(kinds[ref["type"]](**ref), {"name": name, "value": value}, resolved)
        return plain(result)["completion"]

    async def log_level(self, level: str) -> None:
        """Request log messages: once for the whole connection, or, in a modern revision, with each later call."""
        if self.client.protocol_version >= "2026":
            self.meta = {LOG_LEVEL: level}
        else:
            await self.client.set_logging_level(level)

    async def logged(self, count: int) -> list[Any]:
        """Wait for *count* log messages and return them."""
        while len(self.messages) < count:
            self.message_came.clear()
            await self.message_came.wait()
        return self.messages

    async def age(self, seconds: float) -> None:
        """Make the client's token older by *seconds*."""
        self.auth.context.token_expiry_time -= seconds

    async def attempt(self, step: dict[str, Any]) -> Any:
        """The error of another step."""
        try:
            return {"answered": await self.play(step)}
        except mcp.MCPError as refused:
            return plain(refused.error)

    async def read(self, uri: str) -> Any:
        """The contents of one resource."""
        return plain(await self.client.read_resource(uri))["contents"]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """The messages of one prompt."""
        return plain(await self.client.get_prompt(name, arguments))["messages"]

    async def call(self, tool: str, arguments: dict[str, Any], cancel_after: int | None = None) -> dict[str, Any]:
        """Call a tool and record its progress; cancel the call at update number `cancel_after`, if one is given."""
        reports: list[list[Any]] = []

        async def listen(progress: float, total: float | None, message: str | None) -> None:
            reports.append([progress, total, message])
            if len(reports) == cancel_after:
                calling.cancel()

        calling = asyncio.ensure_future(
            self.client.call_tool(tool, arguments, progress_callback=listen, meta=self.meta)
        )
        await asyncio.wait([calling])
        cancelled = calling.cancelled()
        return {"result": None if cancelled else plain(calling.result()), "progress": reports, "cancelled": cancelled}


def to_camel_case(name: str) -> str:
    """The name of a member on the wire."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def plain(model: Any) -> Any:
    """The model in its form on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Traffic:
    """A record of the HTTP traffic, and the HTTP client that records it."""

    def __init__(self, auth: Any) -> None:
        self.requests: list[list[Any]] = []
        self.sessions: list[str] = []
        self.client = httpx2.AsyncClient(timeout=TIMEOUT, auth=auth, event_hooks={"response": [self.took]})

    async def took(self, response: Any) -> None:
        """Record a response: the method of the request, its last event id, and the status."""
        request = response.request
        self.requests.append([request.method, request.headers.get("last-event-id"), response.status_code])
        self.sessions += [response.headers["mcp-session-id"]] if "mcp-session-id" in response.headers else []


async def play(
    mode: str, server: str | list[str], steps: list[dict[str, Any]], auth: dict[str, str] | None
) -> dict[str, Any]:
    """Connect, play the whole plan, close, and return the report."""
    player = Player()
    if isinstance(server, str) and auth is not None:
        player.auth = official_authorization.provider(server, auth or None)
    traffic = Traffic(player.auth)
    if isinstance(server, str):
        target = streamable_http.streamable_http_client(server, http_client=traffic.client)
    else:
        target = mcp.StdioServerParameters(command=server[0], args=server[1:])
    callbacks = player.callbacks(steps)
    connecting = mcp.Client(target, mode=mode, logging_callback=player.on_log, **callbacks)
    async with asyncio.timeout(TIMEOUT), traffic.client, connecting as client:
        player.client = client
        outcomes = [await player.play(step) for step in steps]
        # A pinned modern client has sent no request yet and may not know the server's name.
        name = client.server_info.name if client.server_info else None
        report = {"revision": client.protocol_version, "server": name, "steps": outcomes}
    return report | {"requests": traffic.requests, "sessions": traffic.sessions}


def main() -> None:
    """Play one plan after the other."""
    warnings.simplefilter("ignore")  # the SDK deprecates the legacy era
    for line in sys.stdin:
        try:
            report = asyncio.run(play(**json.loads(line)))
        except BaseException:  # noqa: BLE001 # the test reports every error
            report = {"fault": traceback.format_exc()}
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
