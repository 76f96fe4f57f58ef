"""Docstrings of the public names: each exists, and describes every parameter, attribute and exception.

The first tests hold the rules for the whole package; the last ones show that each rule finds what violates it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import attrs
import pytest
from attrs import define, field

import trio_mcp
from trio_mcp._mirrors import Mirror
from website import PAGES, attribute_texts, class_text, is_described, names_on, parameters_of, value_text

UNRAISED = {"AssertionError", "NotImplementedError", "StopAsyncIteration", "StopIteration"}
"""Exceptions that say that the program is wrong, or that belong to the protocols of Python."""


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield the public classes and functions with their names, except for the generated types."""
    seen: set[int] = set()
    for page in PAGES:
        for name in names_on(page) if not page.startswith("types") else ():
            module, _, last = name.rpartition(".")
            value = getattr(import_module(module), last)
            if (inspect.isclass(value) or inspect.isfunction(value)) and id(value) not in seen:
                seen.add(id(value))
                yield name, value


def methods(name: str, cls: type) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield the public methods that a class defines: the name, the function, and the text about it in all classes."""
    for key, member in vars(cls).items():
        function = getattr(member, "__func__", member)  # of class methods and static methods
        if key.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("trio_mcp"):
            continue
        if issubclass(cls, Mirror):  # its methods have the text of those that they mirror
            continue
        inherited = [vars(base)[key] for base in cls.__mro__ if key in vars(base)]
        yield f"{name}.{key}", function, "\n".join(inspect.getdoc(each) or "" for each in inherited)


def public_values() -> Iterator[str]:
    """Yield the names of the public constants and aliases."""
    for page in PAGES:
        for name in names_on(page):
            module, _, last = name.rpartition(".")
            value = getattr(import_module(module), last)
            if not inspect.isclass(value) and not inspect.isfunction(value):
                yield name


OBJECTS = dict(public_objects())
CLASSES: dict[str, type] = {name: value for name, value in OBJECTS.items() if inspect.isclass(value)}
FUNCTIONS: list[tuple[str, Callable[..., Any], str]] = [
    *((name, value, inspect.getdoc(value) or "") for name, value in OBJECTS.items() if inspect.isfunction(value)),
    *(found for name, value in CLASSES.items() for found in methods(name, value)),
]
TEXTS = {name.removeprefix("trio_mcp."): text for name, _, text in FUNCTIONS}
_REFERRED = re.compile(r"(?:see|as|as of|of|what) `([\w.]+)`")
_RIDDLE = re.compile(r"(?:What|Who|Whose|Where|Whether|How)\b")


def whole_text(name: str, text: str) -> str:
    """Return the text about a function, with the texts to which it refers for what they have in common.

    It refers to a method of its own class by the bare name, and to others as `Client.tools` or `open_client`.
    """
    owner = name.removeprefix("trio_mcp.").rpartition(".")[0]
    places = [place for found in _REFERRED.findall(text) for place in (f"{owner}.{found}", found)]
    return "\n".join([text, *(TEXTS[place] for place in places if place in TEXTS)])


def unnamed_parameters(function: Callable[..., Any], text: str) -> list[str]:
    """Return the parameters that the docstring does not name; `**options` may be described in any words."""
    parameters = inspect.signature(function).parameters.values()
    named = [each.name for each in parameters if each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}]
    return [name for name in named if name not in {"self", "cls"} and not is_named(name, text)]


def is_named(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def raised_by(function: Callable[..., Any]) -> set[str]:
    """Return the names of the exception classes that the function itself raises, in its own lines."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    own = [node for node in walk_body(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    names = {ast.unparse(node.exc.func).rpartition(".")[2] for node in own if isinstance(node.exc, ast.Call)}
    classes = {name for name in names if hasattr(builtins, name) or hasattr(trio_mcp, name)}
    return classes - UNRAISED


