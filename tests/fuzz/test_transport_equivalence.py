"""A random conversation over every transport, which must have the same outcome over each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.conversation_server import make_server
from tests.interaction.conftest import connected
from tests.interaction.over_http import OVER_SOCKETS
from tests.model.stage import examples
from trio_mcp import Client, ConnectionLost, ErrorResponse, StructureError, TrioMcpError, types

Step: TypeAlias = tuple[str, Any]
Outcome: TypeAlias = Any

TRANSPORTS = ("memory", "bytes", "stdio", "unix", "http", *OVER_SOCKETS)
PROGRAM = [str(Path(__file__).with_name("conversation_server.py"))]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(2**70), 2**70) | st.integers(-3, 3)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
counting = st.fixed_dictionaries({"steps": st.integers(0, 4), "then": st.sampled_from(["", "fail", "refuse"])})
calls = st.one_of(
    st.tuples(st.just("echo"), st.fixed_dictionaries({"value": values})),
    st.tuples(st.just("divide"), st.fixed_dictionaries({"a": st.integers(-9, 9), "b": st.integers(0, 3)})),
    st.tuples(st.just("shout"), st.fixed_dictionaries({"text": texts})),
    st.tuples(st.just("count"), counting),
    st.tuples(st.just("remember"), st.fixed_dictionaries({"value": values})),
    st.tuples(st.just("ask"), st.fixed_dictionaries({"question": texts})),
    st.tuples(st.sampled_from(["echo", "divide", "count", "nothing", "é"]), st.dictionaries(texts, values, max_size=2)),
)
uris = st.one_of(texts.map(lambda text: f"talk://{text}"), st.sampled_from(["talk://a/b", "talk://%2e", "x", ""]))
methods = st.sampled_from(
    ["example/x", "tools/call", "prompts/get", ""]
)  # a method that is not ASCII does not fit into an HTTP header
steps = st.one_of(
    st.tuples(st.just("call"), calls),
    st.tuples(st.just("together"), st.lists(calls.filter(lambda call: call[0] != "remember"), min_size=2, max_size=4)),
    st.tuples(st.just("leave"), st.none()),
    st.tuples(st.just("read"), uris),
    st.tuples(st.just("prompt"), st.dictionaries(st.sampled_from(["code", "style", "x"]), texts)),
    st.tuples(st.just("list"), st.sampled_from(["tools", "prompts", "resources"])),
    st.tuples(st.just("request"), st.tuples(methods, st.just({}))),
)


async def perform(client: Client, step: Step, received_progress: list[Any]) -> Outcome:
    """Perform one step; return its outcome without the parts that differ from run to run."""
    kind, what = step
    try:
        match kind:
            case "together":
                return await call_together(client, what, received_progress)
            case "leave":
                return await leave_early(client)
            case _:
                return shown(await ACTIONS[kind](client, what, received_progress))
    except ErrorResponse as error:
        return "error", error.code, error.message, error.data
    except ConnectionLost:
        raise
    except (TrioMcpError, ValueError) as error:
        return type(error).__name__, str(error) if isinstance(error, StructureError) else ""


async def call(client: Client, what: tuple[str, Any], received_progress: list[Any]) -> Any:
    name, arguments = what

    async def on_progress(progress: types.ProgressNotificationParams) -> None:
        await trio.lowlevel.checkpoint()
        received_progress.append((name, progress.progress, progress.total))

    return await client.call_tool(name, arguments, on_progress=on_progress)


async def read(client: Client, uri: str, _: object) -> Any:
    return await client.read_resource(uri)


async def prompt(client: Client, arguments: dict[str, str], _: object) -> Any:
    return await client.get_prompt("review", arguments)


async def listed(client: Client, what: str, _: object) -> Any:
    pages = {"tools": client.list_tools, "prompts": client.list_prompts, "resources": client.list_resources}
    return await pages[what](fresh=True)


async def request(client: Client, what: tuple[str, Any], _: object) -> Any:
    return await client.request(what[0], what[1], types.EmptyResult)


ACTIONS: dict[str, Callable[[Client, Any, list[Any]], Awaitable[Any]]] = {
    "call": call,
    "read": read,
    "prompt": prompt,
    "list": listed,
    "request": request,
}


async def call_together(client: Client, what: Sequence[Any], received_progress: list[Any]) -> Outcome:
    """Make several calls at once; their progress is recorded by call, each in its own order."""
    outcomes: list[Outcome] = [None] * len(what)
    progress_by_call: list[list[Any]] = [[] for _ in what]

    async def one(place: int) -> None:
        outcomes[place] = await perform(client, ("call", what[place]), progress_by_call[place])

    async with trio.open_nursery() as nursery:
        for place in range(len(what)):
            nursery.start_soon(one, place)
    received_progress += progress_by_call
    return outcomes


async def leave_early(client: Client) -> Outcome:
    async with client.open_call("hang") as hanging:
        async for update in hanging.updates:
            return update.progress
    return "ended"


def shown(result: Any) -> Any:
    shown: Any = types.unstructure(result)
    shown.pop("_meta", None)  # the server info, which is not compared
    return shown


async def everywhere(conversation: Sequence[Step], revision: str, folder: Path) -> dict[str, Any]:
    """Run a conversation over all transports at once; return the outcomes by transport."""
    found: dict[str, Any] = {}

    async def over(transport: str) -> None:
        received_progress: list[Any] = []
        questions: list[str] = []  # simultaneous calls ask in any order
        logged: list[str] = []

        async def on_elicit(
            request: types.ElicitRequestFormParams | types.ElicitRequestURLParams,
        ) -> types.ElicitResult:
            await trio.lowlevel.checkpoint()
            questions.append(request.message)
            answers = len(request.message) % 3
            content: dict[str, Any] = {"text": request.message, "number": answers}
            return (
                types.ElicitResult(action="accept", content=content)
                if answers
                else types.ElicitResult(action="decline")
            )

        async def on_log(message: types.LoggingMessageNotificationParams) -> None:
            await trio.lowlevel.checkpoint()
            logged.append(repr(message.data))

        options: Any = {"revision": revision, "on_elicit": on_elicit, "on_log": on_log}
        async with connected(transport, make_server, PROGRAM, folder, options) as client:
            outcomes = [await perform(client, step, received_progress) for step in conversation]
        found[transport] = {
            "outcomes": outcomes,
            "received_progress": received_progress,
            "questions": sorted(questions),
            "logged": sorted(logged),
        }

    async with trio.open_nursery() as nursery:
        for transport in TRANSPORTS:
            nursery.start_soon(over, transport)
    return found


@settings(
    max_examples=examples(6),
    deadline=None,
    phases=set(Phase) - {Phase.shrink, Phase.explain},  # each example takes a second
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(conversation=st.lists(steps, min_size=4, max_size=12), revision=st.sampled_from(types.REVISIONS))
def test_a_conversation_has_the_same_outcome_over_every_transport(
    conversation: list[Step], revision: str, tmp_path: Path
) -> None:
    found = trio.run(partial(everywhere, conversation, revision, tmp_path))

    for transport, outcome in found.items():
        assert outcome == found["memory"], transport
