"""Functions whose arguments come as texts, by name: what resource templates, prompts and completions are made of.

The wire carries the arguments of prompts and the variables of URIs as strings. A parameter may have any type all the
same: a text becomes the value it stands for, and is checked as an argument of a tool would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from .._from_text import kinds_of, value_from_text
from ._context import Context, pin_request, run_of
from ._signature import ArgumentFaults, Signature, describe

if TYPE_CHECKING:
    from ._serving import Serving

__all__ = ["TextFunction", "look_at", "name_of"]


@frozen(eq=False)
class TextFunction:
    """A function whose arguments come as texts, and perhaps a `Context`. One for each registration."""

    _signature: Signature = field(alias="signature")
    _texts: frozenset[str] = field(alias="texts")
    """Parameters that take a text as it is."""

    @property
    def description(self) -> str | None:
        """What its docstring says, None without one."""
        return self._signature.description or None

    @property
    def waits(self) -> bool:
        """Whether calling it may take a thread, or suspend its task."""
        return self._signature.waits

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The schema of each parameter that takes an argument."""
        parameters: dict[str, Any] = self._signature.input_schema.get("properties", {})
        return parameters

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of all arguments together, which those of the parameters may refer to."""
        return self._signature.input_schema

    def requires(self, parameter: str) -> bool:
        """Tell whether an argument for this parameter must be given."""
        return parameter in self._signature.input_schema.get("required", ())

    def takes_list(self, parameter: str) -> bool:
        """Tell whether this parameter may be given a list."""
        return "array" in kinds_of(self.parameters[parameter], self.schema)

    def bind(self, texts: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
        """Return the values that *texts* stand for.

        Raises:
            ArgumentFaults: with every fault.
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

    async def call(self, serving: Serving, bound: Mapping[str, Any], context: Context) -> Any:
        """Call it with what `bind` returned: in this task if it is async, in a worker thread otherwise."""
        signature = self._signature
        if signature.injected:
            pin_request(context)
        if signature.is_async:
            return await signature.call(bound, {Context: context})
        return await serving.threads.run(partial(signature.call, bound, {Context: context}), run_of(context))


def look_at(function: Callable[..., Any], name: str, namespace: Mapping[str, Any] | None = None) -> TextFunction:
    """Return what can be known of *function*.

    Args:
        name: what errors call it.
        namespace: names that annotations may use beside those of the function's module.

    Raises:
        TypeError: a parameter cannot be described by a JSON Schema; the error says which.
    """
    signature = describe(function, name=name, inject=(Context,), namespace=namespace, publish_output=False)
    schema = signature.input_schema
    parameters: Mapping[str, Any] = schema.get("properties", {})
    texts = frozenset(name for name, each in parameters.items() if "string" in kinds_of(each, schema))
    return TextFunction(signature=signature, texts=texts)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name *function* was defined with; of a partial, the inner function's; of an object, its class's."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
