"""The docstrings of the generated classes and aliases: the text of `prose`, revisions, a link to the specification."""

from __future__ import annotations

import re
from typing import Protocol

from codegen.choices import MESSAGE
from codegen.extension_prose import EXTENSION_CLASSES, EXTENSION_MEMBERS
from codegen.extensions import EXTENSIONS
from codegen.merge import Merged
from codegen.prose import ALIASES, CLASSES, MEMBERS, MEMBERS_ANYWHERE, MESSAGES

_SPECIFICATION = "https://modelcontextprotocol.io/specification"


class Described(Protocol):
    """A source of docstrings."""

    def of_class(self, name: str) -> str:
        """Return the docstring of a class or an alias."""
        ...

    def of_member(self, name: str, member: str) -> str | None:
        """Return the docstring of a member; None if its name and type say enough."""
        ...


class ExtensionDocs:
    """The source of the docstring of each class and member of an extension.

    Args:
        name: the extension.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def of_class(self, name: str) -> str:
        """Return the purpose of a class or an alias, and the link to the page of the extension."""
        text = EXTENSION_CLASSES.get(self._name, {}).get(name) or _derived(name)
        return f"{text}\n\nSpecification: {EXTENSIONS[self._name].page}"

    def of_member(self, name: str, member: str) -> str | None:
        """Return the docstring of a member; None if its name and type say enough."""
        own = EXTENSION_MEMBERS.get(self._name, {})
        return own.get(f"{name}.{member}") or own.get(member) or MEMBERS_ANYWHERE.get(member)


class Docs:
    """The source of the docstring of each class and member of the core.

    Args:
        merged: the types to describe.
    """

    def __init__(self, merged: Merged) -> None:
        self._merged = merged
        self._newest = list(merged.profiles)[-1]

    def of_class(self, name: str) -> str:
        """Return the purpose of a class or an alias, the revisions that have it, and the link to the specification."""
        revisions = self._merged.revisions_of[name]
        purpose = CLASSES.get(name) or MESSAGES.get(name) or ALIASES.get(name) or _derived(name)
        text = f"{purpose}\n\n{self._revisions(revisions)}"
        if name == MESSAGE:
            return text
        return f"{text}\nSpecification: {_SPECIFICATION}/{revisions[-1]}/schema#{self._anchor(name).lower()}"

    def of_member(self, name: str, member: str) -> str | None:
        """Return the docstring of a member; None if its name and type say enough."""
        return MEMBERS.get(f"{name}.{member}") or MEMBERS_ANYWHERE.get(member)

    def _revisions(self, revisions: list[str]) -> str:
        known = list(self._merged.profiles)
        gapless = known[known.index(revisions[0]) : known.index(revisions[-1]) + 1] == revisions
        if len(revisions) == 1:
            return f"In revision {revisions[0]} only."
        if not gapless:
            return f"In revisions {', '.join(revisions)}."
        if revisions[-1] == self._newest:
            return "In every revision." if revisions == known else f"Since revision {revisions[0]}."
        return f"In revisions {revisions[0]} to {revisions[-1]}."

    def _anchor(self, name: str) -> str:
        """Return the definition under which the specification describes a class."""
        seen = {name}
        while (owner := self._merged.hoisted_from.get(name)) is not None and owner not in seen:
            name = owner
            seen.add(owner)
        return name


def _derived(name: str) -> str:
    """Return a docstring for a class or an alias that `prose` does not describe: its name in words."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return f"{words[0]}{words[1:].lower()}, as the specification defines it."
