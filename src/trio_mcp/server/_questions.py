"""Questions to the user of the client: a form to fill in, or a page to visit. `Context.elicit` asks one of them.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from attrs import field, frozen

from .. import types
from .._errors import McpError, MissingCapability
from ..peer import ExchangeContext
from ..wire import INVALID_PARAMS, JsonObject
from ._ask import WITH_ELICITATION, WITH_MODES, Ask, missing, structured
from ._forms import form_of
from ._signature import ArgumentFaults

__all__ = [
    "Accepted",
    "Declined",
    "Dismissed",
    "Elicit",
    "Visit",
    "url_elicitation_required",
]

URL_ELICITATION_REQUIRED = -32042
"""Only 2025-11-25 has this error."""

_WITH_IDS = "2025-11-25"
"""Only there a question by URL has an id of its own."""

T = TypeVar("T")


@frozen
class Accepted(Generic[T]):
    """The user answered."""

    value: T
    """What the form holds, as an instance of the class that was asked for; None for a visit to a page."""


@frozen
class Declined:
    """The user said no."""


@frozen
class Dismissed:
    """The user closed the question without an answer."""


@frozen
class Elicit(Ask["Accepted[T] | Declined | Dismissed"]):
    """A question to the user, in the form of fields to fill in; see `Context.elicit`."""

    message: str
    form: type[T] | Mapping[str, Any]
    key: str | None = field(default=None, kw_only=True)
    method: str = field(default="elicitation/create", init=False)

    def params(self, revision: str) -> JsonObject:
        """Return the message and the form, in the terms of the revision."""
        mode = {} if revision < WITH_MODES else {"mode": "form"}
        return {**mode, "message": self.message, "requestedSchema": form_of(self.form).requested_schema(revision)}

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """It must be able to show forms."""
        return missing(context, "elicitation", "form", since=WITH_ELICITATION, bare_means=True)

    def read(self, answer: Any, revision: str) -> Accepted[T] | Declined | Dismissed:
        """Return what the user did, and said."""
        declined = _not_accepted(answer, revision)
        if declined is not None:
            return declined
        content: Any = answer.get("content")
        try:
            value: Any = form_of(self.form).load({} if content is None else content)
        except ArgumentFaults as exc:
            faults = "; ".join(fault.replace("$", "$.content", 1) for fault in exc.faults)
            raise McpError(INVALID_PARAMS, f"the answer does not fit the form: {faults}") from None
        return Accepted(value)


@frozen
class Visit(Ask["Accepted[None] | Declined | Dismissed"]):
    """A request that the user visit a page, for what must not pass through the client; see `Context.elicit`."""

    message: str
    url: str
    elicitation_id: str = field(factory=lambda: secrets.token_urlsafe(16), kw_only=True)
    key: str | None = field(default=None, kw_only=True)
    method: str = field(default="elicitation/create", init=False)

    def __attrs_post_init__(self) -> None:
        if not is_web_address(self.url):
            raise ValueError(f"url={self.url!r} is no address of a page: it begins with 'https://' and names a host")

    def params(self, revision: str) -> JsonObject:
        """Return the message, the address and, where the revision has it, the id."""
        id = {"elicitationId": self.elicitation_id} if revision == _WITH_IDS else {}
        return {"mode": "url", "message": self.message, "url": self.url, **id}

    def lacking(self, context: ExchangeContext) -> MissingCapability | None:
        """It must be able to open pages."""
        return missing(context, "elicitation", "url", since=WITH_MODES)

    def read(self, answer: Any, revision: str) -> Accepted[None] | Declined | Dismissed:
        """Return what the user did."""
        return _not_accepted(answer, revision) or Accepted(None)


def is_web_address(text: str) -> bool:
    """Tell whether *text* is the address of a page that a browser can open."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"https", "http"} and bool(parts.hostname) and text.isprintable() and " " not in text


def url_elicitation_required(visits: Sequence[Visit], revision: str) -> Exception:
    """Return the error that lists the pages to visit before the request can be made again."""
    if revision != _WITH_IDS:
        return MissingCapability(
            f"the pages to visit cannot be listed in an error of revision {revision}", {"elicitation": {"url": {}}}
        )
    listed = [visit.params(revision) for visit in visits]
    text = "; ".join(f"{visit.message} ({visit.url})" for visit in visits)
    return McpError(URL_ELICITATION_REQUIRED, f"visit these pages first: {text}", {"elicitations": listed})


def _not_accepted(answer: Any, revision: str) -> Declined | Dismissed | None:
    action = structured(answer, types.ElicitResult, revision).action
    if action == "accept":
        return None
    return Declined() if action == "decline" else Dismissed()
