"""The questions that a handler can ask the client: forms, pages to visit, samplings of its model, and its roots.

Each question is an `Ask`: it has a method and params, names the capability that the client needs for it, and reads the
client's answer. `Elicit` and `Visit` go to the user of the client (`Context.elicit`), `Sample` and `ListRoots` to the
client itself.

Specifications: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation and
https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
"""

from __future__ import annotations

import abc
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from attrs import evolve, field, frozen

from ... import types
from ..._errors import McpError, MissingCapability, StructureError
from ..._other_sdks import ForeignAttributes
from ...peer import ExchangeContext
from ...wire import INVALID_PARAMS, JsonObject, is_object, sampling_content, sampling_faults
from ..signature import ArgumentFaults
from ._forms import form_of

__all__ = [
    "WITH_ELICITATION",
    "WITH_MODES",
    "Accepted",
    "Ask",
    "Declined",
    "Dismissed",
    "Elicit",
    "ListRoots",
    "Sample",
    "Visit",
    "missing",
    "structured",
    "url_elicitation_required",
]

WITH_ELICITATION = "2025-06-18"
"""The first revision with elicitation."""
WITH_MODES = "2025-11-25"
"""The first revision with elicitation by URL, and with tools in sampling."""

T = TypeVar("T")
A_co = TypeVar("A_co", covariant=True)


class Ask(abc.ABC, Generic[A_co]):
    """One question to the client. Its type parameter is the type of the answer that the handler gets."""

    method: str
    """The method of the request to the client, such as ``"elicitation/create"``."""
    key: str | None
    """The name of the question, if its params do not identify it; see `Context.elicit`."""

    @abc.abstractmethod
    def params(self, revision: str) -> JsonObject:
        """Return the params of the request, as JSON in the protocol revision *revision*.

        Raises:
            MissingCapability: the revision cannot express them.
        """

    @abc.abstractmethod
    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Return the error that names the capability the client would have to declare; None if it has declared it.

        The server calls this before it sends the question.

        Args:
            context: the revision and the capabilities of the client.
        """

    @abc.abstractmethod
    def read(self, answer: Any, revision: str) -> A_co:
        """Return the value for the handler. The server calls this with the answer of the client.

        Args:
            answer: the JSON of the answer, which has not been checked.
            revision: the protocol revision of the answer.

        Raises:
            McpError: the client is at fault: the answer is invalid.
        """


def structured(answer: Any, cls: type[T], revision: str) -> T:
    """Return an answer as an instance of *cls*; raises `McpError` with every fault if it does not fit."""
    try:
        return types.structure(answer, cls, revision=revision)
    except StructureError as exc:
        raise McpError(INVALID_PARAMS, f"the answer does not fit: {'; '.join(exc.faults)}") from None


def missing(
    context: ExchangeContext,
    name: str,
    member: str | None = None,
    *,
    since: str = types.REVISIONS[0],
    bare_means: bool = False,
) -> MissingCapability | None:
    """Return the error that names a missing capability of the client; None if the client has declared it.

    Args:
        name: the capability.
        member: the member of the capability that is needed; None if the capability alone is enough.
        since: the first revision that has it.
        bare_means: True if a capability without any member stands for this member.
    """
    needed = name if member is None else f"{name}.{member}"
    required: JsonObject = {name: {} if member is None else {member: {}}}
    if context.revision < since:
        return MissingCapability(f"the client cannot be asked: revision {context.revision} has no {needed!r}", required)
    declared = context.capabilities.get(name)
    if is_object(declared) and (member is None or member in declared or (bare_means and not _modes(declared))):
        return None
    return MissingCapability(f"the client cannot be asked: it has not declared {needed!r}", required)


def _modes(declared: JsonObject) -> bool:
    return "form" in declared or "url" in declared


# --- Elicitation: questions to the user ---

URL_ELICITATION_REQUIRED = -32042
"""The error code of 2025-11-25 for "visit these pages first"; no other revision has it."""

_WITH_IDS = "2025-11-25"
"""The only revision in which an elicitation by URL has an id of its own."""


@frozen
class Accepted(ForeignAttributes, Generic[T]):
    """The user answered."""

    value: T
    """The content of the form, as an instance of the requested class; None for a visit to a page."""


@frozen
class Declined(ForeignAttributes):
    """The user declined."""


@frozen
class Dismissed(ForeignAttributes):
    """The user closed the question without an answer."""


@frozen
class Elicit(Ask["Accepted[T] | Declined | Dismissed"]):
    """A question to the user: a form to fill in; see `Context.elicit`."""

    message: str
    """The sentence that the user reads."""
    form: type[T] | Mapping[str, Any]
    """The form: a class whose attributes are the fields, or the JSON Schema of an object."""
    key: str | None = field(default=None, kw_only=True)
    """The name of the question, if its params do not identify it; None by default."""
    method: str = field(default="elicitation/create", init=False)

    def params(self, revision: str) -> JsonObject:
        """Return the message and the schema of the form, as the revision writes them."""
        mode = {} if revision < WITH_MODES else {"mode": "form"}
        return {**mode, "message": self.message, "requestedSchema": form_of(self.form).requested_schema(revision)}

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Return an error unless the client can show forms; see `Ask.lacking`."""
        return missing(context, "elicitation", "form", since=WITH_ELICITATION, bare_means=True)

    def read(self, answer: Any, revision: str) -> Accepted[T] | Declined | Dismissed:
        """Return the decision of the user, and the content of the form; see `Ask.read`.

        Raises:
            McpError: the content does not fit the form.
        """
        declined = _not_accepted(answer, revision)
        if declined is not None:
            return declined
        content: Any = answer.get("content")
        try:
            value: Any = form_of(self.form).load({} if content is None else content)
        except ArgumentFaults as exc:
            faults = "; ".join(fault.replace("$", "$.content", 1) for fault in exc.faults)
            raise McpError(INVALID_PARAMS, f"the answer does not fit the form: {faults}") from None
        return Accepted(value)


