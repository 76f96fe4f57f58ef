"""The messages between the processes of a service: the JSON of requests that are forwarded, and of their responses.

All are notifications of a link:

- ``http/request``: the forwarding process sends a request, under a number of its own.
- ``http/part``: the owner sends a part of the response; the parts of a request are numbered from 0.
- ``http/taken``: the forwarding process has passed on all parts up to a number, but not the last one.
- ``http/done``: the forwarding process has passed on the whole responses of some requests. Requests tell this as well.
- ``http/left``: the client has left, so that the rest of the response is of no use.
- ``http/resume``: the first message of a connection: the requests that the forwarding process waits for, each with the
  number of the part that it expects next.
- ``http/unknown``: the owner has never seen some of these requests.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import trio
from attrs import frozen

from .. import Access, HttpRequest
from ..lowlevel import ResponseHead
from ..wire import JsonObject

__all__ = [
    "DONE",
    "LEFT",
    "PART",
    "REQUEST",
    "RESUME",
    "TAKEN",
    "UNKNOWN",
    "ResponsePart",
    "read_request",
    "request_json",
]

REQUEST, PART, TAKEN = "http/request", "http/part", "http/taken"
DONE, LEFT, RESUME, UNKNOWN = "http/done", "http/left", "http/resume", "http/unknown"


def _data_json(data: bytes) -> JsonObject:
    """Return the JSON of some bytes; almost always they are text, or a whole part of one."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _data_in(json: JsonObject) -> bytes:
    text: str | None = json.get("text")
    return base64.b64decode(json["base64"]) if text is None else text.encode()


def request_json(request: HttpRequest) -> JsonObject:
    """Return the JSON of a request that this process has checked."""
    json: JsonObject = {
        "method": request.method,
        "path": request.path,
        "localPath": request.local_path,
        "query": request.query,
        "headers": dict(request.headers),
        **_data_json(request.body),
    }
    if request.client is not None:
        json["client"] = request.client
    access = request.access
    if access is not None:
        json["access"] = {
            "principal": access.principal,
            "scopes": sorted(access.scopes),
            "clientId": access.client_id,
            "expiresAt": access.expires_at,
            "claims": dict(access.claims),
        }
        if request.access_until < math.inf:
            json["accessSeconds"] = request.access_until - trio.current_time()
    return json


def read_request(json: JsonObject) -> HttpRequest:
    """Return the request that another process has forwarded."""
    access: Any = json.get("access")
    seconds: float = json.get("accessSeconds", math.inf)
    return HttpRequest(
        method=json["method"],
        path=json["path"],
        local_path=json["localPath"],
        query=json["query"],
        headers=json["headers"],
        client=json.get("client"),
        access=None
        if access is None
        else Access(
            access["principal"],
            scopes=frozenset(access["scopes"]),
            client_id=access["clientId"],
            expires_at=access["expiresAt"],
            claims=access["claims"],
        ),
        access_until=trio.current_time() + seconds,
        body=_data_in(json),
        is_forwarded=True,
    )


@frozen
class ResponsePart:
    """A part of a response."""

    number: int
    head: ResponseHead | None
    """The status and the header fields; None but for the first part."""
    data: bytes
    more: bool
    """False if the response ends with this part."""
    is_cut: bool = False
    """True if the response breaks off here."""

    def to_json(self, request: int) -> JsonObject:
        """Return the JSON of the part of a request."""
        json: JsonObject = {"id": request, "number": self.number, "more": self.more, **_data_json(self.data)}
        if self.head is not None:
            json["head"] = [self.head[0], [list(each) for each in self.head[1]]]
        if self.is_cut:
            json["cut"] = True
        return json

    @classmethod
    def of_json(cls, json: JsonObject) -> ResponsePart:
        """Return the part that `to_json` has written."""
        head: Any = json.get("head")
        fields = None if head is None else (head[0], [(name, value) for name, value in head[1]])
        return cls(json["number"], fields, _data_in(json), json["more"], json.get("cut", False))