def walk_body(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside a function, but not those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from walk_body(child)


def unlisted_exceptions(function: Callable[..., Any], text: str) -> list[str]:
    """Return what the function raises and the section about exceptions does not name, nor a base class of it."""
    section = "".join(text.split("Raises:")[1:])
    raised = {name: getattr(builtins, name, None) or getattr(trio_mcp, name) for name in raised_by(function)}
    return [name for name, cls in raised.items() if not any(is_named(base.__name__, section) for base in cls.__mro__)]


def undescribed_attributes(cls: type[Any]) -> list[str]:
    """Return the public attributes without a text below them, and the parameters that no text describes."""
    texts, text = attribute_texts(cls), class_text(cls)
    declared = [name for base in cls.__mro__ for name in vars(base).get("__annotations__", ()) if is_own(base)]
    made = is_made(cls)
    parameters = [each.name for each in (parameters_of(cls) if made else None) or () if each.name not in UNNAMED]
    public = [name for name in dict.fromkeys([*declared, *parameters]) if not name.startswith("_")]
    return [name for name in public if name not in texts and not is_described(name, text) and not in_marks(name, text)]


def is_made(cls: type[Any]) -> bool:
    """Return True if the class has attributes that are set when an instance is made."""
    return attrs.has(cls) or issubclass(cls, BaseException)


UNNAMED = {"args", "kwargs"}
"""The parameters of exceptions of Python."""


def is_own(cls: type) -> bool:
    return not cls.__module__.startswith(("builtins", "typing", "abc", "collections", "trio."))


def in_marks(name: str, text: str) -> bool:
    """Return True if a text names an attribute in marks, as in "`tool` is the name of the tool", or *tool*."""
    return re.search(rf"[`*]{name}[`*]", text) is not None


def silent_members(cls: type) -> list[str]:
    """Return the public methods and properties of a class without a docstring."""
    members = {key: each for key, each in vars(cls).items() if inspect.isfunction(each) or isinstance(each, property)}
    return [key for key, each in members.items() if not key.startswith("_") and not inspect.getdoc(each)]


def riddles(cls: type) -> list[str]:
    """Return the docstrings of a class, its attributes, methods and properties that open with a question word."""
    texts = [cls.__doc__, *attribute_texts(cls).values()]
    texts += [inspect.getdoc(each) for key, each in vars(cls).items() if not key.startswith("_") and callable(each)]
    texts += [each.__doc__ for each in vars(cls).values() if isinstance(each, property)]
    return [text for text in texts if text and _RIDDLE.match(text)]


@pytest.mark.parametrize("name", OBJECTS)
def test_a_public_name_and_its_members_have_docstrings(name: str) -> None:
    assert OBJECTS[name].__doc__
    assert not silent_members(CLASSES.get(name, object))


def test_public_constants_and_aliases_have_a_text() -> None:
    texts = {name: value_text(name) for name in public_values()}

    assert len(texts) > 20
    assert [name for name, text in texts.items() if not text or _RIDDLE.match(text)] == []


def test_docstrings_name_every_parameter() -> None:
    found = {name: unnamed_parameters(function, whole_text(name, text)) for name, function, text in FUNCTIONS}

    assert {name: parameters for name, parameters in found.items() if parameters} == {}


def test_docstrings_list_what_functions_raise() -> None:
    found = {name: unlisted_exceptions(function, whole_text(name, text)) for name, function, text in FUNCTIONS}

    assert {name: exceptions for name, exceptions in found.items() if exceptions} == {}


def test_docstrings_describe_the_attributes_and_parameters_of_classes() -> None:
    found = {name: undescribed_attributes(cls) for name, cls in CLASSES.items()}

    assert {name: attributes for name, attributes in found.items() if attributes} == {}


def test_docstrings_say_what_a_thing_is_instead_of_asking() -> None:
    asking = {name: riddles(cls) for name, cls in CLASSES.items()}
    functions = [name for name, _, text in FUNCTIONS if _RIDDLE.match(text)]

    assert {name: texts for name, texts in asking.items() if texts} == {}
    assert functions == []


def test_a_parameter_that_no_text_names_is_found() -> None:
    def add(first: int, second: int, *rest: int) -> int:
        """Return the sum of *first* and others."""
        return first + second + sum(rest)

    assert unnamed_parameters(add, add.__doc__ or "") == ["second"]


def test_a_text_that_is_referred_to_counts() -> None:
    assert "max_pages" in whole_text("trio_mcp.Client.resources", "Iterate over all resources; see `tools`.")
    assert "max_pages" not in whole_text("trio_mcp.Client.resources", "Iterate over all resources.")


def test_an_exception_that_is_not_listed_is_found() -> None:
    def parse(text: str) -> int:
        """Return the number. A LookupError is not among those in `Raises:` KeyError."""
        if not text:
            raise KeyError(text)
        if text == "-":
            raise ValueError(text)
        return int(text)

    def outer() -> Callable[[], None]:
        def inner() -> None:
            raise ValueError

        return inner

    assert unlisted_exceptions(parse, parse.__doc__ or "") == ["ValueError"]
    assert unlisted_exceptions(outer, "") == []


@define
class Badly:
    """What a test of this file rejects.

    Args:
        secret: the key.
    """

    size: int
    """Where it ends, in bytes."""
    colour: str
    _secret: str
    _hidden: int = field(default=0)

    @property
    def width(self) -> int:
        return self.size

    def draw(self) -> None:
        """How to draw."""


class BadError(Exception):
    """Raised if the tool failed; `tool` is its name."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(tool, reason)


class Named:
    """A class that is no class of attrs."""

    name: str
    key: str
    """The key."""


def test_an_attribute_or_parameter_without_a_text_is_found() -> None:
    assert undescribed_attributes(Badly) == ["colour"]
    assert undescribed_attributes(BadError) == ["reason"]
    assert undescribed_attributes(Named) == ["name"]


def test_a_property_without_a_docstring_is_found() -> None:
    assert silent_members(Badly) == ["width"]


def test_a_constant_without_a_text_is_found() -> None:
    assert value_text("trio_mcp.HttpRoute")
    assert value_text("trio_mcp.types.Missing") == ""
    assert value_text("trio_mcp.apps.EXTENSION") != value_text("trio_mcp.tasks._record.CHANGED")


def test_a_docstring_that_opens_with_a_question_word_is_found() -> None:
    assert [text.split()[0] for text in riddles(Badly)] == ["What", "Where", "How"]


def test_a_private_parameter_is_for_users_only_if_the_docstring_describes_it() -> None:
    assert [each.name for each in parameters_of(Badly) or ()] == ["size", "colour", "secret"]
    assert parameters_of(trio_mcp.Client) is None
    assert parameters_of(trio_mcp.Context) is None
    assert "name" in [each.name for each in parameters_of(trio_mcp.Server) or ()]
