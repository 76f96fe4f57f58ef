"""An OpenAPI description: read from a file, a URL or a mapping, with its references, path by path.

Rules of this file:

1. A reference leads to a place in the same description. Any other is refused, and nothing is fetched for it.
2. What is wrong is named with its place in the description, as in ``paths./pets.get.parameters[0]``.
3. A fault of one operation concerns that operation alone. A program finds out which operations cannot be used.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urljoin

import yaml
from attrs import field, frozen
from referencing import Registry
from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import DRAFT202012

from ..types import JSONObject
from ..wire import is_array, is_object

__all__ = ["Description", "OperationEntry", "Source", "read_description"]

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""The path or URL of a description in JSON or YAML, or its contents."""

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
VERSIONS: Final = ("3.0", "3.1", "3.2")
MAX_BYTES: Final = 64 * 2**20
"""The size of the largest description that is read from a URL."""
_MOST_REFERENCES: Final = 100
"""The number of references in a row after which they are considered endless."""


@frozen
class OperationEntry:
    """An operation as a description has it."""

    method: str
    """The method as it is sent, such as ``"GET"``."""
    path: str
    place: str
    """Its place in the description, for errors."""
    item: JSONObject
    """What holds for all operations of the path."""
    members: JSONObject

    @property
    def label(self) -> str:
        """The method and the path, as in ``GET /customers/{id}``."""
        return f"{self.method} {self.path}"


@frozen
class Description:
    """A description whose version is supported.

    Args:
        where: its name in errors: the path or the URL.
        document: its contents.
    """

    where: str
    document: JSONObject
    version: str = field(init=False)
    """Its version, such as ``"3.1"``."""
    _registry: Any = field(init=False)
    _own_url: str = field(init=False)
    """The URL that the description states for itself, or that it was read from; empty if there is none."""
    _found: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """What references lead to: a large description has some of them thousands of times."""

    def __attrs_post_init__(self) -> None:
        stated = self.document.get("openapi")
        version = ".".join(stated.split(".")[:2]) if isinstance(stated, str) else None
        if version not in VERSIONS:
            what = "is Swagger 2.0" if "swagger" in self.document else f"states the version {stated!r}"
            raise ValueError(f"{self.where}: {what}; OpenAPI {', '.join(VERSIONS)} are supported")
        object.__setattr__(self, "version", version)
        fetched_from = self.where if self.is_fetched else ""
        object.__setattr__(self, "_own_url", urljoin(fetched_from, str(self.document.get("$self", ""))))
        resource = DRAFT202012.create_resource(self.document)
        object.__setattr__(self, "_registry", Registry[Any]().with_resource("", resource))

    @property
    def is_fetched(self) -> bool:
        """True if it was read from a URL."""
        return _is_url(self.where)

    def lookup(self, reference: object, place: str) -> Any:
        """Return what a reference leads to.

        Raises:
            ValueError: it leads out of the description, or to nothing.
        """
        if not isinstance(reference, str):
            raise ValueError(f"{place}: $ref must be a string")
        if reference in self._found:
            return self._found[reference]
        document, _, fragment = reference.partition("#")
        if document and urljoin(self._own_url, document) != self._own_url:
            raise ValueError(f"{place}: {reference!r} leads out of the description; such references are not followed")
        try:
            found = self._registry.resolver().lookup(f"#{fragment}").contents
        except (Unresolvable, PointerToNowhere, NoSuchAnchor):
            raise ValueError(f"{place}: {reference!r} leads to nothing") from None
        self._found[reference] = found
        return found

    def resolved(self, value: object, place: str) -> JSONObject:
        """Return the object at a place, or the one that its references lead to.

        Raises:
            ValueError: there is no object, or a reference cannot be followed.
        """
        for _ in range(_MOST_REFERENCES):
            if not is_object(value):
                raise ValueError(f"{place}: expected an object")
            members = value
            if "$ref" not in members:
                return members
            value = self.lookup(members["$ref"], place)
        raise ValueError(f"{place}: the references never end")

    def operations(self) -> Iterator[OperationEntry]:
        """Yield the operations of all paths. Webhooks and callbacks are requests of the API itself, and none of these.

        Raises:
            ValueError: the paths are not what they must be.
        """
        paths = self.document.get("paths", {})
        if not is_object(paths):
            raise ValueError(f"{self.where}: paths: expected an object")
        for path, each in paths.items():
            if not path.startswith("/"):
                continue  # an extension of the format: x-...
            place = f"{self.where}: paths.{path}"
            item = self.resolved(each, place)
            for method in _METHODS:
                if method in item:
                    inner = f"{place}.{method}"
                    yield OperationEntry(method.upper(), path, inner, item, self.resolved(item[method], inner))
            others = item.get("additionalOperations")
            for method, members in others.items() if is_object(others) else ():
                inner = f"{place}.additionalOperations.{method}"
                yield OperationEntry(method, path, inner, item, self.resolved(members, inner))

    def server_url(self, members: JSONObject) -> str | None:
        """Return the URL of the first server that the description, a path or an operation states.

        Its variables have their default values. It may be relative, to that of the description itself.
        """
        servers = members.get("servers")
        first: Any = servers[0] if is_array(servers) and servers else None
        stated: Any = first.get("url") if is_object(first) else None
        if not isinstance(stated, str) or not stated:
            return None
        url, variables = stated, first.get("variables")
        for name, variable in variables.items() if is_object(variables) else ():
            if is_object(variable):
                url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
        return url


