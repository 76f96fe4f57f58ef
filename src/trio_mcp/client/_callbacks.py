"""The application's callbacks: the capabilities that follow from them, and their answers to a server's questions.

Rules of this file:

1. A capability is declared if its callback is given, and not otherwise.
2. The consent hook sees every tool call before it is sent and every question before it is asked. It may edit or refuse
   it.
3. Both sides use only the capabilities that were negotiated.
4. An answer to a form is checked against the form before it is sent.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation,
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#operation,
https://modelcontextprotocol.io/specification/2026-07-28#security-and-trust-safety
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, Union

from attrs import Attribute, define, evolve, field, frozen

from .. import types
from .._errors import ConsentRefused, LocalProtocolError, McpError, MissingCapability, StructureError
from .._misuse import called_back, check_class, check_parameters
from .._util import own_cancellation
from ..schema import SchemaError, compile_schema
from ..wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonObject,
    NotJsonError,
    copy_json,
    is_object,
    sampling_content,
    sampling_faults,
)

__all__ = [
    "FORMS_ONLY",
    "IDEMPOTENT",
    "Callbacks",
    "Consent",
    "Consentable",
    "ElicitMode",
    "OnElicit",
    "OnElicitComplete",
    "OnLog",
    "OnSample",
    "Replies",
    "Roots",
    "call_with_consent",
    "check_declared",
    "checked_answer",
    "declaration",
    "undeclared_capability",
    "with_consent",
]

_log = logging.getLogger("trio_mcp.client")

# --- Consent ---

Consentable: TypeAlias = Union[
    "types.CallToolRequestParams", "types.CreateMessageRequestParams", "types.ElicitRequestParams"
]
"""The requests that consent is asked for: a tool call of this program, or a question of the server."""
Consent: TypeAlias = Callable[[Consentable], Awaitable[Consentable]]
"""A hook that returns the request as it may proceed, the same or edited; it raises `ConsentRefused` to refuse it."""

C = TypeVar("C", bound=Consentable)


async def with_consent(consent: Consent | None, request: C) -> C:
    """Return the request that may proceed in place of *request*; without a hook, *request* itself.

    Raises:
        ConsentRefused: the hook has refused the request.
        TypeError: the hook has returned something else than a request of the same class.
    """
    if consent is None:
        return request
    with own_cancellation("the consent hook", _log):
        allowed = await called_back("consent", consent, request)
    if type(allowed) is not type(request):
        raise TypeError(
            f"consent must return the {type(request).__name__} that may proceed, and returned {allowed!r:.200}"
        )
    return allowed


async def call_with_consent(consent: Consent, params: JsonObject | None, revision: str) -> JsonObject:
    """Return the params of a tool call as it may proceed.

    Raises:
        ConsentRefused: the hook has refused the call.
        LocalProtocolError: *params* is not JSON, or not that of a tool call.
    """
    try:
        shown = copy_json(params)  # a copy, because the caller may change its object while the hook runs
        call = types.structure(shown, types.CallToolRequestParams)
    except NotJsonError as exc:
        raise LocalProtocolError(f"the params of 'tools/call' cannot be sent: {exc}") from None
    except StructureError as exc:
        raise LocalProtocolError(f"the params of 'tools/call' do not fit: {'; '.join(exc.faults)}") from exc
    allowed: JsonObject = types.unstructure(await with_consent(consent, call), revision=revision)
    return allowed


ElicitMode: TypeAlias = Literal["form", "url"]
"""The ways to ask a user: a form to fill in, or a page to visit."""
FORMS_ONLY: Sequence[ElicitMode] = ("form",)

# The classes are strings, because creating the unions of questions takes as long as the rest of the import.
OnElicit: TypeAlias = Callable[["types.ElicitRequestParams"], Awaitable["types.ElicitResult"]]
"""A callback that asks the user for the server."""
OnElicitComplete: TypeAlias = Callable[["types.ElicitationCompleteNotificationParams"], Awaitable[None]]
"""A callback that is notified when the user has finished with a page."""
OnSample: TypeAlias = Callable[["types.CreateMessageRequestParams"], Awaitable["types.CreateMessageResult"]]
"""A callback that asks the host's model for the server."""
OnLog: TypeAlias = Callable[["types.LoggingMessageNotificationParams"], Awaitable[None]]
"""A callback that receives one log message of the server."""
Roots: TypeAlias = "Sequence[types.Root] | Callable[[], Awaitable[Sequence[types.Root]]]"
"""The folders and files that are relevant to a server, as ``file://`` URIs; a function is called for each request."""


