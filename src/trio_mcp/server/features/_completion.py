"""Completion: suggestions for the arguments of prompts and the variables of resource templates.

Arguments with a fixed set of values (`Literal`, an enum, `bool`) are completed automatically.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from attrs import define, evolve, field, frozen

from ... import types
from ..._errors import McpError
from ..._misuse import unawaited
from ...wire import INVALID_PARAMS, encode
from .._context import Context, run_of, serving_of
from ..signature import Callee, Injected, inspect_callable
from ._prompts import Prompts, TextFunction, dependencies_of, name_of
from ._resources import Resources

if TYPE_CHECKING:
    from .._resolve import Dependencies

__all__ = ["Completions"]

MAX_VALUES = 100
"""The maximum number of values in a result."""
MAX_COUNTED = 10_000
"""The maximum number of further values that are counted, because an iterator of values may be infinite."""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@frozen
class _Completer:
    """A function that suggests values for one argument."""

    function: Callable[..., Any]
    callee: Callee
    typed: str
    """The parameter that takes the string typed so far."""
    resolved: tuple[str, ...]
    """The parameters that take the chosen values of other arguments."""
    dependencies: Dependencies | None

    async def suggest(self, context: Context, value: str, resolved: Mapping[str, str]) -> Any:
        """Return the suggestions of the function for an argument that begins with *value*: a `types.Completion`."""
        keywords: dict[str, Any] = {self.typed: value, **{name: resolved.get(name) for name in self.resolved}}
        if self.dependencies is None:
            return await self._suggest(context, keywords, {Context: context})
        async with self.dependencies.resolved(context) as injected:
            return await self._suggest(context, keywords, injected)

    async def _suggest(
        self, context: Context, keywords: Mapping[str, Any], injected: Mapping[Injected, Any]
    ) -> types.Completion:
        filled = {name: injected[key] for name, key in self.callee.injected.items()}
        work = partial(self.function, **keywords, **filled)
        if self.callee.is_async:
            return _completion(await work())
        # in the thread, because an iterator may compute its values there
        return await serving_of(context).threads.run(lambda: _completion(work()), run_of(context))


@define(eq=False)
class Completions:
    """The completers of one server."""

    _prompts: Prompts
    _resources: Resources
    _completers: WeakKeyDictionary[TextFunction, dict[str, _Completer]] = field(
        factory=WeakKeyDictionary[TextFunction, "dict[str, _Completer]"], init=False
    )
    """By the function of the prompt or template, and the argument; removed together with the function."""
    _declared: bool = field(default=False, init=False)
    waits: bool = field(default=True, init=False)
    """True, because a completion may wait for something."""
    may_ask: bool = field(default=False, init=False)
    """False, because the result of a completion cannot contain questions."""

    @property
    def offered(self) -> bool:
        """True if there are suggestions, or were when this was read before, because a declared capability stays."""
        self._declared = self._declared or self._can_suggest()
        return self._declared

    def _can_suggest(self) -> bool:
        return bool(self._completers) or any(
            _choices(function, argument)
            for function in (
                entry.function for each in (self._prompts.catalog, self._resources.templates) for entry in each
            )
            for argument in function.parameters
        )

    def add(
        self,
        function: Callable[..., Any],
        *,
        prompt: str | None = None,
        template: str | None = None,
        argument: str,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        """Register a function; see `Server.completion`.

        Args:
            namespace: names for annotations, in addition to those of the function's module.
        """
        if (prompt is None) == (template is None):
            raise ValueError("completion: pass either prompt= or template=")
        owner = template if prompt is None else prompt
        assert owner is not None
        entry = self._prompts.catalog.get(owner) if template is None else self._resources.templates.get(owner)
        if entry is None:
            kind = "prompt" if template is None else "resource template"
            raise ValueError(f"there is no {kind} {owner!r}; register it before its completions")
        others = set(entry.function.parameters) - {argument}
        if len(others) == len(entry.function.parameters):
            raise ValueError(f"{owner!r} has no argument {argument!r}; it has {', '.join(sorted(others)) or 'none'}")
        completers = self._completers.get(entry.function, {})
        if argument in completers:
            raise ValueError(f"a completion for argument {argument!r} of {owner!r} is registered already")
        completer = _completer(function, others, namespace or {})
        self._completers[entry.function] = {**completers, argument: completer}

    async def call(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Answer `completion/complete`.

        Raises:
            McpError: there is no such prompt, template or argument, or it is hidden from the caller.
        """
        argument, ref = params.argument, params.ref
        if isinstance(ref, types.PromptReference):
            owner, prompt = ref.name, self._prompts.catalog.find(ref.name, context.access)
            function = None if prompt is None else prompt.function
        else:
            owner, template = ref.uri, self._resources.templates.find(ref.uri, context.access)
            function = None if template is None else template.function
        if function is None:
            raise McpError(INVALID_PARAMS, f"$.ref: there is nothing to complete for {owner!r}")
        if argument.name not in function.parameters:
            raise McpError(INVALID_PARAMS, f"$.argument.name: {owner!r} has no argument {argument.name!r}")
        completer = self._completers.get(function, {}).get(argument.name)
        if completer is None:
            typed = argument.value.casefold()
            known = [each for each in _choices(function, argument.name) if each.casefold().startswith(typed)]
            return types.CompleteResult(completion=_completion(known))
        resolved = (params.context.arguments if params.context else None) or {}
        return types.CompleteResult(completion=await completer.suggest(context, argument.value, resolved))