def read_description(source: Source) -> Description:
    """Read a description; a URL is fetched while the caller waits.

    Raises:
        OSError: the file cannot be read, or the URL cannot be fetched.
        ValueError: it is not a description of a supported version.
    """
    if isinstance(source, Mapping):
        return Description("the description", _plain(source))
    where = os.fspath(source)
    text = _fetched(where) if _is_url(where) else Path(where).read_bytes()
    return Description(where, _parsed(text, where))


def _plain(source: Mapping[str, Any]) -> JSONObject:
    """Return a copy of a mapping in which all objects and arrays are dicts and lists, as in JSON."""
    root: JSONObject = {}
    copies: dict[int, Any] = {id(source): root}
    waiting: list[tuple[Any, Any]] = [(source, root)]  # a stack, because recursion could go too deep
    while waiting:
        value, copy = waiting.pop()
        is_table = isinstance(copy, dict)
        entries: Any = value.items() if is_table else enumerate(value)
        for key, each in entries:
            inner: Any = copies.get(id(each), each)
            if inner is each and isinstance(each, Mapping | list | tuple):
                inner = {} if isinstance(each, Mapping) else []
                copies[id(cast("Any", each))] = inner
                waiting.append((cast("Any", each), inner))
            if is_table:
                copy[str(key)] = inner
            else:
                copy.append(inner)
    return root


def _is_url(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _fetched(url: str) -> bytes:
    import httpx2  # noqa: PLC0415 # most descriptions are files

    try:
        with httpx2.stream("GET", url, follow_redirects=True) as response:
            response.raise_for_status()
            text = bytearray()
            for part in response.iter_bytes():
                text += part
                if len(text) > MAX_BYTES:
                    raise ValueError(f"{url}: longer than {MAX_BYTES} bytes")
    except httpx2.HTTPError as error:
        raise OSError(f"{url}: {error}") from None
    return bytes(text)


def _parsed(text: bytes, where: str) -> JSONObject:
    """Return the object that JSON or YAML holds."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"{where}: nested too deeply") from None
    except ValueError:
        value = _parsed_yaml(text, where)
    if not is_object(value):
        raise ValueError(f"{where}: expected an object")
    return value


def _parsed_yaml(text: bytes, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 # a safe loader
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise ValueError(f"{where}{line}: neither JSON nor YAML: {getattr(error, 'problem', error)}") from None
    except RecursionError:
        raise ValueError(f"{where}: nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """A safe loader that reads YAML 1.2 as far as JSON goes: dates, words like ``on`` and ``no``, and keys are text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


_OTHERWISE = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"}
_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] not in _OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
cast("Any", _Loader).add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
