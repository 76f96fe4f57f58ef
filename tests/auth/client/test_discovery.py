"""Discovery of the authorization server: the order of the requests, and the checks of the metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import CallFailed, HttpCall, HttpReply, Unreadable
from trio_mcp.auth._challenges import Challenge
from trio_mcp.auth.client import ServerMetadata
from trio_mcp.auth.client._discovery import ResourceMetadata, TokenIssuer, discover
from trio_mcp.auth.client._steps import Step
from trio_mcp.wire import JsonObject, encode

URL = "https://x.example/mcp"
AT_PATH = "https://x.example/.well-known/oauth-protected-resource/mcp"
AT_ROOT = "https://x.example/.well-known/oauth-protected-resource"
ISSUER = "https://as.example"
AT_ISSUER = f"{ISSUER}/.well-known/oauth-authorization-server"
AT_OPENID = f"{ISSUER}/.well-known/openid-configuration"
AT_ORIGIN = "https://x.example/.well-known/oauth-authorization-server"

Answer: TypeAlias = HttpReply | CallFailed | JsonObject | int


def about(resource: str = URL, *issuers: str) -> JsonObject:
    return {"resource": resource, "authorization_servers": list(issuers or (ISSUER,))}


def issued_by(issuer: str = ISSUER, **members: Any) -> JsonObject:
    return {"issuer": issuer, "token_endpoint": f"{issuer}/token", **members}


class Web:
    """A scripted web: a URL is answered with a JSON object or a status; an unknown URL is answered with 404."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.calls: list[HttpCall] = []

    @property
    def requested_urls(self) -> list[str]:
        return [call.url for call in self.calls]

    def answer(self, call: HttpCall) -> HttpReply:
        self.calls.append(call)
        found = self.answers.get(call.url, 404)
        if isinstance(found, CallFailed):
            raise found
        if isinstance(found, HttpReply):
            return found
        if isinstance(found, int):
            return HttpReply(status=found, body=b"<html>")
        return HttpReply(status=200, body=encode(found))


def discover_in(
    web: Web,
    challenged: Challenge | None = None,
    *,
    url: str = URL,
    trusted_hosts: tuple[str, ...] = (),
    prefer: str | None = None,
) -> TokenIssuer:
    """Drive a discovery over *web*; an error of a request is raised in the flow."""
    flow = discover(url, challenged, trusted_hosts=trusted_hosts, prefer=prefer)
    resume: Callable[[], Step] = partial(next, flow)
    while True:
        try:
            call = resume()
        except StopIteration as stop:
            token_issuer: TokenIssuer = stop.value
            return token_issuer
        assert isinstance(call, HttpCall)
        try:
            resume = partial(flow.send, web.answer(call))
        except CallFailed as exc:
            resume = partial(flow.throw, exc)


def named_at(url: str) -> Challenge:
    return Challenge("Bearer", {"resource_metadata": url})


@pytest.mark.requirement("C.2-3")
def test_only_the_metadata_url_in_the_challenge_is_used() -> None:
    custom = "https://x.example/custom/metadata.json"
    web = Web({custom: about(), AT_PATH: about(URL, "https://other.example"), AT_ISSUER: issued_by()})

    token_issuer = discover_in(web, named_at(custom))

    assert web.requested_urls == [custom, AT_ISSUER]
    assert token_issuer == TokenIssuer(
        url=URL,
        resource=ResourceMetadata(resource=URL, authorization_servers=(ISSUER,)),
        server=ServerMetadata(issuer=ISSUER, token_endpoint=f"{ISSUER}/token"),
    )


@pytest.mark.requirement("C.2-3")
@pytest.mark.parametrize("status", [204, 302, 401, 404, 503])
def test_a_failed_request_for_the_metadata_url_in_the_challenge_ends_the_discovery(status: int) -> None:
    web = Web({AT_PATH: status, AT_ROOT: about()})

    with pytest.raises(AuthorizationFailed, match=f"is not at {AT_PATH}, which the server names: HTTP status {status}"):
        discover_in(web, named_at(AT_PATH))

    assert web.requested_urls == [AT_PATH]


def test_a_malformed_document_at_the_metadata_url_in_the_challenge_ends_the_discovery() -> None:
    web = Web({AT_PATH: HttpReply(status=200, body=b"<html>"), AT_ROOT: about()})

    with pytest.raises(AuthorizationFailed, match="cannot be used: it is not JSON"):
        discover_in(web, named_at(AT_PATH))

    assert web.requested_urls == [AT_PATH]


