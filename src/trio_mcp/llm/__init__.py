"""BETWEEN: tools for a language model's chat interface, and answers to the calls it makes. No model is known here."""

from ._functions import HasTools, ServerToolLike
from ._results import result_text
from ._toolkit import Approve, ToolCall, Toolkit, load_toolkit

__all__ = ["Approve", "HasTools", "ServerToolLike", "ToolCall", "Toolkit", "load_toolkit", "result_text"]
