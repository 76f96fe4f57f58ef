from __future__ import annotations

import json
from typing import Any

import pytest

from tests.auth.signed_tokens import ISSUER, Issuer
from trio_mcp.auth import CallFailed, HttpReply, VerifierUnavailable
from trio_mcp.auth.server._token_verifiers import check_option, endpoint_of, host_chosen_by, read_issuer


def document(**members: Any) -> HttpReply:
    return HttpReply(status=200, body=json.dumps(members).encode())


async def test_the_metadata_of_an_issuer_are_read() -> None:
    server = Issuer()

    assert await read_issuer(ISSUER, server) == server.metadata
    (call,) = server.calls
    assert (call.method, call.named_by, call.headers) == ("GET", "user", {"accept": "application/json"})


async def test_the_openid_metadata_are_read_if_there_are_no_oauth_metadata() -> None:
    openid_url = f"{ISSUER}/.well-known/openid-configuration"
    server = Issuer(
        answers={
            f"{ISSUER}/.well-known/oauth-authorization-server": HttpReply(status=403),
            openid_url: document(issuer=ISSUER),
        }
    )

    assert await read_issuer(ISSUER, server) == {"issuer": ISSUER}


async def test_the_metadata_of_an_issuer_with_a_path_are_looked_for_at_three_urls_and_never_at_the_root() -> None:
    server = Issuer()

    with pytest.raises(VerifierUnavailable, match=r"https://as\.example/tenant/ publishes no metadata"):
        await read_issuer(f"{ISSUER}/tenant/", server)

    assert server.requested_urls == [
        f"{ISSUER}/.well-known/oauth-authorization-server/tenant",
        f"{ISSUER}/.well-known/openid-configuration/tenant",
        f"{ISSUER}/tenant/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize("named", ["https://as.example/", "https://AS.example", "https://evil.example", None, 7])
async def test_metadata_of_another_issuer_are_not_used(named: object) -> None:
    server = Issuer(answers={f"{ISSUER}/.well-known/oauth-authorization-server": document(issuer=named)})

    with pytest.raises(VerifierUnavailable, match="of another issuer"):
        await read_issuer(ISSUER, server)
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (HttpReply(status=500), "responded with the status 500"),
        (HttpReply(status=302, headers={"location": "https://evil.example"}), "responded with the status 302"),
        (HttpReply(status=200, body=b"<html>"), "is not JSON"),
        (HttpReply(status=200, body=b"[" * 100_000), "is not JSON"),
        (HttpReply(status=200, body=b"[]"), "is not a JSON object"),
        (CallFailed("the host is unreachable\nforged line"), r"the host is unreachable\?forged line"),
    ],
)
async def test_a_failed_request_for_metadata_ends_the_search(answer: HttpReply | Exception, cause: str) -> None:
    server = Issuer(answers={f"{ISSUER}/.well-known/oauth-authorization-server": answer})

    with pytest.raises(VerifierUnavailable, match=cause):
        await read_issuer(ISSUER, server)
    assert len(server.calls) == 1


def test_an_endpoint_in_the_metadata_is_a_safe_url() -> None:
    metadata = {"issuer": ISSUER, "jwks_uri": "https://keys.example/jwks"}

    assert endpoint_of(metadata, "jwks_uri", ()) == "https://keys.example/jwks"
    with pytest.raises(VerifierUnavailable, match="has no 'introspection_endpoint'"):
        endpoint_of(metadata, "introspection_endpoint", ())


@pytest.mark.parametrize("url", ["http://keys.example/jwks", "file:///etc/passwd", "https://ann:pw@keys.example/", ""])
def test_an_unsafe_endpoint_in_the_metadata_is_refused(url: str) -> None:
    with pytest.raises(VerifierUnavailable, match="jwks_uri") as caught:
        endpoint_of({"issuer": ISSUER, "jwks_uri": url}, "jwks_uri", ())

    assert "pw" not in str(caught.value)


def test_trusted_hosts_need_no_tls() -> None:
    metadata = {"issuer": ISSUER, "jwks_uri": "http://keycloak:8080/jwks"}

    assert endpoint_of(metadata, "jwks_uri", ["keycloak"]) == "http://keycloak:8080/jwks"


def test_every_host_except_the_host_of_the_issuer_counts_as_chosen_by_the_server() -> None:
    assert host_chosen_by("https://as.example/tenant", "https://AS.example:443/jwks") == "user"
    assert host_chosen_by("https://as.example", "https://10.0.0.1/jwks") == "server"
    assert host_chosen_by("https://as.example", "https://as.example:8443/jwks") == "server"


def test_an_unsafe_url_in_an_option_is_an_error_of_the_caller() -> None:
    check_option("http://localhost:8000", "issuer", ())
    with pytest.raises(ValueError, match=r"issuer 'http://as\.example'"):
        check_option("http://as.example", "issuer", ())