@pytest.mark.requirement("C.2-3")
@pytest.mark.parametrize("challenged", [None, Challenge("Bearer", {"error": "invalid_token"})])
def test_without_a_metadata_url_the_url_with_the_path_is_requested_before_the_root(
    challenged: Challenge | None,
) -> None:
    web = Web({AT_ROOT: about("https://x.example"), AT_ISSUER: issued_by()})

    token_issuer = discover_in(web, challenged)

    assert web.requested_urls == [AT_PATH, AT_ROOT, AT_ISSUER]
    assert token_issuer.identifier == "https://x.example"


@pytest.mark.parametrize(
    "answer",
    [400, 401, 403, 404, 405, 302, 204, HttpReply(status=200, body=b"<html>"), HttpReply(status=200, body=b"[]")],
)
def test_after_a_url_without_metadata_the_next_url_is_requested(answer: Answer) -> None:
    web = Web({AT_PATH: answer, AT_ROOT: about(), AT_ISSUER: answer, AT_OPENID: issued_by()})

    assert discover_in(web).server.issuer == ISSUER
    assert web.requested_urls == [AT_PATH, AT_ROOT, AT_ISSUER, AT_OPENID]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_a_temporary_failure_ends_the_discovery(status: int) -> None:
    web = Web({AT_PATH: status, AT_ROOT: about()})

    with pytest.raises(AuthorizationFailed, match=f"at {AT_PATH} is temporarily unavailable: HTTP status {status}"):
        discover_in(web)

    assert web.requested_urls == [AT_PATH]


def test_an_unreachable_url_ends_the_discovery_and_is_named() -> None:
    web = Web({AT_PATH: CallFailed("no route\nto host"), AT_ROOT: about()})

    with pytest.raises(AuthorizationFailed) as caught:
        discover_in(web)

    assert str(caught.value) == f"the protected-resource metadata at {AT_PATH} could not be read: no route?to host"
    assert web.requested_urls == [AT_PATH]


@pytest.mark.requirement("C.2-3")
@pytest.mark.parametrize("challenged", [None, named_at(AT_PATH)])
def test_metadata_about_another_server_end_the_discovery(challenged: Challenge | None) -> None:
    web = Web({AT_PATH: about("https://evil.example/mcp"), AT_ROOT: about(), AT_ISSUER: issued_by()})

    with pytest.raises(AuthorizationFailed, match=r"mismatch: .* is about 'https://evil.example/mcp', not about"):
        discover_in(web, challenged)

    assert web.requested_urls == [AT_PATH]


@pytest.mark.requirement("C.2-4")
def test_the_metadata_of_an_issuer_with_a_path_are_never_requested_at_the_root() -> None:
    issuer = f"{ISSUER}/tenant1"
    web = Web({AT_PATH: about(URL, issuer), AT_ISSUER: issued_by(issuer), AT_OPENID: issued_by(issuer)})

    with pytest.raises(AuthorizationFailed, match=f"the authorization server {issuer} publishes no metadata"):
        discover_in(web)

    assert web.requested_urls == [
        AT_PATH,
        f"{AT_ISSUER}/tenant1",
        f"{AT_OPENID}/tenant1",
        f"{ISSUER}/tenant1/.well-known/openid-configuration",
    ]


@pytest.mark.requirement("C.2-5")
@pytest.mark.parametrize(
    "issuer", [f"{ISSUER}/", "HTTPS://as.example", "https://as.example:443", "https://evil.example", ""]
)
def test_metadata_of_another_issuer_are_refused_and_end_the_discovery(issuer: str) -> None:
    web = Web({AT_PATH: about(), AT_ISSUER: issued_by(issuer, token_endpoint="https://as.example/token")})

    with pytest.raises(AuthorizationFailed) as caught:
        discover_in(web)

    assert f"is about {issuer!r}, not exactly about '{ISSUER}'" in str(caught.value)
    assert web.requested_urls == [AT_PATH, AT_ISSUER]


@pytest.mark.requirement("C.2-5")
def test_an_issuer_with_a_trailing_slash_is_a_different_issuer() -> None:
    web = Web({AT_PATH: about(URL, f"{ISSUER}/"), AT_ISSUER: {**issued_by(), "issuer": f"{ISSUER}/"}})

    assert discover_in(web).server.issuer == f"{ISSUER}/"


@pytest.mark.requirement("C.2-9")
def test_the_previous_authorization_server_is_preferred_while_the_metadata_list_it() -> None:
    others = ("https://first.example", ISSUER)
    web = Web(
        {
            AT_PATH: about(URL, *others),
            AT_ISSUER: issued_by(),
            f"{others[0]}/.well-known/oauth-authorization-server": issued_by(others[0]),
        }
    )

    assert discover_in(web).server.issuer == others[0]
    assert discover_in(web, prefer=ISSUER).server.issuer == ISSUER
    assert discover_in(web, prefer="https://gone.example").server.issuer == others[0]


