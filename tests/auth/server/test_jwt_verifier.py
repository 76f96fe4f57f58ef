from __future__ import annotations

from typing import Any

import pytest

from tests.auth.signed_tokens import ISSUER, NOW, RESOURCE, Clock, Issuer, ec_key, okp_key, raw_jws, rsa_key
from trio_mcp.auth import HttpCall, InvalidToken, JwtVerifier, VerifiedToken, VerifierUnavailable
from trio_mcp.auth._jwt import ASYMMETRIC

OTHER = "https://other.example"


def verifier(server: Issuer, **options: Any) -> JwtVerifier:
    settings: dict[str, Any] = {"issuers": [ISSUER], "clock": server.clock, **options}
    return JwtVerifier(**settings)


async def test_a_valid_token_names_its_subject() -> None:
    server = Issuer()

    token = await verifier(server).verify(server.token(nbf=int(NOW), cnf={"jkt": "thumb"}), server)

    assert token == VerifiedToken(
        issuer=ISSUER,
        subject="ann",
        client_id="desk",
        audiences=(RESOURCE,),
        scopes=frozenset({"read", "write"}),
        expires_at=NOW + 300,
        not_before=NOW,
        key_thumbprint="thumb",
        claims=server.claims(nbf=int(NOW), cnf={"jkt": "thumb"}),
    )


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
async def test_every_algorithm_with_public_keys_is_supported(algorithm: str) -> None:
    curves = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
    if algorithm in curves:
        key = ec_key(algorithm, curves[algorithm])
    else:
        key = okp_key() if algorithm.startswith("Ed") else rsa_key()
    server = Issuer(keys=[key])

    assert (await verifier(server).verify(server.token(algorithm=algorithm), server)).subject == "ann"


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", None])
async def test_the_type_of_a_token_may_be_that_of_an_access_token_or_missing(typ: str | None) -> None:
    server = Issuer()

    assert (await verifier(server).verify(server.token(header={"typ": typ}), server)).subject == "ann"


@pytest.mark.parametrize("typ", ["dpop+jwt", "id_token+jwt", "oauth-id-jag+jwt", "logout+jwt", ""])
async def test_a_signed_object_of_another_type_is_refused(typ: str) -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match=r"(not|that of) an access token"):
        await verifier(server).verify(server.token(header={"typ": typ}), server)


@pytest.mark.parametrize("typ", ["JWT", None])
async def test_the_accepted_types_can_be_narrowed(typ: str | None) -> None:
    server = Issuer()
    strict = verifier(server, types=["AT+jwt"])

    assert (await strict.verify(server.token(), server)).subject == "ann"
    with pytest.raises(InvalidToken, match=r"(not|that of) an access token"):
        await strict.verify(server.token(header={"typ": typ}), server)


@pytest.mark.parametrize(
    "claims",
    [
        {"at_hash": "x"},
        {"c_hash": "x"},
        {"typ": "ID"},
        {"typ": "Refresh"},
        {"typ": "Offline"},
        {"token_use": "id"},
        {"token_use": "refresh_token"},
        {"token_type": "refresh"},
    ],
)
async def test_an_id_token_is_not_accepted_as_an_access_token(claims: dict[str, Any]) -> None:
    server = Issuer()
    jwt_verifier = verifier(server)

    with pytest.raises(InvalidToken, match=r"(not|that of) an access token"):
        await jwt_verifier.verify(server.token(header={"typ": "JWT"}, **claims), server)
    assert (await jwt_verifier.verify(server.token(**claims), server)).subject == "ann"


async def test_type_claims_that_are_not_strings_are_ignored() -> None:
    server = Issuer()
    token = server.token(header={"typ": "JWT"}, typ=["ID"], token_use={"id": 1})

    assert (await verifier(server).verify(token, server)).subject == "ann"


@pytest.mark.parametrize("issuer", [OTHER, f"{ISSUER}/", "https://AS.example", None, 7, [ISSUER], ""])
async def test_an_untrusted_issuer_causes_no_fetch(issuer: object) -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="is not trusted"):
        await verifier(server).verify(server.token(iss=issuer), server)

    assert server.calls == []


async def test_without_issuers_every_token_is_refused() -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="is not trusted"):
        await JwtVerifier().verify(server.token(), server)


async def test_a_token_that_never_expires_is_refused() -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="never expires"):
        await verifier(server).verify(server.token(exp=None), server)


async def test_a_forged_token_is_refused() -> None:
    server = Issuer()
    forged = server.token(key=ec_key("foreign"), header={"kid": "first"})

    with pytest.raises(InvalidToken, match=r"no key of its issuer .* has signed it"):
        await verifier(server).verify(forged, server)


