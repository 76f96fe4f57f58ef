"""What a server that checks tokens has to know of the authorization server that issues them.

Specification: https://www.rfc-editor.org/rfc/rfc8414 and https://openid.net/specs/openid-connect-discovery-1_0.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .._errors import AuthorizationFailed
from ..abc import Fetch
from ..wire import JsonObject, Undecodable, decode, is_object
from ._shown import shown_text, shown_url
from ._steps import CallFailed, HttpCall
from ._urls import checked_endpoint, origin_of, server_metadata_urls
from ._verified import VerifierUnavailable

__all__ = ["ACCEPT_JSON", "check_option", "endpoint_of", "fetch_json", "host_chosen_by", "read_issuer"]

ACCEPT_JSON = {"accept": "application/json"}


class _NothingThereError(VerifierUnavailable):
    """A URL leads to nothing."""


def check_option(url: str, name: str, trusted_hosts: Sequence[str]) -> None:
    """Check a URL that was given as an option.

    Raises:
        ValueError: it is none that requests with secrets may go to; the text names the option.
    """
    try:
        checked_endpoint(url, name, trusted_hosts)
    except AuthorizationFailed as exc:
        raise ValueError(str(exc)) from None


async def read_issuer(issuer: str, fetch: Fetch) -> JsonObject:
    """Return the metadata of an authorization server, which this server's own options have named.

    Raises:
        VerifierUnavailable: there are none, they cannot be had now, or they are those of another server.
    """
    for url in server_metadata_urls(issuer):
        call = HttpCall(method="GET", url=url, headers=ACCEPT_JSON, named_by="user")
        try:
            metadata = await fetch_json(call, fetch)
        except _NothingThereError:
            continue
        if metadata.get("issuer") != issuer:
            raise VerifierUnavailable(f"the metadata at {url} say that they are those of another issuer")
        return metadata
    raise VerifierUnavailable(f"{issuer} publishes no metadata")


def endpoint_of(metadata: JsonObject, name: str, trusted_hosts: Sequence[str]) -> str:
    """Return the URL that is a member of an issuer's metadata.

    Raises:
        VerifierUnavailable: there is none, or it is not safe.
    """
    url = metadata.get(name)
    if not isinstance(url, str):
        raise VerifierUnavailable(f"the metadata of {metadata['issuer']} name no {name!r}")
    try:
        return checked_endpoint(url, name, trusted_hosts)
    except AuthorizationFailed as exc:
        raise VerifierUnavailable(str(exc)) from None


def host_chosen_by(issuer: str, url: str) -> Literal["user", "server"]:
    """Tell who has chosen the host of a URL in an issuer's metadata: where it is the issuer's own, the options have."""
    return "user" if origin_of(url) == origin_of(issuer) else "server"


async def fetch_json(call: HttpCall, fetch: Fetch) -> JsonObject:
    """Return the JSON object that a request gets.

    Raises:
        VerifierUnavailable: it gets something else, or nothing can be had now.
    """
    shown = shown_url(call.url)
    try:
        reply = await fetch(call)
    except CallFailed as exc:
        raise VerifierUnavailable(f"{shown}: {shown_text(str(exc))}") from exc
    if reply.status != 200:
        failure = _NothingThereError if reply.status // 100 == 4 else VerifierUnavailable
        raise failure(f"{shown} answered with the status {reply.status}")
    try:
        value = decode(reply.body)
    except Undecodable as exc:
        raise VerifierUnavailable(f"{shown} answered with no JSON: {shown_text(str(exc))}") from None
    if not is_object(value):
        raise VerifierUnavailable(f"{shown} answered with no JSON object")
    return value