def test_after_an_unusable_authorization_server_the_next_one_is_tried() -> None:
    faulty = ["https://none.example", "http://insecure.example", "https://query.example/?a=secret"]
    web = Web({AT_PATH: about(URL, *faulty, ISSUER), AT_ISSUER: issued_by()})

    assert discover_in(web).server.issuer == ISSUER
    assert web.requested_urls == [
        AT_PATH,
        "https://none.example/.well-known/oauth-authorization-server",
        "https://none.example/.well-known/openid-configuration",
        AT_ISSUER,
    ]


def test_an_unreachable_authorization_server_is_not_replaced_by_another() -> None:
    web = Web({AT_PATH: about(URL, ISSUER, "https://next.example"), AT_ISSUER: CallFailed("refused")})

    with pytest.raises(AuthorizationFailed, match=f"metadata at {AT_ISSUER} could not be read: refused"):
        discover_in(web)

    assert web.requested_urls == [AT_PATH, AT_ISSUER]


def test_a_bounded_number_of_authorization_servers_is_tried_and_the_message_names_the_fault_of_each() -> None:
    web = Web({AT_PATH: about(URL, *(f"http://as{number}.example?secret" for number in range(1000)))})

    with pytest.raises(AuthorizationFailed) as caught:
        discover_in(web)

    assert [part.split(" is ")[0] for part in str(caught.value).split("; ")] == [
        f"the issuer 'http://as{number}.example'" for number in range(4)
    ]
    assert "secret" not in str(caught.value)


def test_an_issuer_with_a_query_is_refused() -> None:
    web = Web({AT_PATH: about(URL, f"{ISSUER}?tenant=secret"), AT_ISSUER: issued_by(f"{ISSUER}?tenant=secret")})

    with pytest.raises(AuthorizationFailed, match=f"the issuer '{ISSUER}' has a query, which is not allowed"):
        discover_in(web)


@pytest.mark.requirement("C.2-16")
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize("endpoint", ["http://as.example/x", "javascript:alert(1)", "/x", "https://u:p@as.example/"])
def test_an_authorization_server_with_an_unsafe_endpoint_is_refused(name: str, endpoint: str) -> None:
    web = Web({AT_PATH: about(), AT_ISSUER: issued_by(**{name: endpoint})})

    with pytest.raises(AuthorizationFailed, match=f"the {name.replace('_', ' ')} of {ISSUER} "):
        discover_in(web)


def test_endpoints_on_trusted_and_local_hosts_need_no_tls() -> None:
    url, issuer = "http://mcp.internal:8000/mcp", "http://localhost:9000"
    metadata_url = "http://mcp.internal:8000/.well-known/oauth-protected-resource/mcp"
    endpoints = {"authorization_endpoint": "http://as.internal/authorize"}
    web = Web(
        {metadata_url: about(url, issuer), f"{issuer}/.well-known/openid-configuration": issued_by(issuer, **endpoints)}
    )

    token_issuer = discover_in(web, url=url, trusted_hosts=("mcp.internal", "as.internal"))

    assert token_issuer.server.authorization_endpoint == "http://as.internal/authorize"


@pytest.mark.parametrize("url", ["http://x.example/mcp", "https://me:secret@x.example/mcp", "stdio://x"])
def test_no_token_is_obtained_for_an_unsafe_server_url(url: str) -> None:
    web = Web({})

    with pytest.raises(AuthorizationFailed, match=r"^the server '") as caught:
        discover_in(web, url=url)

    assert web.requested_urls == []
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://x.example/prm", "https://x.example/prm#a", "", "prm"])
def test_an_unsafe_metadata_url_is_not_requested(url: str) -> None:
    web = Web({})

    with pytest.raises(AuthorizationFailed, match="the URL of the protected-resource metadata"):
        discover_in(web, named_at(url))

    assert web.requested_urls == []


@pytest.mark.requirement("C.2-19")
def test_each_request_states_who_chose_its_host_and_carries_the_protocol_revision() -> None:
    elsewhere = "https://cdn.example/prm"
    web = Web(
        {
            elsewhere: about(URL, ISSUER),
            AT_ISSUER: issued_by(),
            AT_PATH: about(URL, "https://x.example"),
            AT_ORIGIN: issued_by("https://x.example"),
        }
    )

    discover_in(web, named_at(elsewhere))
    discover_in(web, named_at(AT_PATH))

    named_by = {call.url: call.named_by for call in web.calls}
    assert named_by == {elsewhere: "server", AT_ISSUER: "server", AT_PATH: "user", AT_ORIGIN: "user"}
    assert {call.method for call in web.calls} == {"GET"}
    for call in web.calls:
        assert call.headers == {"accept": "application/json", "mcp-protocol-version": "2026-07-28"}


