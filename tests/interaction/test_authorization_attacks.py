"""Attacks on clients that sign in: authorization servers that lie, and servers that lead elsewhere, get no token."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
from attrs import define, field

from tests.interaction.authorized import (
    BACK,
    ISSUER,
    LATEST,
    MODERN,
    ORIGIN,
    URL,
    Street,
    changing,
    login,
    person,
    said,
)
from trio_mcp import (
    AuthorizationFailed,
    ClientCredentials,
    HttpStatusError,
    OAuth,
    Registration,
    open_http_client,
)
from trio_mcp.testing import AsgiNetwork, AuthorizationServer, KnownClient
from trio_mcp.transports import AsgiApp, HttpListening, Receive, Scope, Send, bind_sockets, serve_asgi
from trio_mcp.wire import encode

EVIL = "https://evil.example"


async def refused(street: Street, auth: Any = None, **options: Any) -> AuthorizationFailed:
    """Try to open a client; return why it cannot be."""
    async with street.open():
        with pytest.raises(AuthorizationFailed) as caught:
            async with street.client(auth or person(street.auth), **options):
                raise AssertionError
    return caught.value


# Authorization responses of somebody else.


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("revision", [MODERN, LATEST])
@pytest.mark.parametrize(
    "iss",
    [
        EVIL,
        None,
        "",
        f"{ISSUER}/",
        ISSUER.upper(),
        ISSUER.replace("https", "HTTPS"),
        f"{ISSUER}:443",
        ISSUER.replace("login", "%6cogin"),
        f" {ISSUER}",
    ],
)
async def test_a_response_of_another_issuer_brings_no_token(
    iss: str | None, revision: str, autojump_clock: object
) -> None:
    street = Street(login(change=changing("authorize", iss=iss)))

    failure = await refused(street, revision=revision)

    assert "iss" in str(failure)
    assert failure.error is None
    assert street.auth.asked("token") == []
    assert all("authorization" not in seen.headers for seen in street.requests)


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize(("iss", "gets_in"), [(None, True), (ISSUER, True), (EVIL, False), (f"{ISSUER}/", False)])
async def test_a_server_that_promises_no_iss_need_not_say_it_but_what_it_says_has_to_be_right(
    iss: str | None, gets_in: bool, autojump_clock: object
) -> None:
    def change(endpoint: str, members: dict[str, Any]) -> Mapping[str, Any]:
        silent = changing("metadata", authorization_response_iss_parameter_supported=None)(endpoint, members)
        return changing("authorize", iss=iss)(endpoint, dict(silent))

    street = Street(login(change=change))

    if gets_in:
        async with street.open(), street.client(person(street.auth)) as client:
            assert await said(client, "whoami") == "ada"
    else:
        await refused(street)
        assert street.auth.asked("token") == []


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("changed", [{"iss": EVIL}, {"iss": None}, {"state": "x"}, {"state": None}])
async def test_what_a_response_of_somebody_else_says_is_told_to_nobody(
    changed: dict[str, Any], autojump_clock: object
) -> None:
    said = {"error": "call_this_number", "error_description": "+1 555", "code": None, **changed}
    street = Street(login(change=changing("authorize", **said)))

    failure = await refused(street)

    assert failure.error is None
    assert "call" not in str(failure)
    assert "555" not in str(failure)


@pytest.mark.requirement("C.2-16")
async def test_a_response_is_of_use_to_the_flow_alone_that_has_asked_for_it(autojump_clock: object) -> None:
    other = login("https://other.example")
    street = Street(others={other.issuer: other})
    second = Street(other)
    urls, both = dict[str, str](), trio.Event()

    def visiting(mine: str, theirs: str) -> Callable[[str], Any]:
        async def visit(url: str) -> str:
            urls[mine] = url
            if len(urls) == 2:
                both.set()
            await both.wait()
            return await (street.auth if theirs == "first" else other).visit(urls[theirs])

        return visit

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused, street, person(street.auth, visit=visiting("first", "second")))
        nursery.start_soon(refused, second, person(other, visit=visiting("second", "first")))

    assert street.auth.asked("token") == []
    assert other.asked("token") == []


@pytest.mark.requirement("C.2-5")
@pytest.mark.parametrize("issuer", [EVIL, f"{ISSUER}/", ISSUER.upper(), f"{ISSUER}:443", None, 1])
async def test_metadata_of_another_issuer_are_not_used(issuer: object, autojump_clock: object) -> None:
    street = Street(login(change=changing("metadata", issuer=issuer)))

    await refused(street)

    assert {request.endpoint for request in street.auth.requests} == {"metadata"}


@pytest.mark.requirement("C.2-15")
async def test_the_code_of_an_honest_server_is_not_brought_to_another_that_has_led_there(
    autojump_clock: object,
) -> None:
    honest = login(clients=[KnownClient("evil", redirect_uris=[BACK])])
    evil = login(EVIL)

    def change(endpoint: str, members: dict[str, Any]) -> Mapping[str, Any]:
        members = dict(changing("register", client_id="evil")(endpoint, members))
        return changing("metadata", authorization_endpoint=f"{ISSUER}/authorize")(endpoint, members)

    evil.settings.change = change
    street = Street(evil, others={ISSUER: honest})

    failure = await refused(street, person(honest))

    assert [request.status for request in honest.asked("authorize")] == [302]
    assert "iss" in str(failure)
    assert evil.asked("token") == []


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize("grant", ["credentials", "registration"])
async def test_credentials_are_not_shown_to_another_authorization_server_than_theirs(
    grant: str, autojump_clock: object
) -> None:
    street = Street(login(EVIL))
    client = Registration("desk", secret="s3cret", issuer=ISSUER, redirect_uri=BACK)
    auth = (
        ClientCredentials("desk", secret="s3cret", issuer=ISSUER)
        if grant == "credentials"
        else person(street.auth, client=client, redirect_uri=None)
    )

    await refused(street, auth)

    assert {request.endpoint for request in street.auth.requests} == {"metadata"}
    assert all(b"s3cret" not in seen.body for seen in street.overheard.requests)


@pytest.mark.requirement("C.2-10")
@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256"])
async def test_a_server_without_pkce_is_not_used(methods: object, autojump_clock: object) -> None:
    street = Street(login(change=changing("metadata", code_challenge_methods_supported=methods)))

    await refused(street)

    assert street.auth.asked("authorize") == []


@pytest.mark.requirement("C.2-16", "C.2-18")
@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "http://login.example/authorize", "-x", "https://a@b/", ""]
)
@pytest.mark.parametrize("endpoint", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
async def test_nobody_is_led_to_an_address_that_is_not_safe(endpoint: str, url: str, autojump_clock: object) -> None:
    street, shown = Street(login(change=changing("metadata", **{endpoint: url}))), list[str]()

    async def visit(url: str) -> str:
        shown.append(url)
        return await street.auth.visit(url)

    await refused(street, person(street.auth, visit=visit))

    assert shown == []
    assert street.auth.asked("token") == []


@pytest.mark.parametrize("dpop", [False, True])
async def test_a_token_of_another_kind_than_was_asked_for_is_not_taken(dpop: bool, autojump_clock: object) -> None:
    street = Street(login(change=changing("token", token_type="Bearer" if dpop else "DPoP")))

    failure = await refused(street, person(street.auth, dpop=dpop))

    assert "token" in str(failure)
    assert all("authorization" not in seen.headers for seen in street.requests)


# Servers that lead their clients elsewhere.


@define(eq=False)
class Liar:
    """A server that wants tokens, and says where to get them: wherever it likes.

    Args:
        documents: what it answers by path: JSON, or where it redirects to.
        challenge: the parameters of its challenge.
    """

    documents: Mapping[str, Any] = field(factory=dict[str, Any])
    challenge: str = ""
    shown: list[str] = field(factory=list[str], init=False)
    """The tokens that it was shown."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        if b"authorization" in headers:
            self.shown.append(headers[b"authorization"].decode())
        document = self.documents.get(scope["path"])
        fields: list[tuple[bytes, bytes]] = []
        if isinstance(document, str):
            status, body = 302, b""
            fields.append((b"location", document.encode()))
        elif document is not None:
            status, body = 200, encode(document)
        elif scope["path"].startswith("/.well-known/"):
            status, body = 404, b""
        else:
            status, body = 401, b""
            fields.append((b"www-authenticate", f"Bearer {self.challenge}".strip().encode()))
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})