async def test_a_key_in_the_header_of_a_token_is_ignored() -> None:
    server = Issuer()
    foreign = ec_key("foreign")
    header = {"jwk": foreign.as_dict(private=False), "jku": "https://evil.example/jwks", "x5u": "https://evil.example"}

    with pytest.raises(InvalidToken, match=r"no key of its issuer .* has signed it"):
        await verifier(server).verify(server.token(key=foreign, header=header), server)
    assert not any("evil" in url for url in server.requested_urls)


async def test_the_keys_of_an_issuer_do_not_verify_tokens_of_another_issuer() -> None:
    ours, theirs = Issuer(), Issuer(issuer=OTHER, keys=[ec_key("first")])
    theirs.keys = [ec_key("theirs")]
    jwt_verifier = verifier(ours, issuers=[ISSUER, OTHER])

    assert (await jwt_verifier.verify(ours.token(), ours)).issuer == ISSUER
    assert (await jwt_verifier.verify(theirs.token(), theirs)).issuer == OTHER
    with pytest.raises(InvalidToken, match=r"no key of its issuer"):
        await jwt_verifier.verify(theirs.token(iss=ISSUER), ours)


async def test_a_token_that_is_too_long_is_refused_without_a_fetch() -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="more than 16384 characters"):
        await verifier(server).verify(server.token(junk="x" * 20_000), server)
    assert server.calls == []


async def test_an_algorithm_that_the_options_do_not_list_is_refused() -> None:
    server = Issuer(keys=[rsa_key()])

    with pytest.raises(InvalidToken, match="'RS256', which is not allowed"):
        await verifier(server, algorithms=["ES256"]).verify(server.token(algorithm="RS256"), server)


async def test_an_unsigned_token_is_refused() -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="'none', which is not allowed"):
        await verifier(server).verify(raw_jws({"alg": "none", "typ": "at+jwt"}, server.claims(), b""), server)


async def test_an_unreachable_authorization_server_makes_the_verifier_unavailable() -> None:
    server = Issuer()
    server.become_unreachable()

    with pytest.raises(VerifierUnavailable):
        await verifier(server).verify(server.token(), server)


@pytest.mark.parametrize("algorithms", [[], ["HS256"], ["none"], ["ES256", "HS512"], ["es256"]])
def test_symmetric_and_unknown_algorithms_are_refused_as_options(algorithms: list[str]) -> None:
    with pytest.raises(ValueError, match="algorithms="):
        JwtVerifier(algorithms=algorithms)


async def test_the_verifier_takes_over_the_issuers_of_a_resource_server() -> None:
    server = Issuer(clock=Clock(5.0))
    general = JwtVerifier(algorithms=["ES256"])

    serving = general.serving([ISSUER], trusted_hosts=["keycloak"], clock=server.clock)

    assert (serving.issuers, serving.trusted_hosts, serving.clock) == ([ISSUER], ["keycloak"], server.clock)
    assert serving.algorithms == ["ES256"]
    assert general.issuers == ()
    assert (await serving.verify(server.token(), server)).subject == "ann"


def test_the_verifier_keeps_its_configured_issuers() -> None:
    general = JwtVerifier(issuers=[OTHER], trusted_hosts=["a"])

    serving = general.serving([ISSUER], trusted_hosts=["b"], clock=Clock())

    assert (serving.issuers, serving.trusted_hosts) == ([OTHER], ["a"])


async def test_each_issuer_may_have_a_separate_url_for_its_keys() -> None:
    server = Issuer()
    server.answers["https://keys.example/"] = await server(
        HttpCall(method="GET", url=f"{ISSUER}/jwks", named_by="user")
    )
    jwt_verifier = verifier(server, issuers=[ISSUER, OTHER], jwks_uri={ISSUER: "https://keys.example/"})
    server.calls.clear()

    await jwt_verifier.verify(server.token(), server)
    with pytest.raises(VerifierUnavailable):
        await jwt_verifier.verify(server.token(iss=OTHER), server)

    assert server.requested_urls[0] == "https://keys.example/"
    assert server.requested_urls[1] == f"{OTHER}/.well-known/oauth-authorization-server"


async def test_the_keys_of_the_only_issuer_may_be_configured_by_one_url() -> None:
    server = Issuer()
    jwt_verifier = JwtVerifier(jwks_uri=f"{ISSUER}/jwks").serving([ISSUER], trusted_hosts=(), clock=server.clock)

    await jwt_verifier.verify(server.token(), server)

    assert server.requested_urls == [f"{ISSUER}/jwks"]


@pytest.mark.parametrize(
    ("uri", "cause"),
    [
        ("https://keys.example/", "pass the URL of each one"),
        ({ISSUER: "http://keys.example/"}, "jwks_uri 'http://keys.example/'"),
        ({ISSUER: "nonsense"}, "jwks_uri 'nonsense'"),
    ],
)
def test_invalid_key_urls_are_refused(uri: Any, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        JwtVerifier(jwks_uri=uri).serving([ISSUER, OTHER], trusted_hosts=(), clock=Clock())
