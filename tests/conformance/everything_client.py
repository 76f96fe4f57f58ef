"""The client that the conformance suite tests: it performs the action that each scenario observes.

Usage, from the root of the project: ``python -m tests.conformance.everything_client URL``. The suite names the scenario
and the revision in the environment; the exit status is 0 on success. The client negotiates the revision as usual.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, Unpack

import trio

from tests.conformance.everything_authorized import act_for
from trio_mcp import Client, ClientOptions, SkillChanged, open_http_client, types

SECONDS = 50
"""The suite terminates a shell instead of this process, so this process ends by a timeout."""
MODERN = "2026-07-28"

Act: TypeAlias = Callable[[str], Awaitable[None]]
"""A function that takes the URL of the server."""

MINIMAL: Mapping[str, Any] = {
    "array": [],
    "boolean": True,
    "integer": 1,
    "null": None,
    "number": 1,
    "object": {},
    "string": "text",
}
"""A value of each type."""


@asynccontextmanager
async def connected(url: str, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
    """Open a client and check that it has negotiated the revision of the scenario."""
    async with open_http_client(url, **options) as client:
        expected = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
        if (client.revision == MODERN) != (expected == MODERN):
            raise RuntimeError(f"the server speaks {expected}, and the client {client.revision}")
        yield client


async def initialize(url: str) -> None:
    """Ask a server that declares nothing."""
    async with connected(url) as client:
        await client.request("tools/list", {}, types.ListToolsResult)


async def list_tools(url: str) -> None:
    async with connected(url) as client:
        await client.list_tools()


async def tools_call(url: str) -> None:
    async with connected(url) as client:
        await client.list_tools()
        await client.call_tool("add_numbers", {"a": 5, "b": 3}, raise_on_error=True)


async def elicitation_defaults(url: str) -> None:
    """Accept a form without filling it in."""

    async def accept(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="accept", content={})

    async with connected(url, on_elicit=accept, apply_form_defaults=True) as client:
        await client.call_tool("test_client_elicitation_defaults", raise_on_error=True)


async def sse_retry(url: str) -> None:
    async with connected(url) as client:
        await client.list_tools()
        await client.call_tool("test_reconnection", raise_on_error=True)


async def request_metadata(url: str) -> None:
    """Declare everything, and ask a server that declares nothing."""

    async def decline(_: object) -> types.ElicitResult:
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="decline")

    async def answer_sampling(_: object) -> types.CreateMessageResult:
        await trio.lowlevel.checkpoint()
        return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(text="nothing"))

    async with connected(url, on_elicit=decline, on_sample=answer_sampling, roots=[]) as client:
        await client.request("tools/list", {}, types.ListToolsResult)
        await client.request("tools/call", {"name": "anything", "arguments": {}}, types.CallToolResult)


async def standard_headers(url: str) -> None:
    """Send one request of every kind that has a name."""
    async with connected(url) as client:
        async for tool in client.tools():
            await client.call_tool(tool.name)
        async for resource in client.resources():
            await client.read_resource(resource.uri)
        async for prompt in client.prompts():
            await client.get_prompt(prompt.name)


async def custom_headers(url: str) -> None:
    """Make the calls that the scenario asks for, word for word."""
    context: Any = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    async with connected(url) as client:
        await client.list_tools()
        for call in context["toolCalls"]:
            await client.call_tool(call["name"], call["arguments"], raise_on_error=True)


async def invalid_tool_headers(url: str) -> None:
    """Call every tool that the client accepts."""
    async with connected(url) as client:
        async for tool in client.tools():
            await client.call_tool(tool.name, minimal_arguments(tool.input_schema))


async def rounds(url: str) -> None:
    """Answer questions that arrive in results, and make another call meanwhile."""

    async def confirm(_: object) -> types.ElicitResult:
        await client.call_tool("test_mrtr_unrelated", raise_on_error=True)
        return types.ElicitResult(action="accept", content={"confirmed": True})

    async with connected(url, on_elicit=confirm) as client:
        await client.list_tools()
        for name in ("test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_no_result_type"):
            await client.call_tool(name, raise_on_error=True)


async def schema_preservation(url: str) -> None:
    """Send a schema back unchanged."""
    async with connected(url) as client:
        tools = {tool.name: tool async for tool in client.tools()}
        schema = tools["json_schema_2020_12_tool"].input_schema
        await client.call_tool("json_schema_echo", {"schema": schema}, raise_on_error=True)


async def list_skills(url: str) -> None:
    """List the skills, and read none of their files."""
    async with connected(url) as client:
        assert [skill.name async for skill in client.skills()]


async def read_a_changed_skill(url: str) -> None:
    """Try to read a skill that is not what its entry says; the other files must not be read then."""
    async with connected(url) as client:
        async for skill in client.skills():
            try:
                await skill.read()
            except SkillChanged:
                return
        raise AssertionError("the skill was read although it was changed")


SCENARIOS: Mapping[str, Act] = {
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": invalid_tool_headers,
    "http-standard-headers": standard_headers,
    "initialize": initialize,
    "json-schema-2020-12-preservation": schema_preservation,
    "json-schema-ref-no-deref": list_tools,
    "request-metadata": request_metadata,
    "sep-2322-client-request-state": rounds,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": read_a_changed_skill,
    "sep-2640-client-verify-frontmatter": read_a_changed_skill,
    "sep-2640-client-verify-size": read_a_changed_skill,
    "sse-retry": sse_retry,
    "tools_call": tools_call,
}


def minimal_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each member that an input schema requires."""
    properties: Any = schema.get("properties", {})
    return {name: MINIMAL[properties[name]["type"]] for name in schema.get("required", ())}


async def run(act: Act, url: str) -> None:
    """Run the action with a timeout."""
    with trio.fail_after(SECONDS):
        await act(url)


def main() -> None:
    """Run the scenario that the environment names."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    if name.startswith("auth/"):
        act = act_for(name)
    elif name in SCENARIOS:
        act = SCENARIOS[name]
    else:
        sys.exit(f"{name}: there is no such scenario here")
    trio.run(run, act, sys.argv[-1])


if __name__ == "__main__":
    main()