@frozen
class Visit(Ask["Accepted[None] | Declined | Dismissed"]):
    """A request that the user visit a page, for data that must not pass through the client; see `Context.elicit`."""

    message: str
    """The sentence that the user reads."""
    url: str
    """The URL of the page, with https or http. Other URLs raise `ValueError`."""
    elicitation_id: str = field(factory=lambda: secrets.token_urlsafe(16), kw_only=True)
    """The id of the visit, with which `Context.elicitation_complete` tells the client that it is done. By default it is
    random."""
    key: str | None = field(default=None, kw_only=True)
    """The name of the question, if its params do not identify it; None by default."""
    method: str = field(default="elicitation/create", init=False)

    def __attrs_post_init__(self) -> None:
        if not is_web_address(self.url):
            raise ValueError(f"url={self.url!r} is not the address of a page: begin it with 'https://' and a host")

    def params(self, revision: str) -> JsonObject:
        """Return the message, the URL and, if the revision has it, the id."""
        id = {"elicitationId": self.elicitation_id} if revision == _WITH_IDS else {}
        return {"mode": "url", "message": self.message, "url": self.url, **id}

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Return an error unless the client can open pages; see `Ask.lacking`."""
        return missing(context, "elicitation", "url", since=WITH_MODES)

    def read(self, answer: Any, revision: str) -> Accepted[None] | Declined | Dismissed:
        """Return the decision of the user; see `Ask.read`."""
        return _not_accepted(answer, revision) or Accepted(None)


def is_web_address(text: str) -> bool:
    """Return True if *text* is the address of a page that a browser can open."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and bool(parts.hostname) and text.isprintable() and " " not in text


