"""The tools of clients for programs without async, for the interface of a language model."""

from __future__ import annotations

from .. import llm
from ..llm import Approve, OnCallProgress
from ._client import MIRRORS

__all__ = ["Approve", "OnCallProgress", "Toolkit", "load_toolkit"]

Toolkit = MIRRORS.class_of(llm.Toolkit)
load_toolkit = MIRRORS.of_client(llm.load_toolkit)
