"""Inspects callables: parameters, resolved annotations, docstring, and whether a call returns a coroutine.

It supports functions, bound methods, `functools.partial`, callable objects and decorated functions. `_signature` maps
the findings to JSON.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias, Union, cast, get_args, get_origin

from attrs import frozen

from ...schema import resolve_hints

__all__ = ["Callee", "Injected", "Resolve", "inspect_callable", "may_wait", "mentions", "place_of"]

_SUSPENDING: Final = frozenset({"SEND", "YIELD_VALUE"})
"""The CPython instructions of every `await`, `async for`, `async with` and asynchronous comprehension."""
_READABLE: Final = sys.implementation.name == "cpython" and dis.opmap.keys() >= _SUSPENDING
"""True if this interpreter has these instructions."""


_RECEIVERS: Final = ("self", "cls")
_CONTEXTS: Final = ("ctx", "context")


@frozen(eq=False)
class Resolve:
    """A dependency of a handler: ``db: Annotated[Database, Resolve(database)]`` receives what *function* returns.

    Tools, prompts, resources and completions may have dependencies. They are not in the published schema, and no caller
    can fill them. Each function is called at most once for each call of the handler, before the handler starts; all
    parameters that name it get the same value. Its own parameters may be a `Context` and further dependencies; others
    need a default.

    The function may be:

    - an ``async def``, which runs in the task of the handler.
    - a plain ``def`` or a class, which runs in a worker thread, like a plain handler.
    - one with ``@asynccontextmanager`` or ``@contextmanager``, which yields the value. It is left after the handler has
      ended, in reverse order, also if the handler has failed or is cancelled, and sees the exception, which it cannot
      suppress. The code of ``@contextmanager`` runs in worker threads, which are waited for even if the call is
      cancelled. A plain handler that is cancelled goes on in its thread, and may find its dependencies left.

    What the function raises is treated as if the handler had raised it. `timeout=` and `max_concurrency=` of a tool
    apply to its dependencies, too.

    Args:
        function: called with its own dependencies only.

    Raises:
        TypeError: *function* is not callable.
    """

    function: Callable[..., Any]

    def __attrs_post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"Resolve({self.function!r}): must be given a function")


Injected: TypeAlias = "type | Resolve"
"""What a parameter that the server fills stands for: a class, such as `Context`, or a dependency."""


@frozen
class Callee:
    """The findings about a callable."""

    parameters: tuple[inspect.Parameter, ...]
    """Its parameters, with resolved annotations."""

    injected: Mapping[str, Injected]
    """The parameters that the server fills: the name, and the class of the instance or the dependency."""

    returns: Any
    """Its resolved return annotation; `inspect.Signature.empty` if it has none."""

    docstring: str | None
    is_async: bool
    is_manager: bool
    """True if a call returns a context manager; its body is a generator function."""
    namespace: Mapping[str, Any]
    """Names that its annotations may use in addition to those of its module."""

    def arguments(self) -> Iterator[inspect.Parameter]:
        """Yield the parameters that the caller fills with arguments of the request."""
        return (parameter for parameter in self.parameters if parameter.name not in self.injected)


def inspect_callable(
    function: Callable[..., Any],
    name: str,
    inject: Collection[type],
    namespace: Mapping[str, Any],
    *,
    dependency: bool = False,
) -> Callee:
    """Inspect a callable.

    Args:
        function: any callable but a generator function.
        name: its name in error messages.
        inject: parameters annotated with one of these classes, a subclass, or one of them or None are injected.
        namespace: names that annotations may use in addition to those of the function's module and closure.
        dependency: True for the function of a dependency, which may have ``@contextmanager`` or
            ``@asynccontextmanager``, and whose return annotation is not read.

    Raises:
        TypeError: a server cannot call it, an annotation cannot be resolved, or a parameter without annotation has a
            name that says that no caller fills it; the message names the parameter.
    """
    if isinstance(function, classmethod):
        raise TypeError(
            f"{name}: a class method is bound only after its class is made: register it below the class, as in "
            "server.tool(Notes.search)"
        )
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError, NameError) as error:
        raise TypeError(f"{name}: its signature cannot be read: {error}") from error
    outer = _underlying(function)
    core = inspect.unwrap(outer)
    is_manager = not _is_generator(outer) and _is_generator(core)
    if dependency and _is_generator(outer):
        raise TypeError(f"{name}: a generator function needs @contextmanager or @asynccontextmanager above it")
    if not dependency and (is_manager or _is_generator(outer)):
        raise TypeError(f"{name}: a generator function cannot be a handler: return the values together")
    names = {**_closure(core), **namespace}
    parameters = tuple(
        parameter.replace(annotation=_resolved(core, parameter.annotation, names, f"{name}: parameter {label!r}"))
        for label, parameter in signature.parameters.items()
    )
    for parameter in parameters:
        if parameter.annotation is parameter.empty:
            _refuse_unfilled(parameter, f"{name}: parameter {parameter.name!r}")
    found = (
        (parameter.name, _injected(parameter, inject, f"{name}: parameter {parameter.name!r}"))
        for parameter in parameters
    )
    returns = Any if dependency else signature.return_annotation
    return Callee(
        parameters=parameters,
        injected={label: each for label, each in found if each is not None},
        returns=_resolved(core, returns, names, f"{name}: the return annotation"),
        docstring=getattr(core, "__doc__", None) or _class_docstring(function),
        # A plain wrapper around an async function returns its coroutine.
        is_async=any(map(inspect.iscoroutinefunction, (outer, core))) or inspect.isasyncgenfunction(core),
        is_manager=is_manager,
        namespace=names,
    )


def _is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def may_wait(function: Callable[..., Any]) -> bool:
    """Return False if *function* is an ``async def`` without any `await`, whose coroutine never suspends its task.

    In all other cases, a call may suspend the task or need a worker thread, and the result is True. For a decorated
    function, this inspects the wrapper of the decorator, because the wrapper is what runs.
    """
    inner: Any = function
    while type(inner) in {functools.partial, types.MethodType}:  # a subclass may call something else
        inner = inner.func if type(inner) is functools.partial else inner.__func__
    if type(inner) is not types.FunctionType:
        inner = inspect.getattr_static(cast("type[object]", type(inner)), "__call__")
    if not _READABLE or type(inner) is not types.FunctionType or not inner.__code__.co_flags & inspect.CO_COROUTINE:
        return True
    return any(instruction.opname in _SUSPENDING for instruction in dis.get_instructions(inner.__code__))


def mentions(annotation: Any, classes: Collection[type]) -> type | None:
    """Return the first of `classes` that occurs in an annotation, alone or inside unions and collections."""
    candidates = (annotation, get_origin(annotation))
    for candidate in candidates:
        if isinstance(candidate, type):
            for cls in classes:
                if issubclass(candidate, cls):
                    return cls
    inner = (mentions(argument, classes) for argument in get_args(annotation))
    return next((found for found in inner if found is not None), None)


def _underlying(function: Callable[..., Any]) -> Any:
    """Return the function behind partials, bound methods and callable objects."""
    inner: Any = function
    while True:
        if isinstance(inner, functools.partial):
            inner = inner.func
        elif inspect.ismethod(inner):
            inner = inner.__func__
        elif inspect.isroutine(inner) or isinstance(inner, type):
            return inner
        else:
            inner = type(inner).__call__


def place_of(function: Callable[..., Any]) -> str:
    """Return the file and line of a callable, as in ``/srv/shop.py:12``; its name if it was not written in Python."""
    core = inspect.unwrap(_underlying(function))
    code = getattr(core, "__code__", None)
    if code is None:
        return f"{core.__module__}.{core.__qualname__}"
    return f"{code.co_filename}:{code.co_firstlineno}"


def _class_docstring(function: Callable[..., Any]) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    return None if inspect.isroutine(function) else type(function).__doc__


def _closure(core: Any) -> dict[str, Any]:
    code = getattr(core, "__code__", None)
    cells = getattr(core, "__closure__", None) or ()
    names = () if code is None else code.co_freevars
    found: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _globals(core: Any) -> Mapping[str, Any]:
    """Return the names of the module of a function or class."""
    if isinstance(core, type):
        return getattr(sys.modules.get(core.__module__), "__dict__", {})
    return getattr(core, "__globals__", {})


def _resolved(core: Any, annotation: Any, names: Mapping[str, Any], where: str) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        return resolve_hints(holder, {**_globals(core), **names})["it"]
    except NameError as error:
        raise TypeError(
            f"{where}: {annotation!r} cannot be resolved: {error}; define or import it at the top level of the module, "
            "and not under `if TYPE_CHECKING:`"
        ) from error
    except Exception as error:
        raise TypeError(f"{where}: {annotation!r} cannot be resolved: {error}") from error


def _refuse_unfilled(parameter: inspect.Parameter, where: str) -> None:
    """Refuse a parameter without annotation that the server or an instance would fill, not the caller."""
    if parameter.name in _RECEIVERS:
        raise TypeError(f"{where}: this is not a method of an instance: register the bound method (`thing.method`)")
    if parameter.name in _CONTEXTS:
        raise TypeError(
            f"{where} has no annotation: `{parameter.name}: Context` receives the context of trio_mcp; "
            "an argument of this name needs its type"
        )


def _injected(parameter: inspect.Parameter, inject: Collection[type], where: str) -> Injected | None:
    """Return what the server fills a parameter with; None if it is an argument.

    Raises:
        TypeError: a dependency is not written as it must be.
    """
    annotation = parameter.annotation
    if get_origin(annotation) is Annotated:
        notes = get_args(annotation)[1:]
        if any(note is Resolve for note in notes):
            raise TypeError(f"{where}: Resolve without a function: write `Annotated[..., Resolve(function)]`")
        resolved = next((note for note in notes if isinstance(note, Resolve)), None)
        if resolved is not None:
            # None promises no value, and Python demands a default after a parameter that has one.
            if parameter.default is not parameter.empty and parameter.default is not None:
                raise TypeError(f"{where}: a dependency has no default")
            return resolved
    if _has_dependency(annotation):
        raise TypeError(f"{where}: Resolve must be outermost, as in `Annotated[... | None, Resolve(function)]`")
    return _injected_class(annotation, inject)


def _has_dependency(annotation: Any) -> bool:
    """Return True if a dependency occurs inside an annotation."""
    return isinstance(annotation, Resolve) or any(map(_has_dependency, get_args(annotation)))


def _injected_class(annotation: Any, inject: Collection[type]) -> type | None:
    if get_origin(annotation) in {Union, types.UnionType}:
        arms = [arm for arm in get_args(annotation) if arm is not type(None)]
        return mentions(arms[0], inject) if len(arms) == 1 else None
    if isinstance(annotation, type) or isinstance(get_origin(annotation), type):
        return mentions(get_origin(annotation) or annotation, inject)
    return None