def _completer(function: Callable[..., Any], others: set[str], namespace: Mapping[str, Any]) -> _Completer:
    """Return a completer: its first parameter takes the typed string, the rest are named after *others*."""
    name = name_of(function)
    callee = inspect_callable(function, name, (Context,), namespace)
    parameters = list(callee.arguments())
    if not parameters or parameters[0].kind not in _NAMED:
        raise TypeError(f"{name}: the first parameter of a completion must take the string typed so far")
    for parameter in parameters[1:]:
        if parameter.kind not in _NAMED or parameter.name not in others:
            known = ", ".join(sorted(others)) or "none"
            raise TypeError(f"{name}: parameter {str(parameter)!r} is not one of the other arguments ({known})")
    rest = tuple(parameter.name for parameter in parameters[1:])
    dependencies = dependencies_of(callee.injected, name, namespace)
    return _Completer(function, callee, parameters[0].name, rest, dependencies)


def _completion(values: Iterable[str] | types.Completion) -> types.Completion:
    """Return the first 100 values, and their number unless there are too many to count."""
    if isinstance(values, str) or not isinstance(values, Iterable | types.Completion):  # pyright: ignore[reportUnnecessaryIsInstance] # the return value of user code
        fault = unawaited(values) or "return a list of strings"
        raise TypeError(f"a completion suggested {values!r:.200}; {fault}")
    every = iter(values.values if isinstance(values, types.Completion) else values)
    shown = list(islice(every, MAX_VALUES))
    for value in shown:
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] # the return value of user code
            raise TypeError(f"a completion suggested {value!r:.200}; suggestions must be strings")
    left = sum(1 for _ in islice(every, MAX_COUNTED))
    if isinstance(values, types.Completion):
        return values if not left else evolve(values, values=shown, has_more=True)
    return types.Completion(values=shown, total=len(shown) + left if left < MAX_COUNTED else None, has_more=left > 0)


def _choices(function: TextFunction, argument: str) -> list[str]:
    """Return the values that the schema of an argument lists, as strings."""
    values = _enumerated(function.parameters[argument])
    return [value if isinstance(value, str) else encode(value).decode() for value in values]


def _enumerated(schema: Mapping[str, Any]) -> list[Any]:
    if "enum" in schema:
        return cast("list[Any]", schema["enum"])
    if schema.get("type") == "boolean":
        return [True, False]
    arms = [_enumerated(arm) for arm in schema.get("anyOf", ()) if arm != {"type": "null"}]
    return [value for arm in arms for value in arm] if all(arms) else []
