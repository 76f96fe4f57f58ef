"""Plays the world to a flow: answers each of its steps as a test has said, and writes them down.

No Trio and no HTTP: what a flow does is all that it yields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from attrs import define, evolve, field

from trio_mcp.auth import HttpCall, HttpReply
from trio_mcp.auth._dpop import DpopProver
from trio_mcp.auth.client import ServerMetadata
from trio_mcp.auth.client._discovery import ResourceMetadata, TokenIssuer
from trio_mcp.auth.client._steps import Await, BrowserStep, Flow, Load, Pause, PickRedirect, ReadClock, Step, Swap
from trio_mcp.auth.client._token_endpoint import TokenAsk

T = TypeVar("T")
Reply: TypeAlias = HttpReply | Exception | Callable[[HttpCall], HttpReply]

NOW = 1_000_000.0
REDIRECT_URI = "http://127.0.0.1:4711/callback"
ISSUER = "https://auth.example.com"
RESOURCE = "https://mcp.example.com/mcp"


def once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Return parameters, each of which stands there once."""
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def form_of(call: HttpCall) -> dict[str, str]:
    """Return what a posted form says."""
    return once(parse_qsl(call.body.decode(), keep_blank_values=True, strict_parsing=True))


def query_of(url: str) -> dict[str, str]:
    """Return what the query of a URL says."""
    return once(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def comes_back(*, state: str | None = None, **parameters: str) -> Callable[[BrowserStep], str]:
    """Make a person whose browser comes back with these parameters, by default with a code; the state is right."""

    def person(visit: BrowserStep) -> str:
        said = {"state": query_of(visit.url)["state"] if state is None else state, **(parameters or {"code": "kc0de"})}
        return f"{visit.redirect_uri}?{urlencode(said)}"

    return person


@define
class FlowScript:
    """A world in which a flow runs: what is answered to it, and what it did."""

    replies: list[Reply] = field(factory=list[Reply])
    """To its requests, in their order."""
    values: dict[str, str] = field(factory=dict[str, str])
    """Of the storage."""
    picks: str | Exception | None = REDIRECT_URI
    """The redirect URI that there is; None: the one that is preferred."""
    person: Callable[[BrowserStep], str] = field(factory=comes_back)
    """Where the browser comes back to."""
    time: float = NOW
    steps: list[Step] = field(factory=list[Step], init=False)
    """What the flow has done so far."""

    def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end."""
        outcome: Any = None
        failure: Exception | None = None
        while True:
            try:
                step = flow.send(outcome) if failure is None else flow.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            self.steps.append(step)
            outcome, failure = None, None
            try:
                outcome = self._answer(step)
            except Exception as error:  # noqa: BLE001 # the flow is told of it
                failure = error

    def _answer(self, step: Step) -> Any:
        match step:
            case HttpCall():
                reply = self.replies.pop(0)
                return outcome_of(reply(step) if callable(reply) else reply)
            case PickRedirect(preferred):
                return outcome_of(preferred if self.picks is None else self.picks)
            case BrowserStep():
                return self.person(step)
            case Load(key):
                return self.values.get(key)
            case Swap(key, old, new):
                return self._swap(key, old, new)
            case ReadClock():
                return self.time
            case Pause(seconds):
                self.time += seconds
                return None
            case Await(function):
                return finished(function().__await__())

    def _swap(self, key: str, old: str | None, new: str | None) -> bool:
        if self.values.get(key) != old:
            return False
        self.values.pop(key, None)
        if new is not None:
            self.values[key] = new
        return True

    @property
    def calls(self) -> list[HttpCall]:
        """The requests that the flow has made."""
        return [step for step in self.steps if isinstance(step, HttpCall)]

    @property
    def forms(self) -> list[dict[str, str]]:
        """The forms that it has posted."""
        return [form_of(call) for call in self.calls if call.headers["content-type"].endswith("form-urlencoded")]

    @property
    def sign_ins(self) -> list[dict[str, str]]:
        """The parameters of the pages that it has shown to people."""
        return [query_of(step.url) for step in self.steps if isinstance(step, BrowserStep)]


def outcome_of(outcome: T | Exception) -> T:
    """Return what a step brings, or raise it."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def finished(awaited: Any) -> Any:
    """Return what a function returns that does not really wait."""
    try:
        next(awaited)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits, and nobody is there to wait for")


def json_reply(members: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpReply:
    """Make a response that carries JSON."""
    fields = {"content-type": "application/json", **(headers or {})}
    return HttpReply(status=status, headers=fields, body=json.dumps(members).encode())


def token_reply(**members: Any) -> HttpReply:
    """Make a response that brings a token; None leaves a member out."""
    whole = {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600, **members}
    return json_reply({name: value for name, value in whole.items() if value is not None})


def error_reply(code: str, description: str | None = None, *, status: int = 400, **headers: str) -> HttpReply:
    """Make a response by which an authorization server says no."""
    said = {"error": code} if description is None else {"error": code, "error_description": description}
    return json_reply(said, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


SERVER = ServerMetadata(
    issuer=ISSUER,
    authorization_endpoint=f"{ISSUER}/authorize",
    token_endpoint=f"{ISSUER}/token",
    registration_endpoint=f"{ISSUER}/register",
    code_challenge_methods_supported=("S256",),
)
TOKEN_ISSUER = TokenIssuer(
    url=RESOURCE, resource=ResourceMetadata(resource=RESOURCE, authorization_servers=(ISSUER,)), server=SERVER
)


def issuer_with(**server: Any) -> TokenIssuer:
    """Make a place whose authorization server says something else of itself."""
    return evolve(TOKEN_ISSUER, server=evolve(SERVER, **server))


def ask_for(*scopes: str, token_issuer: TokenIssuer = TOKEN_ISSUER, proofs: DpopProver | None = None) -> TokenAsk:
    """Make the wish for a token, by default for whatever scopes there are."""
    return TokenAsk(token_issuer=token_issuer, scopes=scopes or None, proofs=proofs)
