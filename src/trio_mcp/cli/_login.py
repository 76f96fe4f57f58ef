"""Signs a person in, where the command line says `--login`: with the browser, once for all commands that follow."""

from __future__ import annotations

from functools import partial

from ..abc import ClientAuth
from ..auth import FileTokenStorage, OAuth, open_browser
from ._output import Notes

__all__ = ["sign_in"]


def sign_in(notes: Notes) -> ClientAuth:
    """Return what shows a server who asks, and asks the person where that is not known yet.

    Tokens are kept in the user's own file, where all programs of this user that use the default find them.
    """
    show = partial(open_browser, say=notes.say)
    return OAuth(client_name="trio-mcp", storage=FileTokenStorage(), show=show)
