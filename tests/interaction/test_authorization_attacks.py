"""Attacks on clients that sign in: malicious authorization servers and protected servers get no token."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
from attrs import define, field

from tests.interaction.protected_deployment import (
    ISSUER,
    LATEST,
    MODERN,
    ORIGIN,
    REDIRECT_URI,
    URL,
    Deployment,
    call_text,
    changing,
    login_server,
    user_credentials,
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


async def refused(deployment: Deployment, auth: Any = None, **options: Any) -> AuthorizationFailed:
    """Assert that a client cannot be opened, and return the failure."""
    async with deployment.open():
        with pytest.raises(AuthorizationFailed) as caught:
            async with deployment.client(auth or user_credentials(deployment.auth), **options):
                raise AssertionError
    return caught.value


# Forged authorization responses.


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
async def test_an_authorization_response_of_another_issuer_leads_to_no_token_request(
    iss: str | None, revision: str, autojump_clock: object
) -> None:
    deployment = Deployment(login_server(change=changing("authorize", iss=iss)))

    failure = await refused(deployment, revision=revision)

    assert "iss" in str(failure)
    assert failure.error is None
    assert deployment.auth.asked("token") == []
    assert all("authorization" not in seen.headers for seen in deployment.requests)


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize(("iss", "is_accepted"), [(None, True), (ISSUER, True), (EVIL, False), (f"{ISSUER}/", False)])
async def test_an_iss_that_the_metadata_do_not_announce_may_be_absent_but_not_wrong(
    iss: str | None, is_accepted: bool, autojump_clock: object
) -> None:
    def change(endpoint: str, members: dict[str, Any]) -> Mapping[str, Any]:
        silent = changing("metadata", authorization_response_iss_parameter_supported=None)(endpoint, members)
        return changing("authorize", iss=iss)(endpoint, dict(silent))

    deployment = Deployment(login_server(change=change))

    if is_accepted:
        async with deployment.open(), deployment.client(user_credentials(deployment.auth)) as client:
            assert await call_text(client, "whoami") == "ada"
    else:
        await refused(deployment)
        assert deployment.auth.asked("token") == []


@pytest.mark.requirement("C.2-15")
@pytest.mark.parametrize("changed", [{"iss": EVIL}, {"iss": None}, {"state": "x"}, {"state": None}])
async def test_the_error_text_of_a_forged_response_is_not_shown(
    changed: dict[str, Any], autojump_clock: object
) -> None:
    said = {"error": "call_this_number", "error_description": "+1 555", "code": None, **changed}
    deployment = Deployment(login_server(change=changing("authorize", **said)))

    failure = await refused(deployment)

    assert failure.error is None
    assert "call" not in str(failure)
    assert "555" not in str(failure)


@pytest.mark.requirement("C.2-16")
async def test_an_authorization_response_is_accepted_only_by_the_flow_that_requested_it(autojump_clock: object) -> None:
    other = login_server("https://other.example")
    deployment = Deployment(others={other.issuer: other})
    second = Deployment(other)
    urls, both = dict[str, str](), trio.Event()

    def visiting(mine: str, theirs: str) -> Callable[[str], Any]:
        async def visit(url: str) -> str:
            urls[mine] = url
            if len(urls) == 2:
                both.set()
            await both.wait()
            return await (deployment.auth if theirs == "first" else other).visit(urls[theirs])

        return visit

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused, deployment, user_credentials(deployment.auth, visit=visiting("first", "second")))
        nursery.start_soon(refused, second, user_credentials(other, visit=visiting("second", "first")))

    assert deployment.auth.asked("token") == []
    assert other.asked("token") == []


@pytest.mark.requirement("C.2-5")
@pytest.mark.parametrize("issuer", [EVIL, f"{ISSUER}/", ISSUER.upper(), f"{ISSUER}:443", None, 1])
async def test_metadata_of_another_issuer_are_refused(issuer: object, autojump_clock: object) -> None:
    deployment = Deployment(login_server(change=changing("metadata", issuer=issuer)))

    await refused(deployment)

    assert {request.endpoint for request in deployment.auth.requests} == {"metadata"}


@pytest.mark.requirement("C.2-15")
async def test_the_code_of_an_honest_authorization_server_is_not_sent_to_a_malicious_one(
    autojump_clock: object,
) -> None:
    honest = login_server(clients=[KnownClient("evil", redirect_uris=[REDIRECT_URI])])
    evil = login_server(EVIL)

    def change(endpoint: str, members: dict[str, Any]) -> Mapping[str, Any]:
        members = dict(changing("register", client_id="evil")(endpoint, members))
        return changing("metadata", authorization_endpoint=f"{ISSUER}/authorize")(endpoint, members)

    evil.settings.change = change
    deployment = Deployment(evil, others={ISSUER: honest})

    failure = await refused(deployment, user_credentials(honest))

    assert [request.status for request in honest.asked("authorize")] == [302]
    assert "iss" in str(failure)
    assert evil.asked("token") == []


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize("grant", ["credentials", "registration"])
async def test_credentials_are_not_sent_to_an_authorization_server_of_another_issuer(
    grant: str, autojump_clock: object
) -> None:
    deployment = Deployment(login_server(EVIL))
    client = Registration("desk", secret="s3cret", issuer=ISSUER, redirect_uri=REDIRECT_URI)
    auth = (
        ClientCredentials("desk", secret="s3cret", issuer=ISSUER)
        if grant == "credentials"
        else user_credentials(deployment.auth, client=client, redirect_uri=None)
    )

    await refused(deployment, auth)

    assert {request.endpoint for request in deployment.auth.requests} == {"metadata"}
    assert all(b"s3cret" not in seen.body for seen in deployment.auth_witness.requests)


@pytest.mark.requirement("C.2-10")
@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256"])
async def test_an_authorization_server_without_pkce_is_refused(methods: object, autojump_clock: object) -> None:
    deployment = Deployment(login_server(change=changing("metadata", code_challenge_methods_supported=methods)))

    await refused(deployment)

    assert deployment.auth.asked("authorize") == []


@pytest.mark.requirement("C.2-16", "C.2-18")
@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "http://login.example/authorize", "-x", "https://a@b/", ""]
)
@pytest.mark.parametrize("endpoint", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
async def test_the_user_is_not_sent_to_an_unsafe_url(endpoint: str, url: str, autojump_clock: object) -> None:
    deployment, shown = Deployment(login_server(change=changing("metadata", **{endpoint: url}))), list[str]()

    async def visit(url: str) -> str:
        shown.append(url)
        return await deployment.auth.visit(url)

    await refused(deployment, user_credentials(deployment.auth, visit=visit))

    assert shown == []
    assert deployment.auth.asked("token") == []


@pytest.mark.parametrize("dpop", [False, True])
async def test_a_token_of_another_type_than_requested_is_refused(dpop: bool, autojump_clock: object) -> None:
    deployment = Deployment(login_server(change=changing("token", token_type="Bearer" if dpop else "DPoP")))

    failure = await refused(deployment, user_credentials(deployment.auth, dpop=dpop))

    assert "token" in str(failure)
    assert all("authorization" not in seen.headers for seen in deployment.requests)


# Servers that name foreign URLs.


@define(eq=False)
class HostileServer:
    """A protected server whose metadata and challenges name any URL that a test wants.

        Args:
    documents: the response of each path: JSON, or the URL of a redirect.
            challenge: the parameters of its challenge.
    """

    documents: Mapping[str, Any] = field(factory=dict[str, Any])
    challenge: str = ""
    shown: list[str] = field(factory=list[str], init=False)
    """The tokens that the server received."""

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
class AllHosts:
    """An application that plays every host: a server and its authorization server share one, all others are foreign."""

    server: AsgiApp
    auth: AsgiApp
    foreign: set[str] = field(factory=set[str], init=False)
    """The foreign hosts that received a request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"])[b"host"].decode()
        if host != "mcp.example":
            self.foreign.add(host)
        await (self.auth if "/login" in scope["path"] else self.server)(scope, receive, send)

    async def sign_in(self) -> str:
        """Sign in to the server with an HTTP client that resolves host names; return the failure."""

        async def visit(url: str) -> str:
            assert isinstance(self.auth, AuthorizationServer)
            return await self.auth.visit(url)

        grant = OAuth(visit=visit, redirect_uri=REDIRECT_URI)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=self)) as http_client:
            with pytest.raises((AuthorizationFailed, HttpStatusError)) as caught:
                async with open_http_client(URL, auth=grant, http_client=http_client, revision=MODERN):
                    raise AssertionError
        return str(caught.value)