@define(eq=False)
class Internet:
    """A server and its authorization server at one host, and whoever is asked besides."""

    server: AsgiApp
    auth: AsgiApp
    strangers: set[str] = field(factory=set[str], init=False)
    """Other hosts that were asked."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"])[b"host"].decode()
        if host != "mcp.example":
            self.strangers.add(host)
        await (self.auth if "/login" in scope["path"] else self.server)(scope, receive, send)

    async def lead(self) -> str:
        """Try to sign in with an HTTP client that looks hosts up, to a server on the internet; return the failure."""

        async def visit(url: str) -> str:
            assert isinstance(self.auth, AuthorizationServer)
            return await self.auth.visit(url)

        grant = OAuth(visit=visit, redirect_uri=BACK)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=self)) as http_client:
            with pytest.raises((AuthorizationFailed, HttpStatusError)) as caught:
                async with open_http_client(URL, auth=grant, http_client=http_client, revision=MODERN):
                    raise AssertionError
        return str(caught.value)


PRM, LOGIN = "/.well-known/oauth-protected-resource/mcp", f"{ORIGIN}/login"
ASM = "/.well-known/oauth-authorization-server/login"
PRIVATE = ["10.0.0.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "[::1]", "[fd00::1]", "[::ffff:10.0.0.1]"]


def protected(**changed: Any) -> dict[str, Any]:
    """Return the metadata of the server, but for what is changed."""
    return {"resource": URL, "authorization_servers": [LOGIN], **changed}


async def test_a_server_on_the_internet_that_leads_to_its_own_host_gets_its_token() -> None:
    liar, auth = Liar({PRM: protected()}), AuthorizationServer(LOGIN, auto_consent=True)

    assert "401" in await Internet(liar, auth).lead()
    assert liar.shown != []


@pytest.mark.requirement("C.2-19")
@pytest.mark.parametrize("host", PRIVATE)
@pytest.mark.parametrize("place", ["challenge", "issuer", "token_endpoint", "registration_endpoint"])
async def test_a_server_on_the_internet_leads_nobody_into_a_private_network(place: str, host: str) -> None:
    there = f"https://{host}"
    liar, auth = Liar({PRM: protected()}), AuthorizationServer(LOGIN, auto_consent=True)
    match place:
        case "challenge":
            liar.challenge = f'resource_metadata="{there}/x"'
        case "issuer":
            liar.documents = {PRM: protected(authorization_servers=[there])}
        case _:
            auth.settings.change = changing("metadata", **{place: f"{there}/{place}"})
    internet = Internet(liar, auth)

    assert "may not name" in await internet.lead()
    assert internet.strangers == set()
    assert liar.shown == []


@pytest.mark.requirement("C.2-19")
@pytest.mark.parametrize(
    "to", ["https://10.0.0.1/x", "http://127.0.0.1/x", "http://mcp.example/x", "//169.254.169.254"]
)
@pytest.mark.parametrize("place", ["resource", "issuer"])
async def test_redirects_lead_nobody_to_another_origin(place: str, to: str) -> None:
    liar = Liar({PRM: to if place == "resource" else protected()})
    internet = Internet(liar, Liar({ASM: to}))

    assert "another origin" in await internet.lead()
    assert internet.strangers == set()


@pytest.mark.requirement("C.2-19")
async def test_a_server_of_this_machine_leads_nobody_to_where_no_service_is() -> None:
    """Over sockets, and without an HTTP client of the caller's."""
    liar = Liar(challenge='resource_metadata="https://169.254.169.254/latest/meta-data"')

    async with served(liar) as origin:
        with pytest.raises(AuthorizationFailed, match="may not name"):
            async with open_http_client(f"{origin}/mcp", auth=OAuth(visit=unvisited, redirect_uri=BACK)):
                raise AssertionError


