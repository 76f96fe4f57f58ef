"""Log messages of the server, as lines on standard error."""

from __future__ import annotations

from .. import types
from ..client import OnLog
from ._notes import Notes
from ._output import json_line
from ._visible import visible_line

__all__ = ["log_line", "log_lines"]


def log_lines(notes: Notes) -> OnLog:
    """Return what shows log messages."""

    async def show(message: types.LoggingMessageNotificationParams) -> None:
        async with notes.floor:
            notes.say(log_line(message))

    return show


def log_line(message: types.LoggingMessageNotificationParams) -> str:
    """Return a log message on one line, such as ``[warning] disk: nearly full``."""
    words = message.data if isinstance(message.data, str) else json_line(message.data)
    source = "" if message.logger is None else f"{message.logger}: "
    return visible_line(f"[{message.level}] {source}{words}")
