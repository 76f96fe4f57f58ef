"""Titles for the texts that a form lets people choose from: `Choices`, and annotations that know what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_origin

from attrs import define, evolve, field, frozen

from ._annotations import Annotations
from ._annotations_scalars import Inexpressible, Shape

__all__ = ["Choices", "FormAnnotations"]


def _options(titles: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    given: Any = titles
    options: tuple[Any, ...] = tuple(given.items()) if issubclass(type(given), Mapping) else ()
    if not options or not all(isinstance(text, str) for option in options for text in option):
        raise TypeError(f"Choices({titles!r}): give a mapping of texts to their titles, with one of them at least")
    return options


@frozen
class Choices:
    """Texts to choose from in a form, each with the title that people see in its place.

    To be put beside the type of a member of a class that `Context.elicit` is given::

        size: Annotated[str, Choices({"s": "Small", "m": "Medium"})]
        extras: Annotated[list[str], Choices({"c": "Cheese", "h": "Ham"})]

    is a choice of one, and a choice of several. The members hold ``"s"`` or ``["c", "h"]``. In place of `str` there may
    be a ``Literal`` or an enumeration of the same texts.

    Args:
        titles: the title of each text, in the order to be shown.

    Raises:
        TypeError: there is none, or something is no text.

    Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
    """

    options: tuple[tuple[str, str], ...] = field(converter=_options, alias="titles")
    """Each text with its title."""

    def titled(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a type with these as the only values.

        Raises:
            Inexpressible: it is a type of something else than texts, of other texts, or has its titles already.
        """
        if "anyOf" in schema:
            arms = [arm if arm == {"type": "null"} else self.titled(arm) for arm in schema["anyOf"]]
            return {**schema, "anyOf": arms}
        if schema.get("type") == "array":
            return {**schema, "items": self.titled(schema.get("items", {}))}
        if schema.get("type") != "string":
            raise Inexpressible("Choices are for str and list[str], and for Literal and enumerations of texts")
        if "oneOf" in schema:
            raise Inexpressible("Choices are given twice")
        texts = [text for text, _ in self.options]
        if set(schema.get("enum", texts)) != set(texts):
            raise Inexpressible(f"the Choices {texts} are not the values of the type, {schema['enum']}")
        rest = {keyword: fact for keyword, fact in schema.items() if keyword != "enum"}
        return {**rest, "oneOf": [{"const": text, "title": title} for text, title in self.options]}


@define(eq=False)
class FormAnnotations(Annotations):
    """Annotations among which `Choices` counts."""

    def shape(self, annotation: Any) -> Shape:
        """Return the JSON form of an annotation; see `Annotations.shape`."""
        shape = super().shape(annotation)
        if get_origin(annotation) is Annotated:
            for note in annotation.__metadata__:
                if isinstance(note, Choices):
                    shape = evolve(shape, schema=note.titled(shape.schema))
        return shape
