"""Makes a tool out of a function: what is published about it, arguments into the call, the result into JSON.

The registry calls `describe` once per function and keeps the `Signature`; dispatch then calls `Signature.bind`,
`Signature.call` and `Signature.dump` for each request. Arguments are judged by the published schema and by nothing
else, so what a client can read is what holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Never, NoReturn

from attrs import field, frozen

from ..._errors import TrioMcpError
from ...schema import LazyValidator, dialect_of, render_path
from ._annotations import AnnotationReader, publish_member
from ._conversion import FORMATS, MISSING, PLAIN, Inexpressible, Loader, Misfit, Shape, load_members, to_json
from ._inspect import Callee, inspect_callable, may_wait, mentions, parse_docstring

__all__ = [
    "ArgumentFaults",
    "ResultFaults",
    "Signature",
    "TypeReader",
    "check_raw_schema",
    "describe",
    "describe_type",
    "named_arguments",
    "publish_parameters",
    "publish_result",
    "shape_of",
]


# Writes the schemas of a function: the input schema from its parameters, the output schema from what it returns.
#
# Called by `_signature` at registration; raises whatever makes a function impossible to publish.


def named_arguments(callee: Callee) -> list[inspect.Parameter]:
    """Return the parameters that are arguments, without ``*args`` and ``**kwargs``."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in callee.arguments() if parameter.kind not in variadic]


def shape_of(annotations: AnnotationReader, annotation: Any, where: str) -> Shape:
    """Return the JSON form of an annotation.

    Raises:
        Inexpressible: it has none; the text begins with `where`.
    """
    try:
        return annotations.shape(annotation)
    except Inexpressible as error:
        raise Inexpressible(f"{where}: {error}") from error


def publish_parameters(
    callee: Callee, name: str, documented: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Loader | None]]:
    """Return the input schema and the loader of each argument.

    Raises:
        TypeError: a parameter cannot be published; names it.
    """
    annotations = AnnotationReader(output=False, namespace=callee.namespace)
    properties: dict[str, Any] = {}
    required: list[str] = []
    loaders: dict[str, Loader | None] = {}
    named = named_arguments(callee)
    for parameter in callee.arguments():
        if parameter not in named:
            raise TypeError(f"{name}: parameter {str(parameter)!r} cannot be published: give every argument a name")
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        shape = shape_of(annotations, annotation, f"{name}: parameter {parameter.name!r}")
        has_default = parameter.default is not parameter.empty
        default = parameter.default if has_default else MISSING
        properties[parameter.name] = publish_member(shape, documented.get(parameter.name), default)
        loaders[parameter.name] = shape.load
        if not has_default:
            required.append(parameter.name)
    schema: dict[str, Any] = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    return annotations.definitions.complete({**schema, "additionalProperties": False}), loaders


def check_raw_schema(schema: Mapping[str, Any], callee: Callee, name: str) -> None:
    """Refuse a raw input schema the function could not be called by.

    Raises:
        TypeError: it is no object schema, or its properties and the parameters do not match; names which.
        SchemaError: it is of an unknown dialect.
    """
    if schema.get("type") != "object":
        raise TypeError(f"{name}: the type at the root of input_schema must be 'object', not {schema.get('type')!r}")
    dialect_of(schema)
    published = set(schema.get("properties", {}))
    for parameter in callee.arguments():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name}: parameter '*{parameter.name}' gets nothing: arguments are passed by name")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            published.clear()
        elif parameter.default is parameter.empty and parameter.name not in schema.get("required", ()):
            raise TypeError(f"{name}: parameter {parameter.name!r} needs a default: input_schema does not require it")
        published.discard(parameter.name)
    for missing in sorted(published):
        raise TypeError(f"{name}: input_schema publishes {missing!r}, which is no parameter of the function")


def publish_result(callee: Callee, name: str, content: Collection[type]) -> tuple[dict[str, Any] | None, bool]:
    """Return the output schema, if there is one, and whether the result is wrapped.

    Raises:
        Inexpressible: the return annotation has no JSON form.
    """
    nothing = (inspect.Signature.empty, None, type(None), Any, object, Never, NoReturn)
    if any(callee.returns is each for each in nothing) or mentions(callee.returns, content):
        return None, False
    annotations = AnnotationReader(output=True, namespace=callee.namespace)
    shape = shape_of(annotations, callee.returns, f"{name}: the return annotation")
    if shape.kinds == frozenset({"object"}):
        return {"type": "object", **annotations.definitions.complete(shape.schema)}, False
    wrapped = {"type": "object", "properties": {"result": shape.schema}, "required": ["result"]}
    return annotations.definitions.complete(wrapped), True


