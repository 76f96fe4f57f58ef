"""Makes a tool from a function: it publishes its schemas, checks and converts arguments, and converts results.

The server calls `describe` once for each function and keeps the `Signature`; for each request, it calls
`Signature.bind`, `Signature.call` and `Signature.dump`. Arguments are checked against the published schema and nothing
else, so the client can read every rule that is enforced.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Annotated, Any, Final, Literal, Never, NoReturn, Union, get_args, get_origin

from attrs import evolve, field, frozen

from ..._errors import TrioMcpError
from ...schema import (
    FORMATS,
    MISSING,
    PLAIN,
    AnnotationReader,
    Definitions,
    Inexpressible,
    LazyValidator,
    Loader,
    Misfit,
    Shape,
    dialect_of,
    parse_docstring,
    publish_member,
    render_path,
    to_json,
)
from ...wire import Undecodable, decode, encode
from ._inline import SchemaRefs, inlined
from ._inspect import Callee, Injected, Resolve, inspect_callable, may_wait, mentions, place_of

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
    "read_defaults",
    "shape_of",
]


# --- Schemas of a function, made at registration ---


def named_arguments(callee: Callee) -> list[inspect.Parameter]:
    """Return the parameters that are arguments, without ``*args`` and ``**kwargs``."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in callee.arguments() if parameter.kind not in variadic]


def shape_of(annotations: AnnotationReader, annotation: Any, where: str) -> Shape:
    """Return the JSON form of an annotation.

    Raises:
        Inexpressible: the annotation has no JSON form; the message begins with `where`.
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
        TypeError: a parameter cannot be published, or its default is not a value of its type; the message names it.
    """
    annotations = AnnotationReader(output=False, namespace=callee.namespace)
    properties: dict[str, Any] = {}
    required: list[str] = []
    loaders: dict[str, Loader | None] = {}
    named = named_arguments(callee)
    for parameter in callee.arguments():
        if parameter not in named:
            raise TypeError(f"{name}: parameter {str(parameter)!r} cannot be published: give every argument a name")
        where = f"{name}: parameter {parameter.name!r}"
        if parameter.annotation is parameter.empty:
            raise TypeError(f"{where} has no annotation: annotate it with its type; `Any` takes every value")
        shape = shape_of(annotations, parameter.annotation, where)
        default = MISSING if parameter.default is parameter.empty else parameter.default
        if default is not MISSING:
            _check_default(default, parameter.annotation, shape, annotations.definitions, where)
        properties[parameter.name] = publish_member(shape, documented.get(parameter.name), default)
        loaders[parameter.name] = shape.load
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    schema: dict[str, Any] = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    return annotations.definitions.complete({**schema, "additionalProperties": False}), loaders


# --- Defaults ---

_CONSTRAINTS: Final = frozenset({
    "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "pattern",
})  # fmt: skip
_CONSTRAINED: Final = (str, int, float, list, tuple, dict, set, frozenset)
"""The classes of defaults that are checked against constraints: those whose JSON form is never wider than the input."""


def read_defaults(callee: Callee, name: str) -> tuple[Callee, dict[str, Callable[[], Any]]]:
    """Return the callable with the defaults that are written as pydantic's ``Field(...)``, and what makes each of them.

    A ``Field`` is honoured as a default and in ``Annotated``; a default that a factory makes is `MISSING` here.

    Raises:
        TypeError: a parameter has a ``Depends`` of another framework, a `Resolve` as default, or a ``Field`` that
            cannot be honoured.
    """
    parameters: list[inspect.Parameter] = []
    makers: dict[str, Callable[[], Any]] = {}
    arguments = {parameter.name for parameter in callee.arguments()}
    for parameter in callee.parameters:
        if parameter.name not in arguments:
            parameters.append(parameter)
            continue
        where = f"{name}: parameter {parameter.name!r}"
        annotation, default = parameter.annotation, parameter.default
        notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
        for each in (*notes, default):
            _refuse_misplaced_dependency(each, parameter, where)
        written: Any = default if default is not parameter.empty else next(filter(_is_pydantic_field, notes), None)
        if _is_pydantic_field(written):
            default = _default_of(written, where)
            if default is not parameter.empty:
                makers[parameter.name] = partial(written.get_default, call_default_factory=True)
            if written is parameter.default and annotation is not parameter.empty:
                annotation = Annotated[annotation, written]
        parameters.append(parameter.replace(default=default, annotation=annotation))
    return evolve(callee, parameters=tuple(parameters)), makers


