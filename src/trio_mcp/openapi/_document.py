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

import yaml
from attrs import field, frozen
from referencing import Registry
from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import DRAFT202012

from ..types import JSONObject
from ..wire import is_object

__all__ = ["METHODS", "Description", "Source", "read_description"]

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"
"""The path or URL of a description in JSON or YAML, or its contents."""

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
VERSIONS: Final = ("3.0", "3.1", "3.2")
MAX_BYTES: Final = 64 * 2**20
"""The size of the largest description that is read from a URL."""
_MOST_REFERENCES: Final = 100
"""The number of references in a row after which they are considered endless."""


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

    def __attrs_post_init__(self) -> None:
        stated = self.document.get("openapi")
        version = ".".join(stated.split(".")[:2]) if isinstance(stated, str) else None
        if version not in VERSIONS:
            what = "is Swagger 2.0" if "swagger" in self.document else f"states the version {stated!r}"
            raise ValueError(f"{self.where}: {what}; OpenAPI {', '.join(VERSIONS)} are supported")
        object.__setattr__(self, "version", version)
        resource = DRAFT202012.create_resource(self.document)
        object.__setattr__(self, "_registry", Registry[Any]().with_resource("", resource))

    def lookup(self, reference: object, place: str) -> Any:
        """Return what a reference leads to.

        Raises:
            ValueError: it leads out of the description, or to nothing.
        """
        if not isinstance(reference, str):
            raise ValueError(f"{place}: $ref must be a string")
        if not reference.startswith("#"):
            raise ValueError(f"{place}: {reference!r} leads out of the description; such references are not followed")
        try:
            return self._registry.resolver().lookup(reference).contents
        except (Unresolvable, PointerToNowhere, NoSuchAnchor):
            raise ValueError(f"{place}: {reference!r} leads to nothing") from None

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

    def operations(self) -> Iterator[tuple[str, str, JSONObject, JSONObject]]:
        """Yield the method, the path, the path item and the description of each operation.

        Raises:
            ValueError: the paths are not what they must be.
        """
        paths = self.document.get("paths", {})
        if not is_object(paths):
            raise ValueError(f"{self.where}: paths: expected an object")
        for path, item in paths.items():
            if not path.startswith("/"):
                continue  # an extension of the format: x-...
            members = self.resolved(item, f"{self.where}: paths.{path}")
            for method in METHODS:
                if method in members:
                    yield method, path, members, self.resolved(members[method], f"{self.where}: paths.{path}.{method}")


def read_description(source: Source) -> Description:
    """Read a description; a URL is fetched while the caller waits.

    Raises:
        OSError: the file cannot be read, or the URL cannot be fetched.
        ValueError: it is not a description of a supported version.
    """
    if isinstance(source, Mapping):
        return Description("the description", dict(source))
    where = os.fspath(source)
    text = _fetched(where) if where.startswith(("http://", "https://")) else Path(where).read_bytes()
    return Description(where, _parsed(text, where))


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
    """A safe loader that reads YAML 1.2 as far as JSON goes: dates, and words like ``on`` and ``no``, are text."""


_OTHERWISE = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool"}
_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] not in _OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
cast("Any", _Loader).add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
