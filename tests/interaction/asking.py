"""Clients of the asking server, and helpers that answer questions round by round."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import pytest
import trio
from attrs import define, field

from tests.interaction.asking_server import HOURS, Mode, make_server, program
from tests.interaction.conftest import over_unix_socket
from tests.interaction.over_bridges import OVER_BRIDGES
from tests.interaction.over_http import IN_PROCESS, over_http
from tests.interaction.scripted_peers import ENVELOPE, MODERN
from trio_mcp import Client, ClientOptions, Server, open_client, types
from trio_mcp.testing import open_memory_client

Json: TypeAlias = dict[str, Any]

ASKING_TRANSPORTS = ("memory", "bytes", "stdio", "unix", *IN_PROCESS, *OVER_BRIDGES)
MODES: Sequence[Mode] = ("parked", "replayed")
WITH_ELICITATION = types.REVISIONS[2:]

everywhere = pytest.mark.parametrize("where", ASKING_TRANSPORTS)
in_virtual_time = pytest.mark.parametrize("where", ["memory", "bytes", *IN_PROCESS])
in_both_modes = pytest.mark.parametrize("mode", MODES)
LEGACY = types.REVISIONS[:-1]
PAGE = "https://example.com/pay"
in_all_legacy = pytest.mark.parametrize("revision", LEGACY)
with_elicitation = pytest.mark.parametrize("revision", WITH_ELICITATION)
in_both_eras = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])

CAPABLE: Json = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
"""The `_meta` of a modern request from a client that declares forms."""

ROOTS = [types.Root(uri="file:///home")]
TWO = types.ElicitResult(action="accept", content={"count": 2})
FINE = types.CreateMessageResult(role="assistant", model="m", content=types.TextContent(text="fine"))


def serve(handler: Callable[..., Any], mode: Mode = "parked") -> Server:
    """Return a server with one tool, `work`."""
    server = Server("s", asking=mode)
    server.tool(name="work")(handler)
    return server


async def work(client: Client) -> types.CallToolResult:
    return await client.call_tool("work")


async def visited(_: object) -> types.ElicitResult:
    await trio.lowlevel.checkpoint()
    return types.ElicitResult(action="accept")


async def accept_two(_: object) -> types.ElicitResult:
    """Accept every question to the user with the count 2."""
    await trio.lowlevel.checkpoint()
    return TWO


async def answer_sampling(_: object) -> types.CreateMessageResult:
    """Answer every sampling request."""
    await trio.lowlevel.checkpoint()
    return FINE


async def never_answer(_: object) -> Any:
    """Never answer, like an absent user."""
    await trio.sleep_forever()


def capable(**options: Unpack[ClientOptions]) -> ClientOptions:
    """Return the options of a client that declares every capability and answers every question."""
    defaults: ClientOptions = {
        "revision": MODERN,
        "on_elicit": accept_two,
        "on_sample": answer_sampling,
        "roots": ROOTS,
    }
    return {**defaults, **options}


@asynccontextmanager
async def asking(
    where: str,
    folder: Path,
    *,
    mode: Mode = "parked",
    ask_seconds: float = HOURS,
    keys: Sequence[bytes] = (),
    **options: Unpack[ClientOptions],
) -> AsyncGenerator[Client]:
    """Open a client of the asking server that answers every question; a timeout bounds the block."""
    given = capable(**options)
    opening: AbstractAsyncContextManager[Client]
    if where == "stdio":
        opening = open_client([sys.executable, *program(mode, ask_seconds, keys)], **given)
    else:
        server = make_server(mode, ask_seconds, keys)
        if where == "unix":
            opening = over_unix_socket(server, folder, given)
        elif where in IN_PROCESS:
            opening = over_http(where, server, given)
        elif where in OVER_BRIDGES:
            opening = OVER_BRIDGES[where](server, given)
        else:
            opening = (open_client if where == "memory" else open_memory_client)(server, **given)
    takes_real_time = where in {"stdio", "unix", *OVER_BRIDGES}
    with trio.fail_after(60 if takes_real_time else 100 * HOURS):  # the others may have a test's clock
        async with opening as client:
            yield client


async def attempt(
    client: Client,
    name: str,
    arguments: Json | None = None,
    *,
    answers: Mapping[str, Any] | None = None,
    state: str | None = None,
    capabilities: types.ClientCapabilities | None = None,
    meta: Json | None = None,
) -> types.CallToolResult | types.InputRequiredResult:
    """Call a tool once."""
    call = client.open_call(
        name,
        arguments,
        manual_input=True,
        input_responses=answers,
        request_state=state,
        capabilities=capabilities,
        meta=meta,
    )
    async with call as open_call:
        return await open_call.result()


@define(eq=False)
class Round:
    """The questions that answer a call."""

    _client: Client
    _name: str
    _arguments: Json | None
    interim: types.InputRequiredResult

    @property
    def keys(self) -> list[str]:
        """The keys of the questions."""
        return list(self.interim.input_requests or {})

    @property
    def messages(self) -> list[str]:
        """The messages of the questions."""
        requests = (self.interim.input_requests or {}).values()
        return sorted(each.params.message for each in requests if isinstance(each, types.ElicitRequest))

    @property
    def state(self) -> str:
        assert self.interim.request_state is not None
        return self.interim.request_state

    def answers(self, answer: types.ElicitResult = TWO) -> dict[str, types.ElicitResult]:
        """Return the given answer for each question."""
        return dict.fromkeys(self.keys, answer)

    async def retry(self, answers: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Send the retry; by default every question is answered."""
        given = self.answers() if answers is None else answers
        more.setdefault("state", self.state)
        return await attempt(more.pop("client", self._client), self._name, self._arguments, answers=given, **more)

    async def next_round(self, answers: Mapping[str, Any] | None = None, **more: Any) -> Round:
        """Send a retry that is answered with questions."""
        return self._next(await self.retry(answers, **more))

    def _next(self, outcome: Any) -> Round:
        assert isinstance(outcome, types.InputRequiredResult), outcome
        return Round(self._client, self._name, self._arguments, outcome)