def _is_pydantic_field(value: Any) -> bool:
    """Return True if *value* was made by pydantic's ``Field(...)``, without importing pydantic."""
    return any((cls.__module__, cls.__name__) == ("pydantic.fields", "FieldInfo") for cls in type(value).__mro__)


def _default_of(written: Any, where: str) -> Any:
    """Return the default of a ``Field``: `MISSING` if a factory makes it, `Parameter.empty` if there is none."""
    if written.is_required():
        return inspect.Parameter.empty
    if written.default_factory is None:
        return written.default
    if getattr(written, "default_factory_takes_validated_data", False):
        raise TypeError(f"{where}: its default_factory must be a function without parameters")
    return MISSING


def _refuse_misplaced_dependency(value: Any, parameter: inspect.Parameter, where: str) -> None:
    """Refuse the ``Depends(...)`` of FastAPI and FastMCP, and a `Resolve` in a default: nothing would call them."""
    kinds = {cls.__name__.lstrip("_") for cls in type(value).__mro__}
    if "Depends" not in kinds and not isinstance(value, Resolve):
        return
    candidates = (getattr(value, attribute, None) for attribute in ("function", "dependency", "factory"))
    named = getattr(next(filter(None, candidates), None), "__name__", "function")
    given = Any if parameter.annotation is parameter.empty else parameter.annotation
    raise TypeError(
        f"{where}: nothing would call {type(value).__name__.lstrip('_')}({named}) here: write "
        f"`{parameter.name}: Annotated[{_written(given)}, Resolve({named})]` with Resolve of trio_mcp"
    )


def _check_default(default: Any, annotation: Any, shape: Shape, definitions: Definitions, where: str) -> None:
    """Check that a default is what the handler may expect of its annotation.

    Raises:
        TypeError: it is not.
    """
    if not is_value_of(default, annotation):
        written = _written(annotation)
        if default is None:
            raise TypeError(
                f"{where}: its default None is not a value of {written}: annotate it with `{written} | None`"
            )
        raise TypeError(f"{where}: its default {default!r:.200} is not a value of {written}")
    if type(default) not in _CONSTRAINED or not _is_constrained(shape.schema):
        return
    try:
        content = to_json(default)
    except Misfit:  # an infinite float has no JSON form, and is not published
        return
    if faults := LazyValidator(definitions.complete(shape.schema), FORMATS).faults(content):
        raise TypeError(f"{where}: its default {default!r:.200} does not fit its constraints: {'; '.join(faults)}")


