from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest
import trio
import trio.testing

from tests.auth.signed_tokens import ISSUER, NOW, RESOURCE, Clock, Issuer
from trio_mcp.auth import (
    CallFailed,
    HttpReply,
    IntrospectionVerifier,
    InvalidToken,
    Registration,
    VerifierUnavailable,
)

ENDPOINT = f"{ISSUER}/introspect"
CLIENT = Registration("api", secret="a secret")


def json_reply(**members: Any) -> HttpReply:
    return HttpReply(status=200, body=json.dumps(members).encode())


GOOD = json_reply(active=True, sub="ann", client_id="desk", aud=RESOURCE, scope="read", exp=int(NOW) + 60)


def verifier(server: Issuer, **options: Any) -> IntrospectionVerifier:
    settings: dict[str, Any] = {"client": CLIENT, "issuer": ISSUER, "clock": server.clock, **options}
    return IntrospectionVerifier(**settings)


async def test_the_authorization_server_is_asked_about_a_token() -> None:
    server = Issuer(answers={ENDPOINT: GOOD})

    token = await verifier(server, endpoint=ENDPOINT).verify("opaque+/=", server)

    assert (token.issuer, token.subject, token.client_id) == (ISSUER, "ann", "desk")
    assert (token.audiences, token.scopes, token.expires_at) == ((RESOURCE,), frozenset({"read"}), NOW + 60)
    (call,) = server.calls
    assert (call.method, call.url, call.named_by) == ("POST", ENDPOINT, "user")
    assert call.headers["authorization"] == "Basic YXBpOmElMjBzZWNyZXQ="
    assert call.headers["content-type"] == "application/x-www-form-urlencoded"
    form = {"token": ["opaque+/="], "token_type_hint": ["access_token"], "client_id": ["api"]}
    assert parse_qs(call.body.decode()) == form


async def test_the_endpoint_is_looked_up_in_the_metadata_once() -> None:
    server = Issuer(answers={ENDPOINT: GOOD})
    introspection = verifier(server)

    await introspection.verify("one", server)
    await introspection.verify("two", server)

    assert server.requested_urls == [f"{ISSUER}/.well-known/oauth-authorization-server", ENDPOINT, ENDPOINT]


@pytest.mark.parametrize(("methods", "posted"), [(["client_secret_post"], True), (None, False), ("nonsense", False)])
async def test_the_client_authenticates_with_the_method_in_the_metadata(methods: object, posted: bool) -> None:
    metadata = {
        "issuer": ISSUER,
        "introspection_endpoint": "https://elsewhere.example/",
        "introspection_endpoint_auth_methods_supported": methods,
    }
    server = Issuer(
        answers={
            f"{ISSUER}/.well-known/oauth-authorization-server": json_reply(**metadata),
            "https://elsewhere.example/": GOOD,
        }
    )

    await verifier(server).verify("token", server)

    call = server.calls[-1]
    assert (b"client_secret=a+secret" in call.body) is posted
    assert ("authorization" in call.headers) is not posted
    assert call.named_by == "server"


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (json_reply(active=False), "is not active"),
        (json_reply(), "is not active"),
        (json_reply(active="true"), "is not active"),
        (json_reply(active=1), "is not active"),
        (json_reply(active=True, iss="https://evil.example"), "a token of another issuer"),
        (json_reply(active=True, iss=7), "a token of another issuer"),
        (json_reply(active=True, sub=7), "response of https://as.example is invalid: its 'sub' is not a name"),
        (json_reply(active=True, cnf={"x5t#S256": "certificate"}), "is invalid: it is bound to something"),
        (json_reply(active=True, sub="ann", aud=[RESOURCE], token_type="refresh_token"), "not an access token"),
        (
            json_reply(active=True, sub="ann", aud=[RESOURCE], token_type="Bearer", token_use="refresh_token"),
            "not an access token",
        ),
        (json_reply(active=True, sub="ann", aud=[RESOURCE], typ="ID"), "not an access token"),
    ],
)
async def test_a_token_is_refused_unless_the_response_confirms_it_clearly(answer: HttpReply, cause: str) -> None:
    server = Issuer(answers={ENDPOINT: answer})
    introspection = verifier(server)

    for _ in range(2):
        with pytest.raises(InvalidToken, match=cause):
            await introspection.verify("token", server)

    assert server.requested_urls.count(ENDPOINT) == 1


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (HttpReply(status=401), "status 401"),
        (HttpReply(status=500), "status 500"),
        (HttpReply(status=404), "status 404"),
        (HttpReply(status=200, body=b"<html>"), "not JSON"),
        (HttpReply(status=200, body=b"[true]"), "not a JSON object"),
        (CallFailed("unreachable"), "unreachable"),
    ],
)
async def test_a_failed_introspection_is_not_cached_and_does_not_make_the_token_invalid(
    answer: Any, cause: str
) -> None:
    server = Issuer(answers={ENDPOINT: answer})
    introspection = verifier(server, endpoint=ENDPOINT)

    with pytest.raises(VerifierUnavailable, match=cause):
        await introspection.verify("token", server)
    server.answers[ENDPOINT] = GOOD
    assert (await introspection.verify("token", server)).subject == "ann"


