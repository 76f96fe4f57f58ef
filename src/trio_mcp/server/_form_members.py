"""One member of a form, and how each revision writes it.

The differences between the revisions are all here:

===========================  ==============================  =======================================
what                         2025-06-18                      later
===========================  ==============================  =======================================
choice of one, with titles   ``enum`` and ``enumNames``      ``oneOf`` of ``const`` and ``title``
choice of several            none                            ``items`` with ``enum`` or ``anyOf``
default                      of yes-or-no members only       of every member
===========================  ==============================  =======================================

Where a schema was given with ``enumNames`` they stay: later revisions still take them.

Only 2025-11-25 knows a ``pattern``. To others it is not sent; answers are held to it nevertheless, so the description
of the member should say in words what is wanted.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from .._errors import MissingCapability
from .._schema_faults import render_path
from ..types import METHODS, REVISIONS
from ._annotations_objects import MISSING

__all__ = ["FormMember", "has_every_member", "missing_form"]

_WITH_PATTERN: Final = "2025-11-25"
_WITH_EVERY_MEMBER: Final = frozenset(REVISIONS[REVISIONS.index("2025-11-25") :])


def has_every_member(revision: str) -> bool:
    """Say whether a revision has all kinds of members, where the first one with forms had fewer.

    Raises:
        MissingCapability: it has no forms at all.
        KeyError: there is no such revision.
    """
    if "elicitation/create" not in METHODS[revision]:
        raise missing_form(f"revision {revision} has no questions to the user")
    return revision in _WITH_EVERY_MEMBER


def missing_form(reason: str) -> MissingCapability:
    """Return the error for a form that the other side cannot be asked to fill in."""
    return MissingCapability(reason, {"elicitation": {"form": {}}})


@frozen
class FormMember:
    """A member of a form."""

    name: str

    type: str
    """JSON Schema's name for the kind of its value."""

    facts: Mapping[str, Any]
    """Its title, description and limits, by the keywords that publish them."""

    values: Sequence[str] = ()
    """The texts to choose from; empty where it is no choice."""

    titles: Sequence[str] | None = None
    """Of the texts to choose from, in their order."""

    has_names: bool = False
    """Whether its author has written the titles as ``enumNames``."""

    default: Any = MISSING
    """What the form proposes; `MISSING` where it proposes nothing."""

    def schema(self, revision: str) -> dict[str, Any]:
        """Return what peers of a revision get to see.

        Raises:
            MissingCapability: the revision has no such member, or no forms.
        """
        is_complete = has_every_member(revision)
        if self.type == "array" and not is_complete:
            raise missing_form(
                f"revision {revision} has no multiple choice, which {render_path([self.name])} needs",
            )
        facts = {name: fact for name, fact in self.facts.items() if name != "pattern" or revision == _WITH_PATTERN}
        schema = {"type": self.type, **facts, **self._choice(is_complete)}
        if self.default is not MISSING and (is_complete or self.type == "boolean"):
            schema["default"] = self.default
        return schema

    def judged(self) -> dict[str, Any]:
        """Return a schema that takes what the published ones take, and names what is wrong in fewer words."""
        if not self.values:
            return {"type": self.type, **self.facts}
        values = {"enum": list(self.values)}  # with the type beside it, a wrong type would be named twice
        return {"type": "array", **self.facts, "items": values} if self.type == "array" else values

    def _choice(self, has_options: bool) -> dict[str, Any]:
        if self.titles is None:
            return self._untitled()
        if self.has_names or not has_options:
            return {"enum": list(self.values), "enumNames": list(self.titles)}
        options = [{"const": value, "title": title} for value, title in zip(self.values, self.titles, strict=True)]
        return {"items": {"anyOf": options}} if self.type == "array" else {"oneOf": options}

    def _untitled(self) -> dict[str, Any]:
        values = list(self.values)
        if self.type == "array":
            return {"items": {"type": "string", "enum": values}}
        return {"enum": values} if values else {}
