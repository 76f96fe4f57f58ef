"""Which server a command line means: a command, a URL, or an entry of an ``mcpServers`` file."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from difflib import get_close_matches
from pathlib import Path

from ..abc import ClientAuth
from ..client import Client, ClientOptions, open_client, open_http_client, open_stdio_client, read_server_table
from ._errors import UsageError

__all__ = ["nearest", "open_target", "read_file"]


async def open_target(
    options: argparse.Namespace, client_options: ClientOptions, auth: ClientAuth | None
) -> AbstractAsyncContextManager[Client]:
    """Return what connects to the server that is meant.

    Args:
        options: those of the command line.
        client_options: what the client is to do.
        auth: shows who asks; None where the server is told nothing but what the header fields say.

    Raises:
        UsageError: the file or the entry in it cannot be used, or header fields or a sign-in are asked for and of no
            use.
    """
    command: list[str] | None = options.target
    is_url = command is not None and len(command) == 1 and "://" in command[0]
    if options.header and not is_url:
        raise UsageError("--header goes with a URL after --; in a file, the entry has 'headers'")
    if command is None:
        path, name = options.config
        return await _open_entry(path, name, client_options, auth)
    if is_url:
        headers = _headers(options.header)
        if auth is not None and "authorization" in map(str.lower, headers):
            raise UsageError("--login and --header Authorization both say who asks: take one of them")
        return open_http_client(command[0], headers=headers, auth=auth, **client_options)
    if auth is not None:
        raise UsageError("--login goes with a server that is reached by a URL; this one is started here")
    return open_stdio_client(command, **client_options)


def _headers(given: Iterable[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon:
            raise UsageError("--header: expected NAME:VALUE")  # what it says may be a secret
        if name.strip().lower() in map(str.lower, headers):
            raise UsageError(f"--header {name.strip()} is there twice")
        headers[name.strip()] = value.strip()
    return headers


async def _open_entry(
    path: str, name: str, client_options: ClientOptions, auth: ClientAuth | None
) -> AbstractAsyncContextManager[Client]:
    try:
        table = await read_server_table(path)
        if name in table.disabled:
            raise UsageError(f"{path}: server {name!r} is disabled")
        if name not in table.entries:
            raise UsageError(f"{path}: no server {name!r}; {nearest(name, table.entries)}")
        opener = table.opener(name, auth=auth)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    return open_client(opener, **client_options)


def read_file(path: str) -> bytes:
    """Return what a file named on the command line holds.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a remark on the names that *name* may have been meant to be."""
    names = [*known]
    if not names:
        return "there are none"
    close = get_close_matches(name, names, n=3)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names[:20])}"