async def test_without_metadata_of_the_issuer_the_verifier_is_unavailable() -> None:
    server = Issuer()
    server.become_unreachable()

    with pytest.raises(VerifierUnavailable, match=r"the introspection endpoint of https://as\.example is unknown"):
        await verifier(server).verify("token", server)


async def test_a_client_that_cannot_authenticate_makes_the_verifier_unavailable() -> None:
    server = Issuer()
    unable = Registration("api", method="client_secret_basic")

    with pytest.raises(VerifierUnavailable, match="has no secret"):
        await verifier(server, endpoint=ENDPOINT, client=unable).verify("token", server)


async def test_concurrent_requests_with_the_same_token_share_one_introspection() -> None:
    server = Issuer(answers={ENDPOINT: GOOD}, admission=trio.Event())
    introspection = verifier(server)

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(introspection.verify, "token", server)
        await trio.testing.wait_all_tasks_blocked()
        assert server.admission is not None
        server.admission.set()

    assert server.requested_urls.count(ENDPOINT) == 1


async def test_without_caching_every_request_causes_an_introspection() -> None:
    server = Issuer(answers={ENDPOINT: GOOD})
    introspection = verifier(server, cache_seconds=0)

    await introspection.verify("token", server)
    server.answers[ENDPOINT] = json_reply(active=False)

    with pytest.raises(InvalidToken):
        await introspection.verify("token", server)


async def test_outside_of_a_resource_server_the_verifier_needs_an_issuer() -> None:
    with pytest.raises(RuntimeError, match="pass issuer="):
        await IntrospectionVerifier(ENDPOINT, client=CLIENT).verify("token", Issuer())


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_cache_seconds_that_are_not_a_finite_nonnegative_number_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="cache_seconds="):
        IntrospectionVerifier(client=CLIENT, cache_seconds=seconds)


async def test_the_verifier_takes_over_the_only_issuer_of_a_resource_server() -> None:
    server = Issuer(answers={ENDPOINT: GOOD})
    general = IntrospectionVerifier(client=CLIENT)

    serving = general.serving([ISSUER], trusted_hosts=["keycloak"], clock=server.clock)

    assert (serving.issuer, serving.trusted_hosts, serving.clock) == (ISSUER, ["keycloak"], server.clock)
    assert (await serving.verify("token", server)).subject == "ann"


def test_with_several_issuers_the_verifier_must_name_one() -> None:
    issuers = [ISSUER, "https://other.example"]
    general = IntrospectionVerifier(client=CLIENT)
    by_client = IntrospectionVerifier(client=Registration("api", secret="s", issuer=issuers[1]), trusted_hosts=["a"])

    with pytest.raises(ValueError, match="several issuers"):
        general.serving(issuers, trusted_hosts=(), clock=Clock())
    serving = by_client.serving(issuers, trusted_hosts=["b"], clock=Clock())
    assert (serving.issuer, serving.trusted_hosts) == ("https://other.example", ["a"])


def test_an_unsafe_endpoint_is_refused() -> None:
    with pytest.raises(ValueError, match=r"introspection endpoint 'http://as.example/'"):
        IntrospectionVerifier("http://as.example/", client=CLIENT).serving([ISSUER], trusted_hosts=(), clock=Clock())


def test_the_repr_contains_no_secret() -> None:
    assert "a secret" not in repr(IntrospectionVerifier(client=CLIENT))
