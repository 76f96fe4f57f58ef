"""Questions to the client itself: its model, and its roots.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from .. import types
from .._errors import MissingCapability, StructureError
from ..peer import ExchangeContext
from ..wire import JsonObject, sampling_content, sampling_faults
from ._ask import WITH_MODES, Ask, missing, structured

__all__ = ["ListRoots", "Sample"]


def _conversation(
    messages: str | types.SamplingMessage | Sequence[types.SamplingMessage],
) -> Sequence[types.SamplingMessage]:
    if isinstance(messages, str):
        messages = types.SamplingMessage(role="user", content=types.TextContent(text=messages))
    return [messages] if isinstance(messages, types.SamplingMessage) else list(messages)


@frozen
class Sample(Ask["types.CreateMessageResult"]):
    """A question to the client's model; see `Context.sample`."""

    messages: Sequence[types.SamplingMessage] = field(converter=_conversation)
    max_tokens: int = field(kw_only=True)
    system_prompt: str | None = field(default=None, kw_only=True)
    temperature: float | None = field(default=None, kw_only=True)
    stop_sequences: Sequence[str] | None = field(default=None, kw_only=True)
    model_preferences: types.ModelPreferences | None = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] | None = field(default=None, kw_only=True)
    tools: Sequence[types.Tool] | None = field(default=None, kw_only=True)
    tool_choice: types.ToolChoice | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True)
    method: str = field(default="sampling/createMessage", init=False)

    def params(self, revision: str) -> JsonObject:
        """Return the conversation, in the terms of the revision."""
        return _params(self, revision)

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """It must have a model, and one that can use tools where there are any."""
        if self.tools is not None or self.tool_choice is not None:
            return missing(context, "sampling", "tools", since=WITH_MODES)
        return missing(context, "sampling")

    def read(self, answer: Any, revision: str) -> types.CreateMessageResult:
        """Return what the model said."""
        return structured(answer, types.CreateMessageResult, revision)


@frozen
class ListRoots(Ask["Sequence[types.Root]"]):
    """The question which folders and files the client is about; see `Context.list_roots`."""

    key: str | None = field(default=None, kw_only=True)
    method: str = field(default="roots/list", init=False)

    def params(self, revision: str) -> JsonObject:  # noqa: ARG002 # the same in every revision
        """There are none."""
        return {}

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """It must have roots."""
        return missing(context, "roots")

    def read(self, answer: Any, revision: str) -> Sequence[types.Root]:
        """Return the roots."""
        return structured(answer, types.ListRootsResult, revision).roots


def _params(sample: Sample, revision: str) -> JsonObject:
    """Return the params of a question to the client's model.

    Raises:
        ValueError: the messages use tools in a way that no client accepts.
        StructureError: the revision cannot carry a message.
    """
    params = types.CreateMessageRequestParams(
        messages=_in_revision(sample.messages, revision),
        max_tokens=sample.max_tokens,
        system_prompt=sample.system_prompt,
        temperature=sample.temperature,
        stop_sequences=sample.stop_sequences,
        model_preferences=sample.model_preferences,
        metadata=None if sample.metadata is None else dict(sample.metadata),
        tools=sample.tools,
        tool_choice=sample.tool_choice,
    )
    json: JsonObject = types.unstructure(params, revision=revision)
    if faults := list(sampling_faults(json["messages"])):
        raise ValueError(f"the messages cannot be sent: {'; '.join(faults)}")
    return json


def _in_revision(messages: Sequence[types.SamplingMessage], revision: str) -> list[types.SamplingMessage]:
    carried: list[types.SamplingMessage] = []
    faults: list[str] = []
    for index, message in enumerate(messages):
        try:
            carried.append(evolve(message, content=sampling_content(message.content, revision)))
        except ValueError as fault:
            faults.append(f"$.messages[{index}].content: {fault}")
    if faults:
        raise StructureError("conversation that the client can be sent", faults)
    return carried
