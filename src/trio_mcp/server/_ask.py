"""What all questions of a handler have in common: a method, its params, what they need, and how to read the answer."""

from __future__ import annotations

import abc
from typing import Any, Generic, TypeVar

from .. import types
from .._errors import McpError, MissingCapability, StructureError
from ..peer import ExchangeContext
from ..wire import INVALID_PARAMS, JsonObject, is_object

__all__ = ["WITH_ELICITATION", "WITH_MODES", "Ask", "missing", "structured"]

WITH_ELICITATION = "2025-06-18"
"""The first revision in which users are asked."""
WITH_MODES = "2025-11-25"
"""Since then there are questions by URL, and models that use tools."""

T = TypeVar("T")
A_co = TypeVar("A_co", covariant=True)


class Ask(abc.ABC, Generic[A_co]):
    """One question to the client; its type says what the answer is."""

    method: str
    key: str | None
    """Names the question where its text does not do so alone; see `Context.elicit`."""

    @abc.abstractmethod
    def params(self, revision: str) -> JsonObject:
        """Return the params of the request; raises `MissingCapability` where the revision cannot say it."""

    @abc.abstractmethod
    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """Say what the client would have to declare for this to be asked; None if it has."""

    @abc.abstractmethod
    def read(self, answer: Any, revision: str) -> A_co:
        """Return what the handler gets for the client's answer; raises `McpError` where it is none."""


def structured(answer: Any, cls: type[T], revision: str) -> T:
    """Return an answer as an instance of *cls*; raises `McpError` with every fault where it does not fit."""
    try:
        return types.structure(answer, cls, revision=revision)
    except StructureError as exc:
        raise McpError(INVALID_PARAMS, f"the answer does not fit: {'; '.join(exc.faults)}") from None


def missing(
    context: ExchangeContext,
    name: str,
    member: str | None = None,
    *,
    since: str = types.REVISIONS[0],
    bare_means: bool = False,
) -> MissingCapability | None:
    """Say that a capability of the client is missing; None if it is there.

    Args:
        name: the capability.
        member: what of it is needed.
        since: the first revision that has it.
        bare_means: whether a capability without any member means this one.
    """
    needed = name if member is None else f"{name}.{member}"
    required: JsonObject = {name: {} if member is None else {member: {}}}
    if context.revision < since:
        return MissingCapability(f"the client cannot be asked: revision {context.revision} has no {needed!r}", required)
    declared = context.capabilities.get(name)
    if is_object(declared) and (member is None or member in declared or (bare_means and not _modes(declared))):
        return None
    return MissingCapability(f"the client cannot be asked: it has not declared {needed!r}", required)


def _modes(declared: JsonObject) -> bool:
    return "form" in declared or "url" in declared