def is_value_of(value: Any, annotation: Any) -> bool:
    """Return True if a Python value is one of an annotation that has a shape; constraints are not looked at."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in {Annotated, Final}:
        return is_value_of(value, arguments[0])
    if origin in {Union, types.UnionType}:
        return any(is_value_of(value, arm) for arm in arguments)
    if origin is Literal:
        return any(type(value) is type(member) and value == member for member in arguments)
    if hasattr(annotation, "__value__") or hasattr(annotation, "__supertype__"):
        return is_value_of(value, getattr(annotation, "__value__", None) or annotation.__supertype__)
    return _is_instance(value, origin or annotation, arguments)


_COLLECTIONS: Final = ("builtins", "collections.abc")


def _is_instance(value: Any, cls: Any, arguments: tuple[Any, ...]) -> bool:
    """Return True if a value is one of a class with these arguments, in the sense of its JSON form."""
    if cls is Any or not isinstance(cls, type):  # such as a type variable
        return True
    if cls.__module__ not in _COLLECTIONS:
        return isinstance(value, dict if hasattr(cls, "__required_keys__") else cls)  # a TypedDict has no instances
    if isinstance(value, bool) and cls not in {bool, object}:
        return False  # it is an int in Python
    if isinstance(value, str | bytes) and cls not in {str, bytes, object}:
        return False  # it is a sequence in Python
    if not isinstance(value, (int, float) if cls is float else cls):
        return False
    return not arguments or _items_fit(value, cls, arguments)


def _items_fit(values: Any, cls: type, arguments: tuple[Any, ...]) -> bool:
    """Return True if the items of a collection are values of the arguments of its annotation."""
    if cls is tuple and arguments[-1] is not Ellipsis:
        return len(values) == len(arguments) and all(map(is_value_of, values, arguments))
    if issubclass(cls, Mapping):
        return all(is_value_of(key, arguments[0]) and is_value_of(each, arguments[1]) for key, each in values.items())
    return all(is_value_of(each, arguments[0]) for each in values)


def _is_constrained(schema: Any) -> bool:
    """Return True if values of the right type may not fit a schema; otherwise the validator need not be loaded."""
    if schema.__class__ is list:
        return any(map(_is_constrained, schema))
    if schema.__class__ is not dict:
        return False
    return not _CONSTRAINTS.isdisjoint(schema) or any(map(_is_constrained, schema.values()))


def _written(annotation: Any) -> str:
    """Return an annotation as it is written in a program, without metadata."""
    if get_origin(annotation) is Annotated:
        return _written(get_args(annotation)[0])
    if hasattr(annotation, "__name__") and not get_args(annotation):
        return str(annotation.__name__)
    return str(annotation).removeprefix("typing.")


def check_raw_schema(schema: Mapping[str, Any], callee: Callee, name: str) -> None:
    """Check that every object that fits a given input schema is a call of the function.

    Raises:
        TypeError: the schema is not one of objects, or its properties do not match the parameters; names which.
        SchemaError: the dialect of the schema is unknown.
    """
    if schema.get("type") != "object":
        raise TypeError(f"{name}: the type at the root of input_schema must be 'object', not {schema.get('type')!r}")
    dialect_of(schema)
    published = set(schema.get("properties", {}))
    for parameter in callee.arguments():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name}: parameter '*{parameter.name}' would stay empty: arguments are passed by name")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            published.clear()
        elif parameter.default is parameter.empty and parameter.name not in schema.get("required", ()):
            raise TypeError(f"{name}: parameter {parameter.name!r} needs a default: input_schema does not require it")
        published.discard(parameter.name)
    for missing in sorted(published):
        raise TypeError(f"{name}: input_schema publishes {missing!r}, which is not a parameter of the function")


def publish_result(callee: Callee, name: str, content: Collection[type]) -> tuple[dict[str, Any] | None, bool]:
    """Return the output schema, None without one, and True if the result is wrapped in an object.

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


# --- Calls ---

_TOO_DEEP: Final = "$: nested too deeply"

_FITTING: Final[Mapping[bytes, type]] = {
    b'{"type":"boolean"}': bool,
    b'{"type":"integer"}': int,
    b'{"type":"null"}': type(None),
    b'{"type":"string"}': str,
}
"""By the JSON of a schema, the class whose instances all fit it."""

_MOST_PARSED: Final = 1_000_000
"""The number of characters of all strings that are parsed to repair the arguments of a call: it takes about 10 ms."""


class ArgumentFaults(TrioMcpError):
    """The arguments do not fit the published schema. The caller is at fault; the handler has not run.

    `faults` has one line for each fault, with its path, as in ``$.steps: expected integer, got string``.
    """

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        super().__init__(name, tuple(faults))
        self.name = name
        self.faults: tuple[str, ...] = tuple(faults)

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: the arguments do not fit its schema", *self.faults])


