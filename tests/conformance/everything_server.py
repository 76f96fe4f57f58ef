"""The server that the conformance suite tests: it offers everything that the scenarios call, over Streamable HTTP.

Usage, from the root of the project: ``python -m tests.conformance.everything_server --port N [--asking replayed]
[--under hypercorn]``. The endpoint is ``http://127.0.0.1:N/mcp``, for every revision; SIGTERM ends it. With ``--stdio``
in place of ``--port N`` it serves the gateway that has started it.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import hypercorn.trio
import trio
from hypercorn.config import Config

from tests.conformance.everything_asking import ASKING_TOOLS, personal_prompt
from tests.conformance.everything_content import CONTENT_TOOLS, add_prompts, add_resources
from tests.conformance.everything_control import CONTROL_TOOLS
from tests.conformance.everything_tasks import TASK_SETTINGS, add_task_tools
from trio_mcp import Context, MemoryEventStore, Server, SessionSettings, SqliteShared, http_app, serve_http, serve_stdio
from trio_mcp.transports import AsgiApp

Asking = Literal["parked", "replayed"]
SKILLS = Path(__file__).parent / "skills"

JSON_SCHEMA_2020_12 = """{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"}
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": false
}"""


def make_server(asking: Asking = "parked", *, is_one_of_several: bool = False) -> Server:
    """Return the server. Its first tool needs no arguments, because some scenarios call the first tool of the list."""
    server = Server("everything", version="1.0", asking=asking, tasks=TASK_SETTINGS)
    for tool in (*CONTENT_TOOLS, *CONTROL_TOOLS, *ASKING_TOOLS):
        server.tool(tool)
    server.tool(input_schema=JSON_SCHEMA_2020_12)(json_schema_2020_12_tool)
    add_resources(server)
    add_prompts(server)
    server.prompt(name="test_input_required_result_prompt")(personal_prompt)
    _add_changes(server, is_one_of_several=is_one_of_several)
    add_task_tools(server)
    server.skills.add_directory(SKILLS)
    return server


def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Accept the arguments that a schema of JSON Schema 2020-12 allows."""
    return f"Got {', '.join(sorted(arguments))}"


def _add_changes(server: Server, *, is_one_of_several: bool) -> None:
    """Add the tools that change a list; a second call of each undoes what the first has done.

    In a service of several processes the first call undoes it as well, so that all of them have the same lists.
    """

    @server.tool
    async def test_trigger_tool_change(ctx: Context) -> str:
        """Add a tool, or remove it again, which notifies the listening clients."""
        _toggle(server.tools, "test_passing_tool")
        await trio.lowlevel.checkpoint()
        if is_one_of_several:
            _toggle(server.tools, "test_passing_tool")
        return f"The list of tools has changed, in revision {ctx.revision}"

    @server.tool
    async def test_trigger_prompt_change(ctx: Context) -> str:
        """Add a prompt, or remove it again, which notifies the listening clients."""
        _toggle(server.prompts, "test_passing_prompt")
        await trio.lowlevel.checkpoint()
        if is_one_of_several:
            _toggle(server.prompts, "test_passing_prompt")
        return f"The list of prompts has changed, in revision {ctx.revision}"


def _toggle(entries: Any, name: str) -> None:
    """Add an entry to the tools or the prompts of a server, or remove it if it is there."""
    try:
        entries.remove(name)
    except KeyError:
        entries.add(_passing, name=name)


def _passing() -> str:
    """Exist for a moment."""
    return "still here"


async def serve_under_hypercorn(app: AsgiApp, port: int) -> None:
    """Serve an application in Hypercorn's own Trio worker until SIGTERM."""
    serve: Any = vars(hypercorn.trio)["serve"]  # its type hints are incomplete
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        await serve(app, config, shutdown_trigger=signals.__anext__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int)
    where.add_argument("--stdio", action="store_true")
    parser.add_argument("--asking", choices=("parked", "replayed"), default="parked")
    parser.add_argument("--shared", type=Path, help="a file by which several of them are one service")
    parser.add_argument("--under", choices=("serve_http", "hypercorn"), default="serve_http")
    options = parser.parse_args(arguments)
    server = make_server(cast("Asking", options.asking), is_one_of_several=options.shared is not None)
    sessions = SessionSettings(event_store=MemoryEventStore())
    if options.stdio:
        trio.run(serve_stdio, server)
    elif options.under == "hypercorn":
        trio.run(serve_under_hypercorn, http_app(server, sessions=sessions), options.port)
    else:
        shared = None if options.shared is None else SqliteShared(options.shared)
        trio.run(partial(serve_http, server, port=options.port, sessions=sessions, shared=shared))


if __name__ == "__main__":
    main()
