"""Every callback of users is documented where `help()` shows it: its signature, and an example that uses it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import get_origin

import pytest

from trio_mcp import Client, ClientOptions, Extension, OAuth, ResourceServer, Server, llm
from trio_mcp.testing import AuthorizationServerOptions

FACADES = ["trio_mcp", "trio_mcp.abc", "trio_mcp.client", "trio_mcp.llm", "trio_mcp.server", "trio_mcp.testing"]
SIGNATURES: Mapping[str, tuple[object, str]] = {
    "Around": (Server.tool, "async def around(context: Context, call: Callable[[], Awaitable[Any]]) -> Any:"),
    "CallTimeout": (llm.Toolkit.answer, "def timeout(call: ToolCall) -> float | None:"),
    "Approve": (llm.Toolkit.answer, "async def approve(call: ToolCall) -> bool | str:"),
    "Consent": (ClientOptions, "async def consent(request: Consentable) -> Consentable:"),
    "CustomHandler": (ClientOptions, "async def answer_ping(params: dict[str, Any]) -> dict[str, Any]:"),
    "Middleware": (Server, "async def middleware(request: Request, call_next: CallNext) -> Any:"),
    "OnElicit": (ClientOptions, "async def on_elicit(question: types.ElicitRequestParams) -> types.ElicitResult:"),
    "OnCallProgress": (
        llm.Toolkit.answer,
        "async def on_progress(call: ToolCall, update: types.ProgressNotificationParams) -> None:",
    ),
    "Only": (llm.load_toolkit, "def only(offer: OfferedTool) -> bool:"),
    "OnElicitComplete": (
        ClientOptions,
        "async def on_elicit_complete(visit: types.ElicitationCompleteNotificationParams) -> None:",
    ),
    "OnLog": (ClientOptions, "async def on_log(message: types.LoggingMessageNotificationParams) -> None:"),
    "OnProgress": (Client.call_tool, "async def on_progress(update: types.ProgressNotificationParams) -> None:"),
    "OnSample": (
        ClientOptions,
        "async def on_sample(question: types.CreateMessageRequestParams) -> types.CreateMessageResult:",
    ),
    "Resolve": (Extension, "async def resolve(client: Client, result: JsonObject) -> JsonObject:"),
    "Roots": (ClientOptions, "async def roots() -> list[types.Root]:"),
    "Tap": (ClientOptions, "def tap(direction: Direction, message: bytes) -> None:"),
    "the lifespan": (Server, "async def lifespan(server: Server) -> AsyncGenerator[Database]:"),
    "the report of stuck tasks": (Server, "def on_stuck(stuck: Sequence[StuckTask]) -> None:"),
    "the page of a sign-in": (OAuth, "async def show(url: str) -> None:"),
    "the browser of a sign-in": (OAuth, "async def visit(url: str) -> str:"),
    "a token verifier": (ResourceServer, "async def verify(self, token: str, fetch: Fetch) -> VerifiedToken:"),
    "the policy for tests": (AuthorizationServerOptions, "def policy(ask: AccessAsk) -> Iterable[str] | None:"),
    "the delay for tests": (AuthorizationServerOptions, "async def before(endpoint: Endpoint) -> None:"),
    "the faults for tests": (
        AuthorizationServerOptions,
        "def change(endpoint: Endpoint, members: dict[str, Any]) -> Mapping[str, Any]:",
    ),
}
"""The place and the signature of each callback, by its alias if it has one."""
FOR_AUTHORS_OF_TRANSPORTS = {"TransportOpener"}
PASSED_TO_CALLBACKS = {"CallNext"}


def is_callback(value: object) -> bool:
    """Return True for an alias of a function type, also if it is one of several possibilities."""
    if isinstance(value, str):
        return "Callable[" in value
    return get_origin(value) is get_origin(Callable[[], object])


def callbacks() -> Iterator[str]:
    for facade in FACADES:
        module = importlib.import_module(facade)
        for name in module.__all__:
            if is_callback(getattr(module, name)):
                yield name


def examples_in(thing: object) -> Iterator[str]:
    """Yield the programs in the docstring of a thing: the indented lines after a line that ends in two colons."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    for number, line in enumerate(lines, 1):
        if line.endswith("::"):
            program = takewhile(lambda each: not each or each.startswith("    "), lines[number:])
            yield textwrap.dedent("\n".join(program))


def test_every_alias_of_a_callback_has_its_signature_in_the_help_of_what_takes_it() -> None:
    assert {*callbacks()} - FOR_AUTHORS_OF_TRANSPORTS - PASSED_TO_CALLBACKS <= SIGNATURES.keys()
    assert {"OnElicit", "OnLog", "OnProgress", "OnSample", "Consent", "Middleware", "Tap"} <= {*callbacks()}


@pytest.mark.parametrize("callback", SIGNATURES)
def test_the_help_of_what_takes_a_callback_shows_its_signature_and_an_example(callback: str) -> None:
    taker, signature = SIGNATURES[callback]
    shown = pydoc.plain(pydoc.render_doc(taker))
    name = re.sub(r"(async )?def (\w+).*", r"\2", signature).replace("verify", "verifier")  # of an object

    assert signature in shown
    assert re.search(rf"\b{name}\b(?!\()", "".join(examples_in(taker))), "no example uses it"


@pytest.mark.parametrize("callback", SIGNATURES)
def test_the_examples_of_callbacks_are_valid_python(callback: str) -> None:
    taker, signature = SIGNATURES[callback]
    examples = [ast.unparse(ast.parse(example)) for example in examples_in(taker)]

    assert any(signature in example for example in examples)
