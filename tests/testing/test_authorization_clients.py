"""Registration and metadata documents of clients at the development authorization server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trio_mcp.auth import CallFailed, HttpCall, HttpReply

from .authorization_bench import BACK, CHALLENGE, Bench, Signer, basic

DOCUMENT = "https://app.test/client.json"


async def test_a_client_registers_and_receives_its_id_and_secret() -> None:
    bench = Bench()

    answer = await bench.register(
        client_name="An editor", scope="read", application_type="native", grant_types=["authorization_code"], unknown=1
    )

    registered = answer.json
    assert answer.status == 201
    assert registered.pop("client_id")
    assert registered.pop("client_secret")
    assert registered == {
        "client_id_issued_at": int(bench.clock.now),
        "client_secret_expires_at": 0,
        "redirect_uris": [BACK],
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
        "client_name": "An editor",
        "scope": "read",
        "application_type": "native",
    }
    assert bench.auth.asked("register")[0].parameters["client_name"] == "An editor"


async def test_a_public_client_has_no_secret() -> None:
    registered = (await Bench().register(token_endpoint_auth_method="none")).json

    assert "client_secret" not in registered
    assert "client_secret_expires_at" not in registered


async def test_the_secret_of_a_client_may_expire() -> None:
    bench = Bench(secret_seconds=100.0)
    registered = (await bench.register(grant_types=["client_credentials"])).json
    credentials = basic(registered["client_id"], registered["client_secret"])

    assert registered["client_secret_expires_at"] == int(bench.clock.now) + 100
    assert (await bench.token("client_credentials", credentials)).status == 200
    bench.clock.now += 100.0
    assert (await bench.token("client_credentials", credentials)).error == (401, "invalid_client")


async def test_a_test_can_delete_the_registered_clients() -> None:
    bench = Bench()
    registered = (await bench.register()).json

    bench.auth.forget_clients()

    assert (await bench.authorize(client_id=registered["client_id"])).status == 400


async def test_the_number_of_registrations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._clients._MAX_CLIENTS", 1)
    bench = Bench()
    names = [(await bench.register()).json["client_id"] for _ in range(2)]

    assert [(await bench.authorize(client_id=name)).status for name in names] == [400, 302]


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": "http://127.0.0.1/"}, "invalid_client_metadata"),
        ({"redirect_uris": [1]}, "invalid_client_metadata"),
        ({"redirect_uris": ["http://app.test/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https:///cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.test/cb#x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://app.test/\n"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://user@app.test/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://:pw@app.test/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://[oops"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["/cb"]}, "invalid_redirect_uri"),
        ({"application_type": "web"}, "invalid_redirect_uri"),
        ({"application_type": "web", "redirect_uris": ["https://localhost/cb"]}, "invalid_redirect_uri"),
        ({"application_type": "toaster"}, "invalid_client_metadata"),
        ({"application_type": ["web"]}, "invalid_client_metadata"),
        ({"grant_types": ["implicit"]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "magic"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": ["none"]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [1]}}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": 1}}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": []}}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks": {}}, "invalid_client_metadata"),
    ],
)
async def test_an_invalid_registration_is_refused(members: dict[str, Any], error: str) -> None:
    answer = await Bench().register(**members)

    assert answer.error == (400, error)


@pytest.mark.parametrize(
    "members",
    [
        {"redirect_uris": ["app.test:/cb"], "application_type": "native"},
        {"redirect_uris": ["https://app.test/cb"], "application_type": "web"},
        {"redirect_uris": [], "grant_types": ["client_credentials"]},
        {"token_endpoint_auth_method": "private_key_jwt", "jwks": Signer().jwks},
    ],
)
async def test_other_kinds_of_clients_can_be_registered(members: dict[str, Any]) -> None:
    assert (await Bench().register(**members)).status == 201


async def test_a_server_without_registration_advertises_no_registration_endpoint() -> None:
    bench = Bench(registration=False)

    assert "registration_endpoint" not in (await bench.get("/.well-known/openid-configuration")).json
    assert (await bench.register()).error == (403, "access_denied")


@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/plain", b"{}"), ("application/json", b"[]"), ("application/json", b"{"), ("", b"{}")],
)
async def test_a_registration_that_is_not_a_json_object_is_refused(kind: str, body: bytes) -> None:
    answer = await Bench().send("POST", "/register", {"content-type": kind}, body)

    assert answer.error == (400, "invalid_request")


class FakeWeb:
    """A fake web with documents at some URLs."""

    def __init__(self, **pages: Any) -> None:
        self.pages: dict[str, Any] = {DOCUMENT: document(), **pages}
        self.calls: list[HttpCall] = []

    async def __call__(self, call: HttpCall) -> HttpReply:
        self.calls.append(call)
        page = self.pages.get(call.url)
        if isinstance(page, Exception):
            raise page
        if page is None:
            return HttpReply(status=404, body=b"{}")
        return HttpReply(status=200, body=page if isinstance(page, bytes) else json.dumps(page).encode())


def document(**members: Any) -> dict[str, Any]:
    """Return the metadata document of a client; None omits a member."""
    usual = {"client_id": DOCUMENT, "client_name": "An app", "redirect_uris": [BACK], **members}
    return {name: value for name, value in usual.items() if value is not None}


async def test_a_client_may_be_identified_by_its_metadata_document() -> None:
    web = FakeWeb()
    bench = Bench(fetch=web)

    assert (await bench.get("/.well-known/openid-configuration")).json["client_id_metadata_document_supported"]
    code = await bench.code(client_id=DOCUMENT)
    answer = await bench.redeem(code, client_id=DOCUMENT)

    assert bench.claims(answer.json["access_token"])["client_id"] == DOCUMENT
    (call,) = web.calls
    assert (call.method, call.url, call.named_by) == ("GET", DOCUMENT, "server")


async def test_a_metadata_document_is_fetched_again_after_five_minutes() -> None:
    web = FakeWeb()
    bench = Bench(fetch=web)
    await bench.authorize(client_id=DOCUMENT)
    bench.clock.now += 301.0
    web.pages[DOCUMENT] = document(redirect_uris=["https://app.test/cb"])

    assert (await bench.authorize(client_id=DOCUMENT)).status == 400
    assert len(web.calls) == 2


@pytest.mark.parametrize(
    "page",
    [
        None,
        CallFailed("no server listens there"),
        b"<html>",
        b"[]",
        document(client_id="https://app.test/other.json"),
        document(client_id=None),
        document(client_name=None),
        document(redirect_uris=[]),
        document(redirect_uris=None),
        document(client_secret="x"),
        document(token_endpoint_auth_method="client_secret_post"),
        document(token_endpoint_auth_method="private_key_jwt"),
        document(token_endpoint_auth_method="private_key_jwt", jwks_uri="https://app.test/gone.json"),
    ],
)
async def test_a_client_with_an_invalid_metadata_document_is_refused(page: Any) -> None:
    web = FakeWeb()
    web.pages[DOCUMENT] = page

    assert (await Bench(fetch=web).authorize(client_id=DOCUMENT)).status == 400


@pytest.mark.parametrize(
    "client_id",
    [
        "http://app.test/client.json",
        "https://app.test",
        "https://app.test/",
        "https://user@app.test/client.json",
        "https://app.test/client.json#x",
        "https://[oops",
        "unknown",
    ],
)
async def test_a_client_id_that_is_not_a_valid_document_url_is_not_fetched(client_id: str) -> None:
    web = FakeWeb()

    assert (await Bench(fetch=web).authorize(client_id=client_id)).status == 400
    assert web.calls == []


async def test_a_metadata_document_may_be_on_this_machine() -> None:
    here = "http://localhost:8000/client.json"
    web = FakeWeb(**{here: document(client_id=here)})

    assert (await Bench(fetch=web).authorize(client_id=here)).status == 302


@pytest.mark.parametrize("is_beside", [False, True])
async def test_a_client_with_a_metadata_document_may_authenticate_with_its_keys(is_beside: bool) -> None:
    signer, keys = Signer(), "https://app.test/keys.json"
    keys_member = {"jwks_uri": keys} if is_beside else {"jwks": signer.jwks}
    web = FakeWeb(**{keys: signer.jwks})
    web.pages[DOCUMENT] = document(token_endpoint_auth_method="private_key_jwt", **keys_member)
    bench = Bench(fetch=web)
    claims = {"iss": DOCUMENT, "sub": DOCUMENT, "aud": bench.auth.issuer, "exp": bench.clock.now + 60, "jti": "1"}
    shown = {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": signer.sign(claims),
    }

    answer = await bench.redeem(await bench.code(client_id=DOCUMENT), client_id=DOCUMENT, **shown)
    assert answer.status == 200
    refused = await bench.redeem(await bench.code(client_id=DOCUMENT), client_id=DOCUMENT)
    assert refused.error == (401, "invalid_client")


async def test_the_number_of_cached_metadata_documents_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_mcp.testing.authorization_server._clients._MAX_DOCUMENTS", 1)
    other = "https://app.test/other.json"
    web = FakeWeb(**{other: document(client_id=other)})
    bench = Bench(fetch=web)

    for client_id in (DOCUMENT, other, DOCUMENT):
        await bench.authorize(client_id=client_id, code_challenge=CHALLENGE)

    assert [call.url for call in web.calls] == [DOCUMENT, other, DOCUMENT]
