"""Shows a person the page where they sign in: in the system's browser, or as a line that they can copy.

The address comes from an authorization server. It reaches programs of the system, and a terminal, so only the
characters of a URL are let through.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations
"""

from __future__ import annotations

import os
import re
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import trio

from .._errors import AuthorizationFailed

__all__ = ["host_of", "open_browser", "print_url"]

_PAGE = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,16384}")
"""The characters that RFC 3986 knows: no space, no quotation mark, no control character, no other alphabet."""


def _print(text: str) -> None:
    with suppress(OSError, AttributeError):  # nobody reads it, or the stream is closed: a browser may be there still
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


async def open_browser(url: str, *, say: Callable[[str], None] = _print) -> None:
    """Show a page in the system's browser, and say its address as well: nobody can tell whether a browser has come up.

    A browser that lives in the terminal, which is the application's, is left out unless the environment variable
    ``BROWSER`` names it. The thread that starts the browser is abandoned on cancellation.

    Args:
        url: an ``http`` or ``https`` URL.
        say: says it to the person; by default on standard error.

    Raises:
        AuthorizationFailed: *url* is none that may be shown.
    """
    host = host_of(url)
    say(f"To sign in at {host}, use the page that your browser opens, or visit:\n    {url}")
    if not await trio.to_thread.run_sync(_open, url, abandon_on_cancel=True):
        say("(no browser could be opened here)")


async def print_url(url: str, *, say: Callable[[str], None] = _print) -> None:
    """Say the address of a page, where there is no browser to show it in.

    Args:
        url: an ``http`` or ``https`` URL.
        say: says it to the person; by default on standard error.

    Raises:
        AuthorizationFailed: *url* is none that may be shown.
    """
    host = host_of(url)
    await trio.lowlevel.checkpoint()
    say(f"To sign in at {host}, visit:\n    {url}")


def host_of(url: str) -> str:
    """Return whose page it is.

    Raises:
        AuthorizationFailed: *url* is none that may be shown.
    """
    with suppress(ValueError):
        host = urlsplit(url).hostname
        if host and _PAGE.fullmatch(url):
            return host
    raise AuthorizationFailed("the address of the sign-in page is no http or https URL that a browser may be given")


def _open(url: str) -> bool:
    """Start a browser, without a shell; return whether there is one."""
    try:
        browser = webbrowser.get()
        if type(browser) is webbrowser.GenericBrowser and "BROWSER" not in os.environ:
            return False  # one for terminals, which the standard library takes where there is no screen
        return browser.open(url)
    except (webbrowser.Error, OSError):
        return False
