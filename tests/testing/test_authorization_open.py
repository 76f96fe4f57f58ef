"""The development authorization server on a socket."""

from __future__ import annotations

import json

import pytest

from trio_mcp.auth import HttpCall
from trio_mcp.testing import KnownClient, open_authorization_server
from trio_mcp.transports import open_fetch


async def get(url: str) -> tuple[int, bytes]:
    """Fetch a document over real sockets."""
    async with open_fetch() as fetch:
        reply = await fetch(HttpCall(method="GET", url=url, named_by="user"))
        return reply.status, reply.body


async def test_the_authorization_server_answers_at_the_url_of_its_issuer() -> None:
    async with open_authorization_server(path="/tenant1", scopes=["read"]) as auth:
        assert auth.issuer.startswith("http://127.0.0.1:")
        status, body = await get(auth.issuer + "/.well-known/openid-configuration")

    assert status == 200
    metadata = json.loads(body)
    assert (metadata["issuer"], metadata["scopes_supported"]) == (auth.issuer, ["read"])
    assert metadata["client_id_metadata_document_supported"]


async def test_the_authorization_server_fetches_no_metadata_documents_if_that_is_turned_off() -> None:
    async with open_authorization_server(fetch=None, clients=[KnownClient("known")]) as auth:
        _, body = await get(auth.issuer + "/.well-known/openid-configuration")

    assert not json.loads(body)["client_id_metadata_document_supported"]


@pytest.mark.parametrize(("host", "shown"), [("::1", "[::1]"), ("localhost", "localhost")])
async def test_the_authorization_server_may_listen_at_any_loopback_address(host: str, shown: str) -> None:
    async with open_authorization_server(host=host) as auth:
        assert auth.issuer.startswith(f"http://{shown}:")
        assert (await get(auth.issuer + "/jwks"))[0] == 200


async def test_an_address_that_other_machines_could_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="only a loopback host is allowed"):
        async with open_authorization_server(host="0.0.0.0"):
            pytest.fail("the server listens on every interface")


async def test_an_exception_of_the_block_is_raised_unchanged() -> None:
    with pytest.raises(LookupError):
        async with open_authorization_server():
            raise LookupError


async def test_an_address_in_use_is_named_in_the_error() -> None:
    async with open_authorization_server(fetch=None) as auth:
        port = int(auth.issuer.rpartition(":")[2])
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with open_authorization_server(port=port):
                pytest.fail("both servers listen on one port")