class ResultFaults(TrioMcpError):
    """The result of a handler does not fit the published output schema. The handler, or its annotation, is at fault.

    `faults` has one line for each fault, with its path, as in ``$.result: expected integer, got string``. `place` is
    the file and line of the handler. `has_form` is False if part of the value has no JSON form at all.
    """

    def __init__(self, name: str, faults: Sequence[str], place: str, *, has_form: bool = True) -> None:
        super().__init__(name, tuple(faults), place)
        self.name = name
        self.faults: tuple[str, ...] = tuple(faults)
        self.place = place
        self.has_form = has_form

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: the returned value does not fit the output schema", *self.faults])


@frozen
class Signature:
    """A function as a tool. Made by `describe`; immutable, safe to use from several tasks and threads."""

    name: str
    """The name of the tool, for error messages."""

    description: str
    """The docstring without its sections about parameters; empty if there is none."""

    input_schema: dict[str, Any]
    """The self-contained schema of the arguments, as it is published; the ``type`` at its root is ``object``."""

    output_schema: dict[str, Any] | None
    """The self-contained schema of the result, as it is published; None if there is no structured content."""

    wraps_result: bool
    """True if the structured content is ``{"result": value}`` instead of the value."""

    returns: Any
    """The resolved return annotation; `inspect.Signature.empty` if there is none."""

    injected: Mapping[str, Injected]
    """The parameters that the server fills, with the class of the instance or the dependency."""

    is_async: bool
    """True if a call returns a coroutine; otherwise the function runs in a worker thread."""

    waits: bool
    """True if a call may need a thread or suspend its task; False for a coroutine that never suspends."""

    _function: Callable[..., Any] = field(alias="function")
    _positional: tuple[tuple[str, Any], ...] = field(alias="positional")
    """The positional-only parameters in order, with the default of each."""

    _loaders: Mapping[str, Loader | None] = field(alias="loaders")
    """The loader of each parameter, by name; other names are unknown."""

    _defaults: Mapping[str, Callable[[], Any]] = field(alias="defaults")
    """What makes the defaults that are not written in Python, but in a ``Field``, by the name of the parameter."""

    _checks_names: bool = field(alias="checks_names")
    """True if arguments without a parameter may fit the schema, as it was given, and `bind` must refuse them."""

    _arguments_validator: LazyValidator = field(alias="arguments_validator")
    _result_validator: LazyValidator = field(alias="result_validator")
    _fitting: type | None = field(alias="fitting")
    """The class whose instances all fit the output schema, so that no result of that class is validated; None if there
    is no such class. Strings fit if they are ASCII: others may hold half of a surrogate pair."""

    @property
    def place(self) -> str:
        """The file and line of the function, for the log."""
        return place_of(self._function)

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check arguments and convert them to the annotated types.

        Args:
            arguments: the received JSON values, by name. They are not changed, but the result may share parts of them.

        Returns:
            The converted values, by the name of the parameter; absent arguments are absent here, too, unless their
            default is in a ``Field``.

        Raises:
            ArgumentFaults: with every fault.
            SchemaError: the given input schema cannot be used; it is compiled at its first use.
            Exception: raised by the factory of a default.
        """
        if faults := self._arguments_validator.faults(arguments):
            raise ArgumentFaults(self.name, faults)
        loaders = self._loaders
        if self._checks_names and not arguments.keys() <= loaders.keys():
            unknown = [name for name in arguments if name not in loaders]
            raise ArgumentFaults(self.name, [f"{render_path([name])}: unknown, not allowed here" for name in unknown])
        try:
            loaded = _loaded(arguments, loaders)
        except Misfit as misfit:
            raise ArgumentFaults(self.name, _rendered(misfit.faults)) from misfit
        except RecursionError:
            raise ArgumentFaults(self.name, [_TOO_DEEP]) from None
        if self._defaults:
            loaded |= {name: make() for name, make in self._defaults.items() if name not in loaded}
        return loaded

    def repair(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]] | None:
        """Bind arguments that `bind` has refused, if the reason is that JSON was sent as a string.

        Each string that stands where the schema admits no string is replaced by the JSON value that it holds. This is
        done once: strings inside those values are not replaced. Nothing else is converted.

        Returns:
            What `bind` returns for the repaired arguments, and the paths of the replaced strings; None if there are
            no such strings, if one of them is not JSON, or if the repaired arguments do not fit, either.
        """
        texts = self._arguments_validator.refused_strings(arguments)
        if not texts or sum(map(len, texts.values())) > _MOST_PARSED:
            return None
        try:
            values = {path: decode(text.encode()) for path, text in texts.items()}
            return self.bind(_replaced(arguments, values)), [render_path(path) for path in texts]
        except (Undecodable, ArgumentFaults):
            return None

    def call(self, bound: Mapping[str, Any], injected: Mapping[Injected, Any]) -> Any:
        """Call the function.

        Args:
            bound: the result of `bind`.
            injected: an instance for each class in `Signature.injected`, and a value for each dependency.

        Returns:
            The result of the function: a coroutine if `is_async`. Its exceptions are passed on.
        """
        if not self.injected and not self._positional:
            return self._function(**bound)
        keywords = dict(bound)
        for name, key in self.injected.items():
            keywords[name] = injected[key]
        given = [keywords.pop(name, default) for name, default in self._positional]
        return self._function(*given, **keywords)

    def dump(self, value: Any) -> Any:
        """Convert the result of the function into structured content. Only with an `output_schema`.

        Raises:
            ResultFaults: the value has no JSON form, or does not fit the output schema; with every fault.
        """
        if value.__class__ is self._fitting and (value.__class__ is not str or value.isascii()):
            return {"result": value}
        try:
            content = value if value.__class__ in PLAIN else to_json(value)
        except Misfit as misfit:
            found = misfit.under("result") if self.wraps_result else misfit.faults
            raise ResultFaults(self.name, _rendered(found), self.place, has_form=False) from misfit
        except RecursionError:
            raise ResultFaults(self.name, [_TOO_DEEP], self.place, has_form=False) from None
        structured: Any = {"result": content} if self.wraps_result else content
        if faults := self._result_validator.faults(structured):
            raise ResultFaults(self.name, faults, self.place)
        return structured

    def check(self, structured: Any) -> None:
        """Check structured content that the handler made itself. Only with an `output_schema`.

        Raises:
            ResultFaults: it does not fit the output schema; with every fault.
        """
        if faults := self._result_validator.faults(structured):
            raise ResultFaults(self.name, faults, self.place)


def _replaced(arguments: Mapping[str, Any], values: Mapping[tuple[str | int, ...], Any]) -> dict[str, Any]:
    """Return arguments with other values at some paths; what has to change is copied, once."""
    copies: dict[tuple[str | int, ...], Any] = {(): dict(arguments)}
    for path, value in values.items():
        for end in range(1, len(path)):
            if path[:end] not in copies:
                holder, step = copies[path[: end - 1]], path[end - 1]
                copies[path[:end]] = holder[step] = copy(holder[step])
        copies[path[:-1]][path[-1]] = value
    replaced: dict[str, Any] = copies[()]
    return replaced


def _loaded(arguments: Mapping[str, Any], loaders: Mapping[str, Loader | None]) -> dict[str, Any]:
    """Convert each argument with the loader of its name.

    Raises:
        Misfit: with the faults of all arguments.
    """
    loaded: dict[str, Any] = {}
    faults: list[tuple[tuple[str | int, ...], str]] = []
    cause: Misfit | None = None
    for name, value in arguments.items():
        load = loaders.get(name)
        try:
            loaded[name] = value if load is None else load(value)
        except Misfit as misfit:
            cause = misfit
            faults += misfit.under(name)
    if faults:
        raise Misfit(*faults) from cause
    return loaded


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
    schema_refs: SchemaRefs = "keep",
) -> Signature:
    """Return the signature of a function: its published schemas and its calls.

    Args:
        function: any callable but a generator function.
        name: the name of the tool; the name of the function by default.
        inject: classes whose instances the server passes to parameters annotated with them.
        content: classes that are protocol content; a function that returns them has no output schema.
        input_schema: replaces the schema made from the parameters. The function gets arguments that fit it as
            keywords, without conversion; it may have a parameter ``**arguments``.
        output_schema: replaces the schema made from the return annotation; the function returns the structured content
            itself.
        namespace: names that annotations may use in addition to those of the module and the closure, such as the
            locals of the function that registers the tool.
        publish_output: True to make an output schema from the return annotation, unless *output_schema* is given.
        schema_refs: ``"inline"`` to publish the schemas made from annotations without references to definitions.
            Schemas that are given are not changed.

    Raises:
        TypeError: the function cannot be published; the message names the parameter and says why.
        SchemaError: `input_schema` or `output_schema` names an unknown dialect.
    """
    label = name or _name_of(function)
    callee, defaults = read_defaults(inspect_callable(function, label, inject, namespace or {}), label)
    documented = parse_docstring(callee.docstring)
    if input_schema is None:
        accepted, loaders = publish_parameters(callee, label, documented.parameters)
    else:
        accepted, loaders = dict(input_schema), dict.fromkeys(parameter.name for parameter in named_arguments(callee))
        check_raw_schema(accepted, callee, label)
    returned, wraps_result = None, False
    if output_schema is not None:
        dialect_of(output_schema)
        returned = dict(output_schema)
    elif publish_output:
        returned, wraps_result = publish_result(callee, label, content)
    inlines = schema_refs == "inline"
    return Signature(
        name=label,
        description=documented.description,
        input_schema=inlined(accepted) if inlines and input_schema is None else accepted,
        output_schema=inlined(returned) if inlines and output_schema is None and returned is not None else returned,
        wraps_result=wraps_result,
        returns=callee.returns,
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
        defaults=defaults,
        arguments_validator=LazyValidator(accepted, FORMATS),
        result_validator=LazyValidator(returned or {}, FORMATS),
        fitting=_FITTING.get(encode(returned["properties"]["result"])) if wraps_result and returned else None,
        checks_names=input_schema is not None and len(named_arguments(callee)) == len(list(callee.arguments())),
    )


@frozen
class TypeReader:
    """The JSON Schema of a type, and a reader of values that fit it. Made by `describe_type`."""

    name: str
    schema: dict[str, Any]
    _load: Loader | None = field(alias="load")
    _validator: LazyValidator = field(alias="validator")

    def load(self, value: Any) -> Any:
        """Check a JSON value and convert it to the type.

        Raises:
            ArgumentFaults: with every fault.
        """
        if faults := self._validator.faults(value):
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
    """Return the schema and the reader of one type.

    Args:
        annotation: the type.
        name: its name in error messages.
        namespace: names that its annotations may use in addition to those of its module.
        annotations: the class that reads annotations.

    Raises:
        TypeError: the type has no JSON form; the message names the part.
    """
    reader = annotations(output=False, namespace=namespace or {})
    shape = shape_of(reader, annotation, name)
    schema = reader.definitions.complete(shape.schema)
    return TypeReader(name, schema, shape.load, LazyValidator(schema, FORMATS))


def _name_of(function: Any) -> str:
    while not hasattr(function, "__name__") and hasattr(function, "func"):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _rendered(faults: Iterable[tuple[tuple[str | int, ...], str]]) -> list[str]:
    return [f"{render_path(path)}: {fault}" for path, fault in faults]
