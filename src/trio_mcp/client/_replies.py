"""What a question of the server is replied, whichever way it came: checks, consent, the callback, and checks again."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from attrs import define, evolve, field

from .. import types
from .._errors import ConsentRefused, LocalProtocolError, McpError
from ..wire import INVALID_PARAMS, METHOD_NOT_FOUND, JsonObject, sampling_content, sampling_faults
from ._callbacks import Callbacks
from ._consent import consented
from ._declared import undeclared_part
from ._forms import fitted_answer

__all__ = ["Replies"]

Question: TypeAlias = (
    "types.CreateMessageRequestParams | types.ElicitRequestParams | types.ListRootsRequestParams | None"
)
"""The params of a question; of those for roots there may be none."""
Reply: TypeAlias = "types.CreateMessageResult | types.ElicitResult | types.ListRootsResult"

R = TypeVar("R", "types.CreateMessageResult", "types.ElicitResult")


@define(eq=False)
class Replies:
    """The application's replies to the questions of one server."""

    callbacks: Callbacks
    _declared: types.ClientCapabilities = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._declared = self.callbacks.capabilities()

    def check(self, method: str, question: Question) -> None:
        """Refuse a question that breaks the rules, before anybody is asked.

        Raises:
            McpError: the refusal; its message names what was not declared, or every fault with its path.
        """
        for params, code in ((None, METHOD_NOT_FOUND), (question, INVALID_PARAMS)):
            missing = undeclared_part(self._declared, method, params)
            if missing is not None:
                raise McpError(code, f"{method!r}: this client has not declared {missing!r}")
        if isinstance(question, types.CreateMessageRequestParams):
            faults = [*sampling_faults(types.unstructure(question.messages))]
            if faults:
                raise McpError(INVALID_PARAMS, f"{method!r}: {'; '.join(faults)}")

    async def ask(self, question: Question) -> Reply:
        """Ask the application a question that has passed `check`.

        Raises:
            ConsentRefused: there is no consent to ask its model; its user is not asked either, and has declined.
            Exception: whatever the callback or the consent hook raises.
        """
        match question:
            case types.ElicitRequestFormParams() | types.ElicitRequestURLParams():
                return await self._elicit(question)
            case types.CreateMessageRequestParams():
                assert self.callbacks.on_sample is not None
                allowed = await consented(self.callbacks.consent, question)
                reply = await self.callbacks.on_sample(allowed)
                return _of_class(types.CreateMessageResult, "on_sample", reply)
            case _:
                return types.ListRootsResult(roots=await self.callbacks.listed_roots())

    async def _elicit(
        self, question: types.ElicitRequestFormParams | types.ElicitRequestURLParams
    ) -> types.ElicitResult:
        assert self.callbacks.on_elicit is not None
        try:
            allowed = await consented(self.callbacks.consent, question)
        except ConsentRefused:
            return types.ElicitResult(action="decline")
        reply = await self.callbacks.on_elicit(allowed)
        return _of_class(types.ElicitResult, "on_elicit", reply)

    def settle(self, question: Question, reply: Reply, revision: str) -> JsonObject:
        """Return a reply as it may leave.

        Raises:
            LocalProtocolError: it does not fit the question as the server has asked it, or the revision.
        """
        if isinstance(reply, types.ElicitResult):
            assert isinstance(question, types.ElicitRequestFormParams | types.ElicitRequestURLParams)
            reply = fitted_answer(question, reply, apply_defaults=self.callbacks.apply_form_defaults)
        elif isinstance(reply, types.CreateMessageResult):
            try:
                reply = evolve(reply, content=sampling_content(reply.content, revision))
            except ValueError as fault:
                raise LocalProtocolError(f"on_sample returned {fault}") from None
        json: JsonObject = types.unstructure(reply, revision=revision)
        return json


def _of_class(expected: type[R], callback: str, reply: object) -> R:
    if not isinstance(reply, expected):
        raise TypeError(f"{callback} returned {reply!r:.200}: expected types.{expected.__name__}")
    return reply