@pytest.mark.requirement("C.2-4")
@pytest.mark.parametrize("issuer", ["https://x.example", "https://x.example/"])
def test_the_origin_of_a_server_without_metadata_is_its_authorization_server(issuer: str) -> None:
    web = Web({AT_ORIGIN: {"issuer": issuer, "token_endpoint": "https://x.example/oauth/token"}})

    token_issuer = discover_in(web)

    assert web.requested_urls == [AT_PATH, AT_ROOT, AT_ORIGIN]
    server = ServerMetadata(issuer=issuer, token_endpoint="https://x.example/oauth/token")
    assert token_issuer == TokenIssuer(url=URL, resource=None, server=server)
    assert token_issuer.identifier is None


@pytest.mark.requirement("C.2-4")
def test_the_authorization_server_of_an_origin_without_metadata_has_default_endpoints() -> None:
    web = Web({})

    token_issuer = discover_in(web)

    assert web.requested_urls == [AT_PATH, AT_ROOT, AT_ORIGIN]
    assert token_issuer.resource is None
    assert token_issuer.server == ServerMetadata(
        issuer="https://x.example",
        authorization_endpoint="https://x.example/authorize",
        token_endpoint="https://x.example/token",
        registration_endpoint="https://x.example/register",
        is_assumed=True,
    )


ELSEWHERE = Unreadable("it redirects to another origin")


def test_after_a_redirect_the_next_url_is_requested() -> None:
    web = Web({AT_PATH: ELSEWHERE, AT_ROOT: about(), AT_ISSUER: ELSEWHERE, AT_OPENID: issued_by()})

    assert discover_in(web).server.issuer == ISSUER
    assert web.requested_urls == [AT_PATH, AT_ROOT, AT_ISSUER, AT_OPENID]


@pytest.mark.parametrize("at_issuer", [{AT_ISSUER: ELSEWHERE}, {AT_OPENID: ELSEWHERE}])
def test_if_no_metadata_are_found_the_error_names_the_url_that_redirects(at_issuer: dict[str, Answer]) -> None:
    web = Web({AT_PATH: about(), **at_issuer})

    with pytest.raises(
        AuthorizationFailed, match=r"/\.well-known/.* could not be read: it redirects to another origin$"
    ):
        discover_in(web)


def test_a_server_whose_metadata_urls_redirect_is_a_legacy_server_only_if_its_origin_has_issuer_metadata() -> None:
    with pytest.raises(AuthorizationFailed, match=f"{AT_ROOT} could not be read: it redirects to another origin$"):
        discover_in(Web({AT_ROOT: ELSEWHERE}))

    assert discover_in(Web({AT_ROOT: ELSEWHERE, AT_ORIGIN: issued_by("https://x.example")})).resource is None


@pytest.mark.requirement("C.2-5")
def test_the_origin_of_a_server_without_metadata_cannot_name_another_issuer() -> None:
    web = Web({AT_ORIGIN: {**issued_by("https://good.example"), "token_endpoint": "https://x.example/token"}})

    with pytest.raises(AuthorizationFailed, match=r"is about 'https://good.example', not exactly about"):
        discover_in(web)


def test_a_server_whose_metadata_are_unreachable_is_not_treated_as_a_legacy_server() -> None:
    web = Web({AT_ORIGIN: 500})

    with pytest.raises(AuthorizationFailed, match=f"at {AT_ORIGIN} is temporarily unavailable: HTTP status 500"):
        discover_in(web)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([URL, ISSUER, f"{ISSUER}/t"])
NAMES = st.sampled_from([*about(), *issued_by(), "authorization_endpoint", "scopes_supported"])
BODIES = st.binary(max_size=8) | st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=3)).map(encode)
REPLIES = st.builds(HttpReply, status=st.sampled_from([200, 200, 200, 404, 500]), body=BODIES)


@given(st.lists(REPLIES, max_size=8), st.none() | st.text().map(named_at))
def test_discovery_returns_a_safe_result_or_fails_for_any_responses(
    replies: list[HttpReply], challenged: Challenge | None
) -> None:
    web = Web({})
    web.answers = dict(zip([AT_PATH, AT_ROOT, AT_ISSUER, AT_OPENID, AT_ORIGIN], replies, strict=False))

    try:
        token_issuer = discover_in(web, challenged)
    except AuthorizationFailed as exc:
        assert str(exc).isprintable()
    else:
        assert token_issuer.server.token_endpoint.startswith("https://")
        assert token_issuer.identifier in {None, URL}
    assert len(web.calls) <= 20
