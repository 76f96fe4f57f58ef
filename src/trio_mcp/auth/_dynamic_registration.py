"""Registers a client at an authorization server that has never heard of it, without anybody's help.

Deprecated by the protocol in favour of documents that servers read; there are servers that know nothing else.

Specification: https://www.rfc-editor.org/rfc/rfc7591
"""

from __future__ import annotations

from typing import Any

from .._errors import AuthorizationFailed
from ..wire import JsonObject, encode
from ._metadata import Place
from ._refusals import json_object_of, refusal_of
from ._shown import shown_text, shown_url
from ._steps import CallFailed, Flow, HttpCall, call
from ._tokens import AuthMethod, Registration

__all__ = ["method_named", "optional_text", "optional_time", "register_now"]

_END_OF_TIME = 1e12  # as `time.time` counts: what is beyond it means never, and may be too much for a float


def register_now(place: Place, introduction: dict[str, Any]) -> Flow[Registration]:
    """Register a client at the authorization server of *place*, with an introduction of `ClientProfile`.

    Raises:
        AuthorizationFailed: it cannot be registered, or was turned away.
    """
    server = place.server
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise AuthorizationFailed(
            f"{shown_text(server.issuer)} lets no program register itself; register this client by hand, and pass "
            "client=Registration('its client id')"
            + (" or client_metadata_url=" if server.client_id_metadata_document_supported else "")
        )
    step = f"the registration at {shown_url(endpoint)}"
    headers = {"accept": "application/json", "content-type": "application/json"}
    request = HttpCall(method="POST", url=endpoint, headers=headers, body=encode(introduction), named_by="server")
    try:
        reply = yield from call(request)
    except CallFailed as failure:
        raise AuthorizationFailed(f"{step} could not be made: {failure}") from failure
    if reply.status not in {200, 201}:
        raise refusal_of(step, reply)
    members = json_object_of(reply)
    if members is None:
        raise AuthorizationFailed(f"{step} was answered with something that is no JSON object")
    try:
        return _read_answer(members, introduction, place)
    except ValueError as fault:
        raise AuthorizationFailed(f"{step} brought no registration that can be used: {fault}") from None


def _read_answer(members: JsonObject, introduction: dict[str, Any], place: Place) -> Registration:
    """Read a registration; raises `ValueError`."""
    asked: AuthMethod = introduction["token_endpoint_auth_method"]
    secret = optional_text(members, "client_secret")
    method = method_named(members.get("token_endpoint_auth_method"))
    if method is None:  # the server did not say, so it means what was asked for, if it can
        listed = place.server.token_endpoint_auth_methods_supported or ()
        method = asked if secret is None or asked in listed else None
    if secret is None and method in {"client_secret_basic", "client_secret_post"}:
        raise ValueError(f"the client is to authenticate by {method}, but there is no client_secret")
    client_id = optional_text(members, "client_id")
    if client_id is None:
        raise ValueError("client_id is missing")
    return Registration(
        client_id,
        secret=secret,
        method=method,
        issuer=place.server.issuer,
        redirect_uri=introduction["redirect_uris"][0],
        secret_expires_at=optional_time(members, "client_secret_expires_at") or None,  # 0: never
    )


def method_named(name: object) -> AuthMethod | None:
    """Return a way to authenticate that needs no more than a secret, None for None; raises `ValueError` for others."""
    if name is None:
        return None
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if name == method:
            return method
    raise ValueError(f"the client is to authenticate by {shown_text(str(name))!r}")


def optional_text(members: JsonObject, name: str) -> str | None:
    """Return a text, None where there is nothing in it; raises `ValueError` where it is none."""
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value or None


def optional_time(members: JsonObject, name: str) -> float | None:
    """Return a time, as `time.time` counts, None where there is none; raises `ValueError` where it is no number."""
    value = members.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{name} is no number")
    return None if value is None else float(min(max(value, 0), _END_OF_TIME))
