"""Prompts: registering them, and getting one.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Never

from attrs import define, field, frozen

from ... import types
from ..._errors import McpError, StructureError
from ..._other_sdks import unknown_options
from ..._user_types import kinds_of, value_from_text
from ...peer import Access
from ...schema import Form
from ...wire import INVALID_PARAMS
from .._context import Context, run_of, serving_of
from ..signature import ArgumentFaults, Injected, Resolve, Signature, describe
from ._catalog import NO_SCOPES, Catalog, Listable, Visible, check_scopes
from ._content import RESULT_CLASSES, NotReturnable, check_returns, legacy_messages, messages_of

if TYPE_CHECKING:
    from .._resolve import Dependencies

__all__ = ["Prompts", "TextFunction", "dependencies_of", "look_at", "name_of", "title_of"]


def dependencies_of(
    injected: Mapping[str, Injected], name: str, namespace: Mapping[str, Any] | None
) -> Dependencies | None:
    """Return the dependencies of a handler; None if it has none.

    Args:
        injected: the parameters that the server fills.
        name: the name of the handler in errors.
        namespace: names for annotations, in addition to those of the functions' modules.

    Raises:
        TypeError: a dependency cannot be resolved; the message says why.
    """
    resolved = [each for each in injected.values() if isinstance(each, Resolve)]
    if not resolved:
        return None
    from .._resolve import Dependencies  # noqa: PLC0415 # few programs have dependencies

    return Dependencies.of(resolved, name, namespace or {})


@frozen(eq=False)
class TextFunction:
    """A function whose arguments are received as strings: that of a prompt or a resource template.

    A parameter may have any type. A string is converted to that type, and checked like an argument of a tool. There is
    one object for each registration.
    """

    _signature: Signature = field(alias="signature")
    _texts: frozenset[str] = field(alias="texts")
    """The parameters that take a string unconverted."""
    _dependencies: Dependencies | None = field(alias="dependencies")

    @property
    def description(self) -> str | None:
        """The description in its docstring; None without one."""
        return self._signature.description or None

    @property
    def returns(self) -> Any:
        """The resolved return annotation; `inspect.Signature.empty` if there is none."""
        return self._signature.returns

    @property
    def place(self) -> str:
        """The file and line of the function, for the log."""
        return self._signature.place

    @property
    def waits(self) -> bool:
        """True if a call may need a thread, or suspend its task."""
        return self._signature.waits or (self._dependencies is not None and self._dependencies.waits)

    @property
    def may_ask(self) -> bool:
        """True if the function takes a `Context` or has dependencies, and may ask questions."""
        return bool(self._signature.injected)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The schema of each parameter that takes an argument."""
        parameters: dict[str, Any] = self._signature.input_schema.get("properties", {})
        return parameters

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of all arguments, to which those of the parameters may refer."""
        return self._signature.input_schema

    def requires(self, parameter: str) -> bool:
        """Return True if an argument for this parameter is required."""
        return parameter in self._signature.input_schema.get("required", ())

    def takes_list(self, parameter: str) -> bool:
        """Return True if this parameter accepts a list."""
        return "array" in kinds_of(self.parameters[parameter], self.schema)

    def bind(self, texts: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
        """Convert strings to arguments.

        Raises:
            ArgumentFaults: some do not fit; it names every fault.
        """
        values: dict[str, Any] = {}
        faults: list[str] = []
        for name, text in texts.items():
            if name in self._texts and isinstance(text, str):
                values[name] = text
                continue
            try:
                values[name] = self._value(name, text)
            except ValueError as error:
                faults.append(f"$.{name}: {error}")
        if faults:
            raise ArgumentFaults(self._signature.name, faults)
        return self._signature.bind(values)

    def _value(self, name: str, text: str | Sequence[str]) -> Any:
        schema: Any = self.parameters.get(name, {})
        if isinstance(text, str):
            return text if "string" in kinds_of(schema, self.schema) else value_from_text(text, schema, self.schema)
        items: Any = schema.get("items", {})
        plain = "string" in kinds_of(items, self.schema)
        return [each if plain else value_from_text(each, items, self.schema) for each in text]

    def call(self, context: Context, bound: Mapping[str, Any]) -> Awaitable[Any]:
        """Call the function with bound arguments: in this task if it is async, in a worker thread otherwise."""
        if self._dependencies is None:
            return self._call(context, bound, {Context: context})
        return self._resolve(self._dependencies, context, bound)

    async def _resolve(self, dependencies: Dependencies, context: Context, bound: Mapping[str, Any]) -> Any:
        async with dependencies.resolved(context) as injected:
            return await self._call(context, bound, injected)

    async def _call(self, context: Context, bound: Mapping[str, Any], injected: Mapping[Injected, Any]) -> Any:
        signature = self._signature
        if signature.is_async:
            return await signature.call(bound, injected)
        work = partial(signature.call, bound, injected)
        return await serving_of(context).threads.run(work, run_of(context))


def look_at(function: Callable[..., Any], name: str, namespace: Mapping[str, Any] | None = None) -> TextFunction:
    """Return a function with its signature.

    Args:
        name: the name of the function in errors.
        namespace: names for annotations, in addition to those of the function's module.

    Raises:
        TypeError: a parameter cannot be described by a JSON Schema; the message names it.
    """
    signature = describe(function, name=name, inject=(Context,), namespace=namespace, publish_output=False)
    schema = signature.input_schema
    parameters: Mapping[str, Any] = schema.get("properties", {})
    texts = frozenset(name for name, each in parameters.items() if "string" in kinds_of(each, schema))
    dependencies = dependencies_of(signature.injected, name, namespace)
    return TextFunction(signature=signature, texts=texts, dependencies=dependencies)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function; of a partial, that of the inner function; of an object, that of its class."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


_SEPARATORS = re.compile(r"[\W_]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])")
"""The places between the words of `getUserById` and `parseHTTPHead`."""


def title_of(name: str) -> str | None:
    """Return a title for humans that is made from a name, as in ``Get user by id``; None if it has no words.

    Abbreviations in capitals stay: `parseHTTPHead` becomes ``Parse HTTP head``. A name with spaces was written for
    humans, and stays as it is.
    """
    if any(map(str.isspace, name)):
        return name
    words = _HUMPS.sub(" ", _SEPARATORS.sub(" ", name)).split()
    are_loud = len(words) > 1 and all(map(str.isupper, words))  # a constant, such as SEARCH_BOOKS
    plain = [word if not are_loud and _is_abbreviation(word) else word.lower() for word in words]
    title = " ".join(plain)
    return title[:1].upper() + title[1:] or None


def _is_abbreviation(word: str) -> bool:
    letters = word.removesuffix("s")
    return len(letters) > 1 and letters.isupper()


_RETURNED = (types.PromptMessage, types.GetPromptResult, *RESULT_CLASSES)
_DATA: frozenset[Form] = frozenset({"object", "array", "scalar"})
_CURE = "return text, content (bytes as Image or Audio), data, or messages, as User(...), Assistant(...) or dicts"


@frozen
class _Prompt(Listable):
    """A prompt and its function."""

    definition: types.Prompt
    function: TextFunction
    scopes: frozenset[str]
    """The scopes that a caller needs."""

    @property
    def waits(self) -> bool:
        """True if getting it may wait for something."""
        return self.function.waits

    @property
    def may_ask(self) -> bool:
        """True if the function takes a `Context`, and may ask questions."""
        return self.function.may_ask

    async def call(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Answer `prompts/get`.

        Raises:
            McpError: the arguments do not fit.
        """
        try:
            bound = self.function.bind(params.arguments or {})
        except ArgumentFaults as error:
            faults = "; ".join(error.faults)
            raise McpError(INVALID_PARAMS, f"the arguments of prompt {params.name!r} do not fit: {faults}") from None
        value = await self.function.call(context, bound)
        if isinstance(value, types.GetPromptResult):
            result = value
        else:
            try:
                messages = messages_of(value)
            except (ValueError, TypeError, StructureError) as fault:  # `NotJsonError` is a ValueError
                raise NotReturnable(f"prompt {params.name!r}", value, fault, self.function.place) from fault
            result = types.GetPromptResult(description=self.definition.description, messages=messages)
        return legacy_messages(result, context.revision, params.name)