PRM, LOGIN = "/.well-known/oauth-protected-resource/mcp", f"{ORIGIN}/login"
ASM = "/.well-known/oauth-authorization-server/login"
PRIVATE = ["10.0.0.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "[::1]", "[fd00::1]", "[::ffff:10.0.0.1]"]


def protected(**changed: Any) -> dict[str, Any]:
    """Return the metadata of the server with the given changes."""
    return {"resource": URL, "authorization_servers": [LOGIN], **changed}


async def test_a_public_server_that_names_its_own_host_gets_its_token() -> None:
    hostile, auth = HostileServer({PRM: protected()}), AuthorizationServer(LOGIN, auto_consent=True)

    assert "401" in await AllHosts(hostile, auth).sign_in()
    assert hostile.shown != []


@pytest.mark.requirement("C.2-19")
@pytest.mark.parametrize("host", PRIVATE)
@pytest.mark.parametrize("place", ["challenge", "issuer", "token_endpoint", "registration_endpoint"])
async def test_a_public_server_cannot_lead_the_client_into_a_private_network(place: str, host: str) -> None:
    there = f"https://{host}"
    hostile, auth = HostileServer({PRM: protected()}), AuthorizationServer(LOGIN, auto_consent=True)
    match place:
        case "challenge":
            hostile.challenge = f'resource_metadata="{there}/x"'
        case "issuer":
            hostile.documents = {PRM: protected(authorization_servers=[there])}
        case _:
            auth.settings.change = changing("metadata", **{place: f"{there}/{place}"})
    hosts = AllHosts(hostile, auth)

    assert "may not name" in await hosts.sign_in()
    assert hosts.foreign == set()
    assert hostile.shown == []


@pytest.mark.requirement("C.2-19")
@pytest.mark.parametrize(
    "to", ["https://10.0.0.1/x", "http://127.0.0.1/x", "http://mcp.example/x", "//169.254.169.254"]
)
@pytest.mark.parametrize("place", ["resource", "issuer"])
async def test_the_client_follows_no_redirect_to_another_origin(place: str, to: str) -> None:
    hostile = HostileServer({PRM: to if place == "resource" else protected()})
    hosts = AllHosts(hostile, HostileServer({ASM: to}))

    assert "another origin" in await hosts.sign_in()
    assert hosts.foreign == set()


@pytest.mark.requirement("C.2-19")
async def test_a_loopback_server_cannot_lead_the_client_to_a_link_local_address() -> None:
    """This test uses sockets, and the default HTTP client."""
    hostile = HostileServer(challenge='resource_metadata="https://169.254.169.254/latest/meta-data"')

    async with served(hostile) as origin:
        with pytest.raises(AuthorizationFailed, match="may not name"):
            async with open_http_client(f"{origin}/mcp", auth=OAuth(visit=fail_visit, redirect_uri=REDIRECT_URI)):
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
async def test_a_server_gets_no_token_for_another_resource(resource: str, autojump_clock: object) -> None:
    deployment = Deployment()
    hostile = HostileServer({PRM: protected(resource=resource, authorization_servers=[ISSUER])})
    network = AsgiNetwork({ORIGIN: hostile, ISSUER: deployment.auth})

    with pytest.raises(AuthorizationFailed):
        async with open_http_client(URL, auth=user_credentials(deployment.auth), engine=network):
            raise AssertionError

    assert deployment.auth.requests == []
    assert hostile.shown == []


async def fail_visit(url: str) -> str:
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
