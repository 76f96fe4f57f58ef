"""Asking the user or the client in the middle of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._facade import lazy_names

if TYPE_CHECKING:
    from ._ask import Accepted as Accepted
    from ._ask import Ask as Ask
    from ._ask import Declined as Declined
    from ._ask import Dismissed as Dismissed
    from ._ask import Elicit as Elicit
    from ._ask import ListRoots as ListRoots
    from ._ask import Sample as Sample
    from ._ask import Visit as Visit
    from ._ask import url_elicitation_required as url_elicitation_required
    from ._asker import ASKABLE as ASKABLE
    from ._asker import Asker as Asker
    from ._asker import AskingMode as AskingMode
    from ._asker import AskingServing as AskingServing
    from ._asker import DoneOnce as DoneOnce
    from ._asker import PastRounds as PastRounds
    from ._asker import Seals as Seals
    from ._asker import interim_result as interim_result
    from ._asker import pin as pin
    from ._asker import resume as resume
    from ._forms import Choices as Choices
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_ask": (
                "Accepted", "Ask", "Declined", "Dismissed", "Elicit", "ListRoots", "Sample", "Visit",
                "url_elicitation_required",
            ),
            "_asker": (
                "ASKABLE", "Asker", "AskingMode", "AskingServing", "DoneOnce", "PastRounds", "Seals",
                "interim_result", "pin", "resume",
            ),
            "_forms": ("Choices",),
        },
    )  # fmt: skip
