"""The tools of clients for asyncio, for the interface of a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import llm
from ..llm import Approve, OnCallProgress
from ._client import MIRRORS

__all__ = ["Approve", "OnCallProgress", "Toolkit", "load_toolkit"]

if TYPE_CHECKING:  # with the same signatures as here
    from ..llm import Toolkit, load_toolkit
else:
    Toolkit = MIRRORS.class_of(llm.Toolkit)
    load_toolkit = MIRRORS.of_client(llm.load_toolkit)