async def first_round(client: Client, name: str, arguments: Json | None = None, **more: Any) -> Round:
    """Call a tool that asks."""
    outcome = await attempt(client, name, arguments, **more)
    assert isinstance(outcome, types.InputRequiredResult), outcome
    return Round(client, name, arguments, outcome)


def text(result: Any) -> str:
    """Return the text of a tool's result."""
    assert isinstance(result, types.CallToolResult), result
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def success_text(result: Any) -> str:
    """Return the text of a tool's result, which must not be an error."""
    assert isinstance(result, types.CallToolResult), result
    assert not result.is_error, result
    return text(result)


async def count_of(client: Client, what: str) -> int:
    result = await client.call_tool("count_of", {"what": what})
    return int(success_text(result))


async def happens(client: Client, event: str) -> None:
    """Wait until the event has happened in the server."""
    await client.call_tool("when", {"event": event})


@define(eq=False)
class Wire:
    """A tap that keeps every message."""

    messages: list[tuple[str, Json]] = field(factory=list[tuple[str, Json]])

    def __call__(self, direction: str, message: bytes) -> None:
        self.messages.append((direction, json.loads(message)))

    def received(self, method: str) -> list[Json]:
        """Return the params of every message of this method that came from the server."""
        return [
            message.get("params", {})
            for direction, message in self.messages
            if direction == "received" and message.get("method") == method
        ]

    def sent(self, method: str) -> list[Json]:
        """Return the params of every message of this method that went to the server."""
        return [
            message.get("params", {})
            for direction, message in self.messages
            if direction == "sent" and message.get("method") == method
        ]

    @property
    def requests_received(self) -> list[str]:
        """Return the methods of the requests that the server sent."""
        return [
            message["method"]
            for direction, message in self.messages
            if direction == "received" and "method" in message and "id" in message
        ]