def url_elicitation_required(visits: Sequence[Visit], revision: str) -> Exception:
    """Return the error that lists the pages that the user must visit before the client repeats the request."""
    if revision != _WITH_IDS:
        return MissingCapability(
            f"revision {revision} has no error that lists pages to visit", {"elicitation": {"url": {}}}
        )
    listed = [visit.params(revision) for visit in visits]
    text = "; ".join(f"{visit.message} ({visit.url})" for visit in visits)
    return McpError(URL_ELICITATION_REQUIRED, f"visit these pages first: {text}", {"elicitations": listed})


def _not_accepted(answer: Any, revision: str) -> Declined | Dismissed | None:
    action = structured(answer, types.ElicitResult, revision).action
    if action == "accept":
        return None
    return Declined() if action == "decline" else Dismissed()


# --- Questions to the client itself: its model and its roots ---


def _conversation(
    messages: str | types.SamplingMessage | Sequence[types.SamplingMessage],
) -> Sequence[types.SamplingMessage]:
    if isinstance(messages, str):
        messages = types.SamplingMessage(role="user", content=types.TextContent(text=messages))
    return [messages] if isinstance(messages, types.SamplingMessage) else list(messages)


@frozen
class Sample(Ask["types.CreateMessageResult"]):
    """A request for a completion by the client's model; see `Context.sample`."""

    messages: Sequence[types.SamplingMessage] = field(converter=_conversation)
    """The conversation: messages, one message, or a string as the only message of the user."""
    max_tokens: int = field(kw_only=True)
    """The number of tokens after which the model stops."""
    system_prompt: str | None = field(default=None, kw_only=True)
    """Instructions for the model, which the client may change; None for none."""
    temperature: float | None = field(default=None, kw_only=True)
    """The randomness of the model, in its own scale; None leaves it to the client."""
    stop_sequences: Sequence[str] | None = field(default=None, kw_only=True)
    """The strings at which the model stops; None for none."""
    model_preferences: types.ModelPreferences | None = field(default=None, kw_only=True)
    """The kind of model that the server prefers; the client chooses."""
    metadata: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """JSON for the provider of the model; None for none."""
    tools: Sequence[types.Tool] | None = field(default=None, kw_only=True)
    """The tools that the model may call; None for none. The server runs the calls, and asks again with the results."""
    tool_choice: types.ToolChoice | None = field(default=None, kw_only=True)
    """The rule that the model may, must or must not call a tool; None leaves it to the model."""
    key: str | None = field(default=None, kw_only=True)
    """The name of the question, if its params do not identify it; None by default."""
    method: str = field(default="sampling/createMessage", init=False)

    def params(self, revision: str) -> JsonObject:
        """Return the conversation, as the revision writes it."""
        return _params(self, revision)

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Return an error unless the client has a model, which can use tools if there are any; see `Ask.lacking`."""
        if self.tools is not None or self.tool_choice is not None:
            return missing(context, "sampling", "tools", since=WITH_MODES)
        return missing(context, "sampling")

    def read(self, answer: Any, revision: str) -> types.CreateMessageResult:
        """Return the completion; see `Ask.read`."""
        return structured(answer, types.CreateMessageResult, revision)


@frozen
class ListRoots(Ask["Sequence[types.Root]"]):
    """A request for the folders and files that the client works on; see `Context.list_roots`."""

    key: str | None = field(default=None, kw_only=True)
    """The name of the question, if its params do not identify it; None by default."""
    method: str = field(default="roots/list", init=False)

    def params(self, revision: str) -> JsonObject:  # noqa: ARG002 # the same in every revision
        """Return no params."""
        return {}

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Return an error unless the client has roots; see `Ask.lacking`."""
        return missing(context, "roots")

    def read(self, answer: Any, revision: str) -> Sequence[types.Root]:
        """Return the roots; see `Ask.read`."""
        return structured(answer, types.ListRootsResult, revision).roots


def _params(sample: Sample, revision: str) -> JsonObject:
    """Return the params of a sampling request.

    Raises:
        ValueError: the messages use tools in a way that every client rejects.
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
        raise StructureError("conversation of this revision", faults)
    return carried