@pytest.mark.requirement("C.2-3", "C.2-1")
@pytest.mark.parametrize(
    "resource",
    [
        EVIL,
        f"{EVIL}/mcp",
        f"{ORIGIN}/mc",
        f"{ORIGIN}/mcp/other",
        f"{ORIGIN}/MCP",
        f"{ORIGIN}.evil.example",
        ORIGIN[:-1],
    ],
)
async def test_a_server_gets_no_token_for_another_server(resource: str, autojump_clock: object) -> None:
    street = Street()
    liar = Liar({PRM: protected(resource=resource, authorization_servers=[ISSUER])})
    network = AsgiNetwork({ORIGIN: liar, ISSUER: street.auth})

    with pytest.raises(AuthorizationFailed):
        async with open_http_client(URL, auth=person(street.auth), engine=network):
            raise AssertionError

    assert street.auth.requests == []
    assert liar.shown == []


async def unvisited(url: str) -> str:
    raise AssertionError(url)


@asynccontextmanager
async def served(app: AsgiApp) -> AsyncGenerator[str]:
    """Serve an application on a socket; yield its origin."""
    listening = HttpListening(host="127.0.0.1", port=0)
    with trio.fail_after(60):
        sockets = await bind_sockets(listening)
        serve = partial(
            serve_asgi, app, listening, stopping=trio.sleep_forever, drain=trio.sleep_forever, drain_seconds=0,
            sockets=sockets,
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            await nursery.start(serve)
            yield f"http://127.0.0.1:{sockets.bound.port}"
            nursery.cancel_scope.cancel()
