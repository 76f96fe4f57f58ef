"""What a server may ask of us: the application's callbacks, and the capabilities that follow from them.

A capability is declared when its callback is given, not otherwise.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from attrs import field, frozen

from .. import types
from ._consent import Consent

__all__ = ["FORMS_ALONE", "Callbacks", "ElicitMode", "OnElicit", "OnElicitComplete", "OnLog", "OnSample", "Roots"]

ElicitMode: TypeAlias = Literal["form", "url"]
"""How a user can be asked: with fields to fill in, or by a page to visit."""
FORMS_ALONE: Sequence[ElicitMode] = ("form",)

# The classes by their names, because making those of all questions takes as long as all else that an import does.
OnElicit: TypeAlias = Callable[["types.ElicitRequestParams"], Awaitable["types.ElicitResult"]]
"""Asks the user what the server wants to know."""
OnElicitComplete: TypeAlias = Callable[["types.ElicitationCompleteNotificationParams"], Awaitable[None]]
"""Hears that the user is done with a page."""
OnSample: TypeAlias = Callable[["types.CreateMessageRequestParams"], Awaitable["types.CreateMessageResult"]]
"""Asks the host's model what the server wants it to say."""
OnLog: TypeAlias = Callable[["types.LoggingMessageNotificationParams"], Awaitable[None]]
"""Takes one log message of the server."""
Roots: TypeAlias = "Sequence[types.Root] | Callable[[], Awaitable[Sequence[types.Root]]]"
"""The folders and files a server may care about, as ``file://`` URIs; a function is asked each time."""


def _present(is_declared: bool) -> types.JSONObject | None:
    return {} if is_declared else None


def _check_files(roots: Sequence[types.Root]) -> None:
    for root in roots:
        if not root.uri.startswith("file://"):
            raise ValueError(f"root {root.uri!r} is no file: its URI must begin with 'file://'")


def _check_given(_: object, __: object, roots: Roots | None) -> None:
    if roots is not None and not callable(roots):
        _check_files(roots)


@frozen(kw_only=True)
class Callbacks:
    """What the application answers, and how. Each is cancelled with the question."""

    on_elicit: OnElicit | None = None
    elicit_modes: Sequence[ElicitMode] = FORMS_ALONE
    apply_form_defaults: bool = False
    on_elicit_complete: OnElicitComplete | None = None
    on_sample: OnSample | None = None
    sample_with_tools: bool = False
    sample_with_context: bool = False
    roots: Roots | None = field(default=None, validator=_check_given)
    on_log: OnLog | None = None
    consent: Consent | None = None

    @property
    def hears(self) -> bool:
        """Whether any of them hears what a server of a handshake says outside of requests."""
        each = (self.on_elicit, self.on_elicit_complete, self.on_sample, self.roots, self.on_log)
        return any(callback is not None for callback in each)

    def capabilities(self) -> types.ClientCapabilities:
        """Return what follows from them."""
        modes = self.elicit_modes
        elicitation = types.ElicitationCapability(form=_present("form" in modes), url=_present("url" in modes))
        sampling = types.SamplingCapability(
            tools=_present(self.sample_with_tools), context=_present(self.sample_with_context)
        )
        return types.ClientCapabilities(
            elicitation=None if self.on_elicit is None else elicitation,
            sampling=None if self.on_sample is None else sampling,
            roots=None if self.roots is None else types.RootsCapability(list_changed=True),
        )

    async def listed_roots(self) -> Sequence[types.Root]:
        """Return the roots as they are now.

        Raises:
            ValueError: the application's function named one that is no file.
        """
        assert self.roots is not None
        if not callable(self.roots):
            return self.roots
        roots = await self.roots()
        _check_files(roots)
        return roots
