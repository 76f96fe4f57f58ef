"""A chat with a language model that may use the tools of MCP servers: ``python chat_host.py [MCP_JSON]``.

The servers are those of MCP_JSON, by default ``mcp.json``, in the widespread form::

    {"mcpServers": {"sums": {"command": "python", "args": ["server.py"]}}}

The model is behind any endpoint that speaks OpenAI's chat completions (most providers, and programs that run models
on this machine). The environment says which:

    LLM_BASE_URL   such as https://api.openai.com/v1 or http://localhost:11434/v1
    LLM_MODEL      the model's name there
    LLM_API_KEY    a key, if the endpoint wants one
    LLM_ROUNDS     how often the model may use tools before it has to answer; 10 by default

No tool is called before you have agreed to the call, which is shown with its server and its arguments. Answer ``y``
to allow it; anything else refuses it, and is told to the model. Needs ``pip install trio-mcp httpx2``.
"""

import json
import logging
import os
import sys
from typing import Any

import httpx2
import trio
from attrs import define

from trio_mcp import Clients, open_clients
from trio_mcp.llm import ToolCall, Toolkit, load_toolkit

PATIENCE = httpx2.Timeout(10, read=300)  # seconds; a model may think for minutes before it says anything
INTERRUPTED = 130


class EndpointError(Exception):
    """The endpoint could not be reached, refused the request, or answered with something else than a message."""


@define
class Endpoint:
    """A model behind a chat-completions endpoint."""

    http: httpx2.AsyncClient
    model: str

    async def complete(self, messages: list[dict[str, Any]], functions: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the model's next message."""
        request: dict[str, Any] = {"model": self.model, "messages": messages}
        if functions:
            request["tools"] = functions  # some endpoints refuse an empty list
        try:
            response = await self.http.post("chat/completions", json=request)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise EndpointError(f"cannot be reached: {str(error) or type(error).__name__}") from None
        if not response.is_success:
            raise EndpointError(f"HTTP {response.status_code}: {shortened(response.text)}")
        try:
            message = response.json()["choices"][0]["message"]
            return {"role": "assistant", "content": message.get("content")} | (
                {"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {}
            )
        except (ValueError, LookupError, TypeError, AttributeError):
            raise EndpointError(f"answered with no message: {shortened(response.text)}") from None


class Terminal:
    """Lines from standard input, and a prompt before each. Waiting for one can be cancelled."""

    def __init__(self) -> None:
        self.waiting = b""
        self.ended = False

    async def ask(self, prompt: str) -> str | None:
        """Show *prompt* and return the next line, or None where the input has ended."""
        print(prompt, end="", flush=True)
        while b"\n" not in self.waiting and not self.ended:
            # Not input(): a thread left alone in it would hold up the end of the program.
            data = await trio.to_thread.run_sync(os.read, sys.stdin.fileno(), 4096, abandon_on_cancel=True)
            self.ended = not data
            self.waiting += data
        if not self.waiting:
            print()
            return None
        line, _, self.waiting = self.waiting.partition(b"\n")
        return line.decode(errors="replace").strip()

    async def approve(self, call: ToolCall) -> bool | str:
        """Ask whether the model may make this call."""
        print("The model asks for a tool:")
        print(f"  tool       {visible(call.tool.name)}")
        print(f"  server     {visible(str(call.server))}")
        print(f"  arguments  {json.dumps(call.arguments)}")  # as ASCII: nothing in it can pose as something else
        answer = await self.ask("Allow it? [y/N] ")
        return answer in {"y", "Y", "yes"} or answer or False


def visible(text: str) -> str:
    """Return *text* without what could make a terminal show something else than it says."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def shortened(text: str) -> str:
    """Return *text* on one line of bearable length."""
    return visible(" ".join(text.split()))[:500]


def complain(about: str) -> None:
    """Say one line on standard error."""
    print(f"chat_host: {about}", file=sys.stderr, flush=True)


async def answer(
    endpoint: Endpoint, toolkit: Toolkit, terminal: Terminal, messages: list[dict[str, Any]], rounds: int
) -> None:
    """Let the model answer the last of *messages*, with tools as often as it wants, up to *rounds* times."""
    for _ in range(rounds):
        message = await endpoint.complete(messages, toolkit.functions)
        if message["content"]:
            print(visible(str(message["content"])), flush=True)
        try:
            results = await toolkit.answer(message, approve=terminal.approve)
        except ValueError as error:
            raise EndpointError(str(error)) from None
        messages += [message, *results]
        if not results:
            return
    complain(f"stopped after {rounds} rounds of tools; say something to go on")


async def chat(clients: Clients, endpoint: Endpoint, rounds: int) -> None:
    """Talk until the input ends."""
    for name, failure in clients.failed.items():
        complain(f"server {visible(name)!r} is not there: {shortened(str(failure))}")
    toolkit = await load_toolkit(clients)
    print(f"{len(toolkit.functions)} tools of {len(clients)} servers: {', '.join(map(visible, clients))}")
    terminal = Terminal()
    messages: list[dict[str, Any]] = []
    while (line := await terminal.ask("> ")) is not None:
        if not line:
            continue
        messages.append({"role": "user", "content": line})
        try:
            await answer(endpoint, toolkit, terminal, messages, rounds)
        except EndpointError as error:
            complain(f"{endpoint.http.base_url} {error}")


async def main(path: str, base_url: str, model: str, key: str, rounds: int) -> None:
    """Connect to the servers and the endpoint."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(base_url=base_url, headers=headers, timeout=PATIENCE) as http,
        open_clients(path) as clients,
    ):
        await chat(clients, Endpoint(http, model), rounds)


def run() -> None:
    """Read the settings, and chat."""
    logging.basicConfig(level=logging.ERROR)  # what failed is said in `chat`
    path = sys.argv[1] if len(sys.argv) > 1 else "mcp.json"
    base_url, model = os.environ.get("LLM_BASE_URL", ""), os.environ.get("LLM_MODEL", "")
    rounds = os.environ.get("LLM_ROUNDS", "10")
    if not base_url or not model or not rounds.isdecimal() or rounds == "0":
        sys.exit("chat_host: set LLM_BASE_URL and LLM_MODEL; LLM_ROUNDS is a number above 0, if it is set")
    try:
        trio.run(main, path, base_url, model, os.environ.get("LLM_API_KEY", ""), int(rounds))
    except (OSError, ValueError, httpx2.InvalidURL) as error:
        sys.exit(f"chat_host: {error}")
    except KeyboardInterrupt:
        print()
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
