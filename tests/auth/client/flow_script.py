"""A scripted environment for a flow: it answers each step as the test specifies, and records the steps.

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
    """Return the parameters as a mapping, after checking that there are no duplicates."""
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def form_of(call: HttpCall) -> dict[str, str]:
    """Return the parameters of a posted form."""
    return once(parse_qsl(call.body.decode(), keep_blank_values=True, strict_parsing=True))


def query_of(url: str) -> dict[str, str]:
    """Return the parameters in the query of a URL."""
    return once(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def redirected_with(*, state: str | None = None, **parameters: str) -> Callable[[BrowserStep], str]:
    """Return a user whose browser is redirected back with these parameters (by default a code) and the right state."""

    def person(step: BrowserStep) -> str:
        members = {
            "state": query_of(step.url)["state"] if state is None else state,
            **(parameters or {"code": "kc0de"}),
        }
        return f"{step.redirect_uri}?{urlencode(members)}"

    return person


@define
class FlowScript:
    """An environment for one flow, with the answers to its steps and a record of them."""

    replies: list[Reply] = field(factory=list[Reply])
    """The responses to the requests of the flow, in their order."""
    values: dict[str, str] = field(factory=dict[str, str])
    """The content of the token storage."""
    picks: str | Exception | None = REDIRECT_URI
    """The redirect URI that the browser agent picks; None: the preferred one."""
    person: Callable[[BrowserStep], str] = field(factory=redirected_with)
    """The function that returns the URL to which the browser is redirected."""
    time: float = NOW
    steps: list[Step] = field(factory=list[Step], init=False)
    """The steps of the flow so far."""

    def run(self, flow: Flow[T]) -> T:
        """Run a flow until it returns."""
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
            except Exception as error:  # noqa: BLE001 # it is raised in the flow
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
                return result_of(function().__await__())

    def _swap(self, key: str, old: str | None, new: str | None) -> bool:
        if self.values.get(key) != old:
            return False
        self.values.pop(key, None)
        if new is not None:
            self.values[key] = new
        return True

    @property
    def calls(self) -> list[HttpCall]:
        """The requests that the flow has sent."""
        return [step for step in self.steps if isinstance(step, HttpCall)]

    @property
    def forms(self) -> list[dict[str, str]]:
        """The forms that the flow has posted."""
        return [form_of(call) for call in self.calls if call.headers["content-type"].endswith("form-urlencoded")]

    @property
    def sign_ins(self) -> list[dict[str, str]]:
        """The parameters of the pages that the flow has opened in the browser."""
        return [query_of(step.url) for step in self.steps if isinstance(step, BrowserStep)]


def outcome_of(outcome: T | Exception) -> T:
    """Return the outcome of a step, or raise it."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def result_of(awaited: Any) -> Any:
    """Return the result of an awaitable that never blocks."""
    try:
        next(awaited)
    except StopIteration as end:
        return end.value
    raise AssertionError("the awaitable blocks")


def json_reply(members: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpReply:
    """Return a JSON response."""
    fields = {"content-type": "application/json", **(headers or {})}
    return HttpReply(status=status, headers=fields, body=json.dumps(members).encode())


def token_reply(**members: Any) -> HttpReply:
    """Return a token response; None removes a member."""
    whole = {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600, **members}
    return json_reply({name: value for name, value in whole.items() if value is not None})


def error_reply(code: str, description: str | None = None, *, status: int = 400, **headers: str) -> HttpReply:
    """Return an OAuth error response."""
    members = {"error": code} if description is None else {"error": code, "error_description": description}
    return json_reply(
        members, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


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
    """Return a token issuer whose metadata have the given changes."""
    return evolve(TOKEN_ISSUER, server=evolve(SERVER, **server))


def token_ask(*scopes: str, token_issuer: TokenIssuer = TOKEN_ISSUER, proofs: DpopProver | None = None) -> TokenAsk:
    """Return a request for a token, by default with the default scopes."""
    return TokenAsk(token_issuer=token_issuer, scopes=scopes or None, proofs=proofs)