@define(eq=False)
class Prompts:
    """The prompts of one server. They may be added and removed while it is being served."""

    catalog: Catalog[_Prompt] = field(factory=lambda: Catalog[_Prompt]("prompt", "prompts/list", "prompts"), init=False)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[types.Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        scopes: Sequence[str] = (),
        visible: Visible[types.Prompt] | None = None,
        namespace: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> None:
        """Register a function; see `Server.prompt`.

        Args:
            namespace: names for annotations, in addition to those of the function's module.
        """
        if unknown:
            raise unknown_options("@server.prompt", unknown)
        name = name or name_of(function)
        looked_at = look_at(function, name, namespace)
        check_returns(looked_at.returns, f"prompt {name!r}", _RETURNED, _DATA, _CURE)
        arguments = [
            types.PromptArgument(
                name=each,
                title=schema.get("title"),
                description=schema.get("description"),
                required=looked_at.requires(each),
            )
            for each, schema in looked_at.parameters.items()
        ]
        definition = types.Prompt(
            name=name,
            title=title_of(name) if title is None else title,
            description=description or looked_at.description,
            arguments=arguments or None,
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        self.catalog.add(name, _Prompt(definition, looked_at, check_scopes(f"prompt {name!r}", scopes)), visible)

    def scopes_of(self, name: object, access: Access | None) -> frozenset[str]:
        """Return the scopes that getting this prompt needs; empty if the caller sees no such prompt."""
        prompt = self.catalog.find(name, access) if isinstance(name, str) else None
        return NO_SCOPES if prompt is None else prompt.scopes

    def remove(self, name: str) -> None:
        """Remove a prompt; raises KeyError if there is no prompt of this name."""
        self.catalog.remove(name)