def _declared(is_declared: bool) -> types.JSONObject | None:
    return {} if is_declared else None


def _check_root_uris(roots: Sequence[types.Root]) -> None:
    for root in roots:
        check_class("roots", root, types.Root, "types.Root(uri='file:///home/ada')")
        if not root.uri.startswith("file://"):
            raise ValueError(f"root {root.uri!r}: the URI must begin with 'file://', as that of Path.as_uri() does")


def _check_roots(_: object, __: object, roots: Roots | None) -> None:
    if roots is None:
        return
    if callable(roots):
        check_parameters("roots", roots)
    else:
        check_class("roots", roots, Sequence, "[types.Root(uri='file:///home/ada')]")
        _check_root_uris(roots)


def _check_callback(_: object, option: Attribute[Any], callback: Callable[..., object] | None) -> None:
    """Check that a callback can be called with one argument; those of other SDKs take others."""
    if callback is None:
        return
    if not callable(callback):
        raise TypeError(f"{option.name}: expected an async function, and got {type(callback).__name__}")
    check_parameters(option.name, callback, None)


@frozen(kw_only=True)
class Callbacks:
    """The callbacks of an application and their options. A callback is cancelled when its question is."""

    on_elicit: OnElicit | None = field(default=None, validator=_check_callback)
    elicit_modes: Sequence[ElicitMode] = FORMS_ONLY
    apply_form_defaults: bool = False
    on_elicit_complete: OnElicitComplete | None = field(default=None, validator=_check_callback)
    on_sample: OnSample | None = field(default=None, validator=_check_callback)
    sample_with_tools: bool = False
    sample_with_context: bool = False
    roots: Roots | None = field(default=None, validator=_check_roots)
    on_log: OnLog | None = field(default=None, validator=_check_callback)
    consent: Consent | None = field(default=None, validator=_check_callback)

    @property
    def wants_messages(self) -> bool:
        """True if a callback receives messages that a legacy server sends outside of requests."""
        each = (self.on_elicit, self.on_elicit_complete, self.on_sample, self.roots, self.on_log)
        return any(callback is not None for callback in each)

    def capabilities(self) -> types.ClientCapabilities:
        """Return the capabilities that follow from the callbacks."""
        modes = self.elicit_modes
        elicitation = types.ElicitationCapability(form=_declared("form" in modes), url=_declared("url" in modes))
        sampling = types.SamplingCapability(
            tools=_declared(self.sample_with_tools), context=_declared(self.sample_with_context)
        )
        return types.ClientCapabilities(
            elicitation=None if self.on_elicit is None else elicitation,
            sampling=None if self.on_sample is None else sampling,
            roots=None if self.roots is None else types.RootsCapability(list_changed=True),
        )

    async def listed_roots(self) -> Sequence[types.Root]:
        """Return the current roots.

        Raises:
            ValueError: the application's function returned a root that is not a ``file://`` URI.
        """
        assert self.roots is not None
        if not callable(self.roots):
            return self.roots
        roots = await called_back("roots", self.roots)
        _check_root_uris(roots)
        return roots


