"""Tools of the everything server that ask the user, the client's model or the client for its roots during a call.

The scenarios call those named `test_input_required_*` in 2026-07-28 and the others in earlier revisions; each works in
both. The keys are those that the scenarios expect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import attrs
import msgspec

from trio_mcp import Accepted, Ask, Context, Declined, Dismissed, Elicit, ListRoots, Sample, types

T = TypeVar("T")


@attrs.frozen
class Name:
    name: str


@attrs.frozen
class Color:
    color: str


@attrs.frozen
class Confirmation:
    ok: bool


@attrs.frozen
class Background:
    context: str


@attrs.frozen
class Account:
    username: Annotated[str, msgspec.Meta(description="The name to log in with")]
    email: Annotated[str, msgspec.Meta(description="Where to write to")]


@attrs.frozen
class Person:
    """A member of every kind with a default."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


def _titled(*values: str) -> list[dict[str, str]]:
    return [{"const": value, "title": f"The {value}"} for value in values]


CHOICES: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": _titled("value1", "value2", "value3")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": _titled("value1", "value2", "value3")}},
    },
}
"""Every form of a choice, including the deprecated one, which no class can express."""


async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    return f"LLM response: {_words(await ctx.sample(prompt, max_tokens=100))}"


async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user for an account."""
    return _outcome(await ctx.elicit(message, Account))


async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a default for every member."""
    return _outcome(await ctx.elicit("Please look through these values", Person))


async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask for choices of every kind."""
    return _outcome(await ctx.elicit("Please choose", CHOICES))


async def test_missing_capability(ctx: Context) -> str:
    """Need the client's model; a client that has not declared sampling gets an error."""
    return _words(await ctx.sample("Say something", max_tokens=10))


async def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask: the response may hold notifications, but no request."""
    await ctx.report_progress(1, total=2)
    return _outcome(await ctx.elicit("Shall we go on?", Confirmation))


async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask the user for a name."""
    match await ctx.elicit("What is your name?", Name, key="user_name"):
        case Accepted(value=given):
            return f"Hello, {given.name}!"
        case Declined() | Dismissed():
            return "Hello, whoever you are!"


async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model for a capital."""
    return _words(await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question"))


async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    return f"The roots are {', '.join(root.uri for root in await ctx.list_roots(key='client_roots'))}"


async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a confirmation; the tool returns only if the state came back unchanged."""
    await ctx.elicit("Please confirm", Confirmation, key="confirm")
    return "state-ok"


async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask three things at once."""
    name, greeting, roots = await ctx.ask_all(
        Elicit("What is your name?", Name, key="user_name"),
        Sample("Generate a greeting", max_tokens=50, key="greeting"),
        ListRoots(key="client_roots"),
    )
    return f"{_outcome(name)}; {_words(greeting)}; {len(roots)} roots"


async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask two things, one after the other."""
    name = await ctx.elicit("Step 1: What is your name?", Name, key="step1")
    color = await ctx.elicit("Step 2: What is your favorite color?", Color, key="step2")
    return f"{_outcome(name)}; {_outcome(color)}"


async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation; the server refuses a changed state before it runs this tool again."""
    return _outcome(await ctx.elicit("Please confirm", Confirmation, key="confirm"))


async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask for exactly the capabilities that the client has declared in this request."""
    declared, asks = ctx.client_capabilities, list[Ask[Any]]()
    if declared.elicitation is not None:
        asks.append(Elicit("What is your name?", Name, key="user_name"))
    if declared.sampling is not None:
        asks.append(Sample("Generate a greeting", max_tokens=50, key="greeting"))
    if declared.roots is not None:
        asks.append(ListRoots(key="client_roots"))
    answers = await ctx.ask_all(*asks) if asks else ()
    return f"Asked {len(answers)} things"


async def personal_prompt(ctx: Context) -> str:
    """Ask the user for the topic of the prompt."""
    match await ctx.elicit("What context should the prompt use?", Background, key="user_context"):
        case Accepted(value=given):
            return f"Use this context: {given.context}"
        case Declined() | Dismissed():
            return "Use no context."


ASKING_TOOLS = (
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_missing_capability,
    test_streaming_elicitation,
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_tampered_state,
    test_input_required_result_capabilities,
)


def _words(answer: types.CreateMessageResult) -> str:
    content = answer.content
    return content.text if isinstance(content, types.TextContent) else "(no text)"


def _outcome(answer: Accepted[T] | Declined | Dismissed) -> str:
    """Return the action and the content of the answer in the terms of the protocol."""
    match answer:
        case Accepted(value=value):
            content = json.dumps(value, default=attrs.asdict)
            return f"Elicitation completed: action=accept, content={content}"
        case Declined():
            return "Elicitation completed: action=decline"
        case Dismissed():
            return "Elicitation completed: action=cancel"