_TOO_DEEP: Final = "$: nested too deeply"


class ArgumentFaults(TrioMcpError):
    """Arguments do not fit the published schema. The caller is at fault; the handler has not run.

    `faults` names every one of them by its path, as in ``$.steps: expected integer, got string``.
    """

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        super().__init__(name, tuple(faults))
        self.name = name
        self.faults: tuple[str, ...] = tuple(faults)

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: the arguments do not fit its schema", *self.faults])


class ResultFaults(TrioMcpError):
    """What a handler returned does not fit its published output schema. The handler, or its annotation, is at fault.

    `faults` names every one of them by its path, as in ``$.result: expected integer, got string``.
    """

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        super().__init__(name, tuple(faults))
        self.name = name
        self.faults: tuple[str, ...] = tuple(faults)

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: the returned value does not fit the output schema", *self.faults])


@frozen
class Signature:
    """A function as a tool. Made by `describe`; immutable, safe to use from several tasks and threads."""

    name: str
    """The name of the tool, used in errors."""

    description: str
    """The docstring without its sections about parameters; empty if there is none."""

    input_schema: dict[str, Any]
    """Stands by itself; the ``type`` at its root is ``object``."""

    output_schema: dict[str, Any] | None
    """Likewise; None when the function returns no structured content."""

    wraps_result: bool
    """Whether structured content is ``{"result": value}`` instead of the value."""

    injected: Mapping[str, type]
    """Parameters filled by the server: name and class."""

    is_async: bool
    """Whether calling the function gives a coroutine; otherwise it is to run in a worker thread."""

    waits: bool
    """Whether calling it may take a thread, or suspend its task; False where it is a coroutine that never can."""

    _function: Callable[..., Any] = field(alias="function")
    _positional: tuple[tuple[str, Any], ...] = field(alias="positional")
    """Positional-only parameters in order, with the default of each."""

    _loaders: Mapping[str, Loader | None] = field(alias="loaders")
    """By the name of the parameter; one that is not here is unknown."""

    _judge_misses_names: bool = field(alias="judge_misses_names")
    """Whether arguments without a parameter may fit a schema that was given, and have to be found otherwise."""

    _judge: LazyValidator = field(alias="judge")
    _result_judge: LazyValidator = field(alias="result_judge")

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check arguments and convert them to the annotated types.

        Args:
            arguments: as they came, JSON values by name. Not changed, but parts of it may end up in the result.

        Returns:
            Converted values by the name of the parameter; those left out are not in it.

        Raises:
            ArgumentFaults: with every fault.
            SchemaError: the raw input schema cannot be used, which shows at its first use.
        """
        if faults := self._judge.faults(arguments):
            raise ArgumentFaults(self.name, faults)
        loaders = self._loaders
        if self._judge_misses_names and not arguments.keys() <= loaders.keys():
            unknown = [name for name in arguments if name not in loaders]
            raise ArgumentFaults(self.name, [f"{render_path([name])}: unknown, not allowed here" for name in unknown])
        try:
            return load_members(arguments, loaders)
        except Misfit as misfit:
            raise ArgumentFaults(self.name, _rendered(misfit.faults)) from misfit
        except RecursionError:
            raise ArgumentFaults(self.name, [_TOO_DEEP]) from None

    def call(self, bound: Mapping[str, Any], injected: Mapping[type, Any]) -> Any:
        """Call the function.

        Args:
            bound: what `bind` returned.
            injected: an instance for each class in `Signature.injected`.

        Returns:
            What the function returns: a coroutine if `is_async`. Whatever it raises passes through.
        """
        if not self.injected and not self._positional:
            return self._function(**bound)
        keywords = dict(bound)
        for name, cls in self.injected.items():
            keywords[name] = injected[cls]
        given = [keywords.pop(name, default) for name, default in self._positional]
        return self._function(*given, **keywords)

    def dump(self, value: Any) -> Any:
        """Turn what the function returned into structured content. Only with an `output_schema`.

        Raises:
            ResultFaults: the value has no JSON form, or it does not fit the output schema; with the faults.
        """
        try:
            content = value if value.__class__ in PLAIN else to_json(value)
        except Misfit as misfit:
            faults = misfit.under("result") if self.wraps_result else misfit.faults
            raise ResultFaults(self.name, _rendered(faults)) from misfit
        except RecursionError:
            raise ResultFaults(self.name, [_TOO_DEEP]) from None
        structured: Any = {"result": content} if self.wraps_result else content
        if wrong := self._result_judge.faults(structured):
            raise ResultFaults(self.name, wrong)
        return structured

    def check(self, structured: Any) -> None:
        """Check structured content that somebody else has made. Only with an `output_schema`.

        Raises:
            ResultFaults: it does not fit the output schema; with the faults.
        """
        if wrong := self._result_judge.faults(structured):
            raise ResultFaults(self.name, wrong)


def describe(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    inject: Collection[type] = (),
    content: Collection[type] = (),
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    namespace: Mapping[str, Any] | None = None,
    publish_output: bool = True,
) -> Signature:
    """Work out what a function publishes and how it is called.

    Args:
        function: any callable but a generator function.
        name: the name of the tool; the function's own by default.
        inject: classes whose instances the server gives to parameters annotated with them.
        content: classes that are protocol content; a function that returns them has no output schema.
        input_schema: published in place of the one made from the parameters. Arguments that fit it reach the
            function as they came, as keywords; it may then take ``**arguments``.
        output_schema: published in place of the one made from the return annotation; what the function returns is
            the structured content as it is.
        namespace: names that annotations may use beside those of the module and the closure, such as the locals of
            the function that does the registering.
        publish_output: whether the return annotation means an output schema, if *output_schema* is not given.

    Raises:
        TypeError: the function cannot be published; names the parameter and says why.
        SchemaError: `input_schema` or `output_schema` names an unknown dialect.
    """
    label = name or _name_of(function)
    callee = inspect_callable(function, label, inject, namespace or {})
    documented = parse_docstring(callee.docstring)
    if input_schema is None:
        published, loaders = publish_parameters(callee, label, documented.parameters)
    else:
        published, loaders = dict(input_schema), dict.fromkeys(parameter.name for parameter in named_arguments(callee))
        check_raw_schema(published, callee, label)
    returned, wraps_result = None, False
    if output_schema is not None:
        dialect_of(output_schema)
        returned = dict(output_schema)
    elif publish_output:
        returned, wraps_result = publish_result(callee, label, content)
    return Signature(
        name=label,
        description=documented.description,
        input_schema=published,
        output_schema=returned,
        wraps_result=wraps_result,
        injected=callee.injected,
        is_async=callee.is_async,
        waits=not callee.is_async or may_wait(function),
        function=function,
        positional=tuple(
            (parameter.name, parameter.default)
            for parameter in callee.parameters
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        ),
        loaders=loaders,
        judge=LazyValidator(published, FORMATS),
        result_judge=LazyValidator(returned or {}, FORMATS),
        judge_misses_names=input_schema is not None and len(named_arguments(callee)) == len(list(callee.arguments())),
    )


@frozen
class TypeReader:
    """A type as JSON: its schema, and how to read a value that came. Made by `describe_type`."""

    name: str
    schema: dict[str, Any]
    _load: Loader | None = field(alias="load")
    _judge: LazyValidator = field(alias="judge")

    def load(self, value: Any) -> Any:
        """Check a JSON value and convert it to the type.

        Raises:
            ArgumentFaults: with every fault.
        """
        if faults := self._judge.faults(value):
            raise ArgumentFaults(self.name, faults)
        try:
            return value if self._load is None else self._load(value)
        except Misfit as misfit:
            raise ArgumentFaults(self.name, _rendered(misfit.faults)) from misfit
        except RecursionError:
            raise ArgumentFaults(self.name, [_TOO_DEEP]) from None


def describe_type(
    annotation: Any,
    *,
    name: str,
    namespace: Mapping[str, Any] | None = None,
    annotations: type[AnnotationReader] = AnnotationReader,
) -> TypeReader:
    """Work out the schema and the reading of one type.

    Args:
        annotation: the type.
        name: what errors call it.
        namespace: names its annotations may use beside those of its module.
        annotations: what knows the meaning of annotations.

    Raises:
        TypeError: it has no JSON form; says which part has none.
    """
    known = annotations(output=False, namespace=namespace or {})
    shape = shape_of(known, annotation, name)
    schema = known.definitions.complete(shape.schema)
    return TypeReader(name, schema, shape.load, LazyValidator(schema, FORMATS))


def _name_of(function: Any) -> str:
    while not hasattr(function, "__name__") and hasattr(function, "func"):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _rendered(faults: Iterable[tuple[tuple[str | int, ...], str]]) -> list[str]:
    return [f"{render_path(path)}: {text}" for path, text in faults]