# --- Capabilities that requests need ---

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "completion/complete": ("completions",),
    "logging/setLevel": ("logging",),
    "prompts/get": ("prompts",),
    "prompts/list": ("prompts",),
    "resources/list": ("resources",),
    "resources/read": ("resources",),
    "resources/subscribe": ("resources", "subscribe"),
    "resources/templates/list": ("resources",),
    "resources/unsubscribe": ("resources", "subscribe"),
    "tools/call": ("tools",),
    "tools/list": ("tools",),
}
"""The server capability that each method requires, as a path; other methods require none."""

IDEMPOTENT = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tools/list",
    }
)
"""Requests that do no harm when they are made twice."""


def check_declared(method: str, declared: JsonObject, revision: str) -> None:
    """Check that the server has declared the capability that *method* requires.

    Args:
        declared: the server's capabilities in their JSON form. An empty object is a declaration.

    Raises:
        MissingCapability: it has not.
    """
    path = _REQUIRED.get(method, ())
    if path == ("completions",) and revision == types.REVISIONS[0]:
        return  # the first revision has no such capability
    found: Any = declared
    for name in path:
        found = found.get(name) if is_object(found) else None
    if path and (found is None or found is False):
        required: Any = {} if len(path) == 1 else True
        for name in reversed(path):
            required = {name: required}
        raise MissingCapability(f"the server has not declared {'.'.join(path)!r}, which {method!r} needs", required)


def declaration(capabilities: types.ClientCapabilities, revision: str) -> JsonObject:
    """Return the capabilities of a client in their JSON form for *revision*."""
    declared: JsonObject = types.unstructure(capabilities, revision=revision)
    elicitation = capabilities.elicitation
    urls_only = elicitation is not None and elicitation.form is None and elicitation.url is not None
    if urls_only and declared.get("elicitation") == {}:
        del declared["elicitation"]  # in that revision an empty object would declare forms
    return declared


_REQUIRED_OF_CLIENTS: Mapping[str, str] = {
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
}


def undeclared_capability(capabilities: types.ClientCapabilities, method: str, params: Any) -> str | None:
    """Return the capability that a question needs and this client has not declared, such as ``sampling.tools``.

    None if all are declared. A capability that does not exist is named by its method.
    """
    name = _REQUIRED_OF_CLIENTS.get(method, method)
    found = getattr(capabilities, name, None) if name != method else None
    if found is None:
        return name
    match params:
        case types.ElicitRequestFormParams() if found.form is None:
            return "elicitation.form"
        case types.ElicitRequestURLParams() if found.url is None:
            return "elicitation.url"
        case types.CreateMessageRequestParams(tools=tools, tool_choice=choice) if found.tools is None:
            # An empty list counts as given.
            return None if tools is None and choice is None else "sampling.tools"
        case _:
            return None


# --- Answers to questions ---


def checked_answer(
    request: types.ElicitRequestFormParams | types.ElicitRequestURLParams,
    answer: types.ElicitResult,
    *,
    apply_defaults: bool,
) -> types.ElicitResult:
    """Return the part of an answer that may be sent: content only if a form was accepted and the content matches it.

    Args:
        apply_defaults: use the form's defaults for members that the answer leaves out.

    Raises:
        LocalProtocolError: the content does not match the form; the message names every fault.
    """
    if answer.action != "accept" or isinstance(request, types.ElicitRequestURLParams):
        return evolve(answer, content=None)
    form: JsonObject = types.unstructure(request.requested_schema)
    content: JsonObject = dict(answer.content or {})
    if apply_defaults:
        content = _defaults(form) | content
    faults = _faults(form, content)
    if faults:
        raise LocalProtocolError(f"on_elicit accepted a form with invalid content: {'; '.join(faults)}")
    return answer if content == (answer.content or {}) else evolve(answer, content=content)


def _defaults(form: JsonObject) -> JsonObject:
    """Return the defaults that match their members. Others are the server's fault and are ignored."""
    members: dict[str, JsonObject] = form["properties"]
    proposed = {name: schema["default"] for name, schema in members.items() if "default" in schema}
    return {name: value for name, value in proposed.items() if not _faults(members[name], value)}


