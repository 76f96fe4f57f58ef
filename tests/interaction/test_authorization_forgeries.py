"""Forged tokens and forged proofs of possession: the server refuses all of them with the same response."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
import trio
from attrs import define
from joserfc.jwk import ECKey

from tests.auth.signed_tokens import b64, raw_jws
from tests.interaction.protected_deployment import (
    ISSUER,
    ORIGIN,
    URL,
    Deployment,
    bearer,
    every_transport,
    login_server,
)
from tests.interaction.raw_http_client import RawHttpClient
from tests.testing.authorization_bench import Signer
from trio_mcp import (
    HttpStatusError,
)
from trio_mcp.auth._challenges import read_challenges
from trio_mcp.auth._dpop import DpopKey

EVIL = "https://evil.example"


# Invalid tokens.


def invalid_tokens(deployment: Deployment, *, kid: str | None = None) -> dict[str, str]:
    """Return tokens that the shop must refuse, by the fault of each."""
    auth, mallory = deployment.auth, login_server(EVIL)
    [key] = auth.jwks["keys"]
    now = int(trio.current_time())
    claims = {
        "iss": ISSUER,
        "sub": "mallory",
        "aud": URL,
        "exp": now + 60,
        "iat": now,
        "client_id": "x",
        "scope": "buy",
    }
    header = {"alg": "ES256", "typ": "at+jwt", "kid": key["kid"] if kid is None else kid}

    def hs256(secret: bytes) -> str:
        head = f"{b64({**header, 'alg': 'HS256'})}.{b64(claims)}"
        return f"{head}.{b64(hmac.new(secret, head.encode(), hashlib.sha256).digest())}"

    pem = ECKey.import_key(key).as_pem(private=False)
    good = auth.issue_token(resource=URL)
    return {
        "alg none": raw_jws({**header, "alg": "none"}, claims, b""),
        "alg None": raw_jws({**header, "alg": "None"}, claims, b""),
        "HS256 with the public key as PEM": hs256(pem),
        "HS256 with the public key as JWK": hs256(json.dumps(key).encode()),
        "HS256 with the coordinate of the public key": hs256(key["x"].encode()),
        "signed with another key": Signer().sign(claims, kid=key["kid"], typ="at+jwt"),
        "signed with another key without a key ID": Signer().sign(claims, typ="at+jwt"),
        "of an issuer that is not trusted": mallory.issue_token(resource=URL),
        "of an issuer that says it is another": mallory.issue_token(resource=URL, claims={"iss": ISSUER}),
        "for another server": auth.issue_token(resource=f"{ORIGIN}/other"),
        "for the origin": auth.issue_token(resource=ORIGIN),
        "for the authorization server": auth.issue_token(resource=URL, claims={"aud": ISSUER}),
        "without an audience": auth.issue_token(resource=URL, claims={"aud": []}),
        "for a longer name": auth.issue_token(resource=f"{URL}/more"),
        "expired": auth.issue_token(resource=URL, seconds=-3600),
        "of the future": auth.issue_token(resource=URL, claims={"nbf": now + 3600}),
        "an ID token": auth.issue_id_token(subject="ada", client_id="client"),
        "an ID-JAG": auth.sign(claims, typ="oauth-id-jag+jwt"),
        "a proof": auth.sign(claims, typ="dpop+jwt"),
        "changed": f"{good[:-6]}{'A' * 6}",
        "without its signature": good.rpartition(".")[0] + ".",
        "nonsense": "x",
        "a path": "../../etc/passwd",
        "long": "x" * 20_000,
    }


@pytest.mark.requirement("C.3-1", "C.3-4")
async def test_every_invalid_token_is_refused_with_the_same_response(autojump_clock: object) -> None:
    deployment = Deployment(options={"scopes": ["use"]})
    client = RawHttpClient(deployment.network, url=URL)

    async with deployment.open():
        await trio.sleep(10_000)
        refusals = {
            name: await client.post(client.call("whoami"), {"authorization": f"Bearer {token}"})
            for name, token in invalid_tokens(deployment).items()
        }
        good = await client.post(
            client.call("whoami"), bearer(deployment.auth.issue_token(resource=URL, scopes=["use"]))
        )

    assert {name: got.status for name, got in refusals.items() if got.status != 401} == {}
    assert len({(got.body, *sorted(got.headers.items())) for got in refusals.values()}) == 1
    for challenge in read_challenges(refusals["alg none"].headers["www-authenticate"]):
        assert challenge.parameters.keys() - {"algs"} == {"error", "scope", "resource_metadata"}
        assert challenge.parameters["error"] == "invalid_token"
    assert good.status == 200
    assert len(deployment.shop.shown) == 1


@pytest.mark.requirement("C.3-4", "C.3-8")
@every_transport
async def test_an_invalid_token_is_refused_in_every_revision(
    transport: str, revision: str, autojump_clock: object
) -> None:
    deployment = Deployment(transport=transport)

    async with deployment.open():
        await trio.sleep(10_000)
        bad = invalid_tokens(deployment).values()
        for token in bad:
            with pytest.raises(HttpStatusError):
                async with deployment.client(None, headers=bearer(token), revision=revision):
                    raise AssertionError

    assert deployment.statuses(401) >= len(bad)
    assert deployment.statuses(200) == 0


@pytest.mark.requirement("C.3-4")
async def test_a_flood_of_unknown_keys_costs_one_request_and_does_not_delay_valid_tokens(
    autojump_clock: object,
) -> None:
    deployment, statuses = Deployment(), list[int]()
    client = RawHttpClient(deployment.network, url=URL)
    signer = Signer()

    async def flood(number: int) -> None:
        now = int(trio.current_time())
        token = signer.sign({"iss": ISSUER, "sub": "m", "aud": URL, "exp": now + 60}, kid=str(number), typ="at+jwt")
        statuses.append((await client.post(client.call("whoami"), bearer(token))).status)

    async with deployment.open():
        good = bearer(deployment.auth.issue_token(resource=URL))
        assert (await client.post(client.call("whoami"), good)).status == 200
        await trio.sleep(60)
        assert len(deployment.auth.asked("jwks")) == 1
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(flood, number)
            assert (await client.post(client.call("whoami"), good)).status == 200
        assert trio.current_time() == began

    assert statuses == [401] * 200
    assert len(deployment.auth.asked("jwks")) == 2


@pytest.mark.requirement("C.3-1", "C.2-1")
@pytest.mark.parametrize("also_in_the_header", [False, True])
@pytest.mark.parametrize("query", ["access_token={}", "a=b&access_token={}", "%61ccess_token={}", "access_token="])
async def test_a_token_in_the_url_is_refused_even_beside_a_valid_header(
    query: str, also_in_the_header: bool, autojump_clock: object
) -> None:
    deployment = Deployment()

    async with deployment.open():
        token = deployment.auth.issue_token(resource=URL)
        client = RawHttpClient(deployment.network, url=f"{URL}?{query.format(token)}")
        got = await client.post(client.call("whoami"), bearer(token) if also_in_the_header else {})

    assert got.status == 400
    assert token.encode() not in got.body
    assert {each.parameters["error"] for each in read_challenges(got.headers["www-authenticate"])} == {
        "invalid_request"
    }
    assert deployment.shop.shown == []


# Proofs of possession.


@define(eq=False)
class Thief:
    """A thief of a bound token and its proofs; it also has the key, for the faults that only the owner could make."""

    token: str
    key: DpopKey

    def proof(self, url: str = URL, method: str = "POST", *, token: str | None = None, ago: float = 0) -> str:
        return self.key.proof(method, url, now=trio.current_time() - ago, token=token or self.token)

    def fields(self, proof: str | None, scheme: str = "DPoP") -> dict[str, str]:
        shown = {"authorization": f"{scheme} {self.token}"}
        return shown if proof is None else {**shown, "dpop": proof}


@pytest.mark.requirement("C.3-4")
async def test_a_stolen_token_that_is_bound_to_a_key_is_refused(autojump_clock: object) -> None:
    deployment, key = Deployment(), DpopKey.generate()
    client = RawHttpClient(deployment.network, url=URL)

    async with deployment.open():
        await trio.sleep(10_000)
        token = deployment.auth.issue_token(resource=URL, claims={"cnf": {"jkt": key.thumbprint}})
        thief = Thief(token, key)
        used = thief.proof()
        assert (await client.post(client.call("whoami"), thief.fields(used))).status == 200
        bad = {
            "shown before": used,
            "none": None,
            "for another path": thief.proof(f"{ORIGIN}/other"),
            "for another host": thief.proof(f"{EVIL}/mcp"),
            "for another scheme": thief.proof(URL.replace("https", "http")),
            "for another method": thief.proof(method="GET"),
            "for another token": thief.proof(token="x"),
            "for no token": key.proof("POST", URL, now=trio.current_time()),
            "old": thief.proof(ago=600),
            "of the future": thief.proof(ago=-600),
            "of another key": DpopKey.generate().proof("POST", URL, now=trio.current_time(), token=token),
            "two": f"{thief.proof()}, {thief.proof()}",
            "the token itself": token,
            "nonsense": "x",
        }
        refusals = {name: await client.post(client.call("whoami"), thief.fields(proof)) for name, proof in bad.items()}
        as_bearer = await client.post(client.call("whoami"), thief.fields(None, "Bearer"))
        unbound = deployment.auth.issue_token(resource=URL)
        as_bound = await client.post(client.call("whoami"), Thief(unbound, key).fields(thief.proof(token=unbound)))
        assert (await client.post(client.call("whoami"), thief.fields(thief.proof()))).status == 200

    assert {name: got.status for name, got in refusals.items() if got.status != 401} == {}
    assert len({(got.body, *sorted(got.headers.items())) for got in refusals.values()}) == 1
    [challenge] = read_challenges(refusals["none"].headers["www-authenticate"])
    assert (challenge.scheme, challenge.parameters["error"]) == ("DPoP", "invalid_dpop_proof")
    assert (as_bearer.status, as_bound.status) == (401, 401)
    assert len(deployment.shop.shown) == 2
