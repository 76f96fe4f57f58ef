"""A chat with a language model that may use the tools of MCP servers: ``python chat_host.py [MCP_JSON]``.

The program connects to the servers in MCP_JSON, by default ``mcp.json``, in the common format::

    {"mcpServers": {"sums": {"command": "python", "args": ["server.py"]}}}

The model may be at any endpoint with OpenAI's chat-completions API (most providers, and programs that run models
locally). Environment variables select it:

    LLM_BASE_URL   for example https://api.openai.com/v1 or http://localhost:11434/v1
    LLM_MODEL      the name of the model
    LLM_API_KEY    the API key, if the endpoint requires one
    LLM_ROUNDS     the number of rounds of tool calls per question; 10 by default

The program shows each call with its server and its arguments, and makes it only after your consent. Answer ``y`` to
allow the call; any other answer refuses the call and is sent to the model. Requires ``pip install trio-mcp httpx2``.
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

TIMEOUT = httpx2.Timeout(10, read=300)  # seconds; a model may take minutes before it responds
INTERRUPTED = 130


class EndpointError(Exception):
    """The endpoint is unreachable, refused the request, or returned a response without a message."""


@define
class Endpoint:
    """A model at a chat-completions endpoint."""

    http: httpx2.AsyncClient
    model: str

    async def complete(self, messages: list[dict[str, Any]], functions: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the next message of the model."""
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
            raise EndpointError(f"returned no message: {shortened(response.text)}") from None


class Terminal:
    """A reader of lines from standard input, with a prompt before each line; reading can be cancelled."""

    def __init__(self) -> None:
        self.waiting = b""
        self.ended = False

    async def ask(self, prompt: str) -> str | None:
        """Show *prompt* and return the next line; None at the end of the input."""
        print(prompt, end="", flush=True)
        while b"\n" not in self.waiting and not self.ended:
            # Not input(): a thread that is abandoned in input() would delay the exit of the program.
            data = await trio.to_thread.run_sync(os.read, sys.stdin.fileno(), 4096, abandon_on_cancel=True)
            self.ended = not data
            self.waiting += data
        if not self.waiting:
            print()
            return None
        line, _, self.waiting = self.waiting.partition(b"\n")
        return line.decode(errors="replace").strip()

    async def approve(self, call: ToolCall) -> bool | str:
        """Ask the user to allow a call of the model."""
        print("The model requests a tool call:")
        print(f"  tool       {visible(call.tool.name)}")
        print(f"  server     {visible(str(call.server))}")
        print(f"  arguments  {json.dumps(call.arguments)}")  # ASCII, so that no character can imitate another one
        answer = await self.ask("Allow it? [y/N] ")
        return answer in {"y", "Y", "yes"} or answer or False


def visible(text: str) -> str:
    """Return *text* with control characters and other unprintable characters escaped."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def shortened(text: str) -> str:
    """Return *text* as one line of limited length."""
    return visible(" ".join(text.split()))[:500]


def print_error(message: str) -> None:
    """Print one line on standard error."""
    print(f"chat_host: {message}", file=sys.stderr, flush=True)


async def answer(
    endpoint: Endpoint, toolkit: Toolkit, terminal: Terminal, messages: list[dict[str, Any]], rounds: int
) -> None:
    """Let the model answer the last of *messages*, with at most *rounds* rounds of tool calls."""
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
    print_error(f"stopped after {rounds} rounds of tool calls; enter a message to continue")


async def chat(clients: Clients, endpoint: Endpoint, rounds: int) -> None:
    """Chat until the input ends."""
    for name, failure in clients.failed.items():
        print_error(f"server {visible(name)!r} cannot be used: {shortened(str(failure))}")
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
            print_error(f"{endpoint.http.base_url} {error}")


async def main(path: str, base_url: str, model: str, key: str, rounds: int) -> None:
    """Connect to the servers and the endpoint."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(base_url=base_url, headers=headers, timeout=TIMEOUT) as http,
        open_clients(path) as clients,
    ):
        await chat(clients, Endpoint(http, model), rounds)


def run() -> None:
    """Read the settings and start the chat."""
    logging.basicConfig(level=logging.ERROR)  # `chat` reports failed servers
    path = sys.argv[1] if len(sys.argv) > 1 else "mcp.json"
    base_url, model = os.environ.get("LLM_BASE_URL", ""), os.environ.get("LLM_MODEL", "")
    rounds = os.environ.get("LLM_ROUNDS", "10")
    if not base_url or not model or not rounds.isdecimal() or rounds == "0":
        sys.exit("chat_host: set LLM_BASE_URL and LLM_MODEL; LLM_ROUNDS must be a positive number if it is set")
    try:
        trio.run(main, path, base_url, model, os.environ.get("LLM_API_KEY", ""), int(rounds))
    except (OSError, ValueError, httpx2.InvalidURL) as error:
        sys.exit(f"chat_host: {error}")
    except KeyboardInterrupt:
        print()
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