def _faults(schema: JsonObject, value: Any) -> list[str]:
    try:
        return compile_schema(schema).faults(value)
    except SchemaError as error:
        _log.warning("answers to a form cannot be checked: %s", error)  # the server checks them too
        return []


Question: TypeAlias = (
    "types.CreateMessageRequestParams | types.ElicitRequestParams | types.ListRootsRequestParams | None"
)
"""The params of a question; None is possible for roots."""
Reply: TypeAlias = "types.CreateMessageResult | types.ElicitResult | types.ListRootsResult"

R = TypeVar("R", "types.CreateMessageResult", "types.ElicitResult")


@define(eq=False)
class Replies:
    """The application's answers to the questions of one server."""

    callbacks: Callbacks
    _declared: types.ClientCapabilities = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._declared = self.callbacks.capabilities()

    def check(self, method: str, question: Question) -> None:
        """Check a question before a callback is called.

        Raises:
            McpError: the question is refused; the message names the missing capability, or every fault with its path.
        """
        for params, code in ((None, METHOD_NOT_FOUND), (question, INVALID_PARAMS)):
            missing = undeclared_capability(self._declared, method, params)
            if missing is not None:
                raise McpError(code, f"{method!r}: this client has not declared {missing!r}")
        if isinstance(question, types.CreateMessageRequestParams):
            faults = [*sampling_faults(types.unstructure(question.messages))]
            if faults:
                raise McpError(INVALID_PARAMS, f"{method!r}: {'; '.join(faults)}")

    async def ask(self, question: Question) -> Reply:
        """Ask the application a question that has passed `check`.

        Raises:
            ConsentRefused: there is no consent to ask the model. Without consent to ask the user, the answer is a
                decline.
            Exception: any exception of the callback or the consent hook.
        """
        match question:
            case types.ElicitRequestFormParams() | types.ElicitRequestURLParams():
                return await self._elicit(question)
            case types.CreateMessageRequestParams():
                assert self.callbacks.on_sample is not None
                allowed = await with_consent(self.callbacks.consent, question)
                reply = await called_back("on_sample", self.callbacks.on_sample, allowed)
                return _of_class(types.CreateMessageResult, "on_sample", reply)
            case _:
                return types.ListRootsResult(roots=await self.callbacks.listed_roots())

    async def _elicit(
        self, question: types.ElicitRequestFormParams | types.ElicitRequestURLParams
    ) -> types.ElicitResult:
        assert self.callbacks.on_elicit is not None
        try:
            allowed = await with_consent(self.callbacks.consent, question)
        except ConsentRefused:
            return types.ElicitResult(action="decline")
        reply = await called_back("on_elicit", self.callbacks.on_elicit, allowed)
        return _of_class(types.ElicitResult, "on_elicit", reply)

    def resolve(self, question: Question, reply: Reply, revision: str) -> JsonObject:
        """Return an answer in the JSON form that is sent.

        Raises:
            LocalProtocolError: the answer does not match the question of the server, or the revision.
        """
        if isinstance(reply, types.ElicitResult):
            assert isinstance(question, types.ElicitRequestFormParams | types.ElicitRequestURLParams)
            reply = checked_answer(question, reply, apply_defaults=self.callbacks.apply_form_defaults)
        elif isinstance(reply, types.CreateMessageResult):
            try:
                reply = evolve(reply, content=sampling_content(reply.content, revision))
            except ValueError as fault:
                raise LocalProtocolError(f"on_sample returned {fault}") from None
        json: JsonObject = types.unstructure(reply, revision=revision)
        return json


def _of_class(expected: type[R], callback: str, reply: object) -> R:
    if not isinstance(reply, expected):
        raise TypeError(f"{callback} returned {reply!r:.200}: expected types.{expected.__name__}")
    return reply
