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


async def test_a_good_token_says_whose_it_is() -> None:
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
async def test_every_algorithm_with_public_keys_is_known(algorithm: str) -> None:
    curves = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
    if algorithm in curves:
        key = ec_key(algorithm, curves[algorithm])
    else:
        key = okp_key() if algorithm.startswith("Ed") else rsa_key()
    server = Issuer(keys=[key])

    assert (await verifier(server).verify(server.token(algorithm=algorithm), server)).subject == "ann"


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", None])
async def test_a_token_may_say_that_it_is_one_or_nothing(typ: str | None) -> None:
    server = Issuer()

    assert (await verifier(server).verify(server.token(header={"typ": typ}), server)).subject == "ann"


@pytest.mark.parametrize("typ", ["dpop+jwt", "id_token+jwt", "oauth-id-jag+jwt", "logout+jwt", ""])
async def test_something_else_that_the_issuer_has_signed_is_no_token(typ: str) -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match=r"(not|that of) an access token"):
        await verifier(server).verify(server.token(header={"typ": typ}), server)


@pytest.mark.parametrize("said", ["JWT", None])
async def test_types_can_be_narrowed(said: str | None) -> None:
    server = Issuer()
    strict = verifier(server, types=["AT+jwt"])

    assert (await strict.verify(server.token(), server)).subject == "ann"
    with pytest.raises(InvalidToken, match=r"(not|that of) an access token"):
        await strict.verify(server.token(header={"typ": said}), server)


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
async def test_an_id_token_is_no_token_for_access(claims: dict[str, Any]) -> None:
    server = Issuer()
    checking = verifier(server)

    with pytest.raises(InvalidToken, match=r"(not|that of) an access token"):
        await checking.verify(server.token(header={"typ": "JWT"}, **claims), server)
    assert (await checking.verify(server.token(**claims), server)).subject == "ann"


async def test_claims_of_odd_types_are_no_kinds() -> None:
    server = Issuer()
    token = server.token(header={"typ": "JWT"}, typ=["ID"], token_use={"id": 1})

    assert (await verifier(server).verify(token, server)).subject == "ann"


@pytest.mark.parametrize("issuer", [OTHER, f"{ISSUER}/", "https://AS.example", None, 7, [ISSUER], ""])
async def test_nothing_is_fetched_for_an_issuer_that_is_not_trusted(issuer: object) -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="is not trusted"):
        await verifier(server).verify(server.token(iss=issuer), server)

    assert server.calls == []


async def test_without_issuers_no_token_is_good() -> None:
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

    with pytest.raises(InvalidToken, match="no key of its issuer has signed it"):
        await verifier(server).verify(forged, server)


async def test_a_key_in_the_header_of_a_token_counts_for_nothing() -> None:
    server = Issuer()
    foreign = ec_key("foreign")
    header = {"jwk": foreign.as_dict(private=False), "jku": "https://evil.example/jwks", "x5u": "https://evil.example"}

    with pytest.raises(InvalidToken, match="no key of its issuer has signed it"):
        await verifier(server).verify(server.token(key=foreign, header=header), server)
    assert not any("evil" in url for url in server.asked)


async def test_keys_of_one_issuer_do_not_count_for_another() -> None:
    ours, theirs = Issuer(), Issuer(issuer=OTHER, keys=[ec_key("first")])
    theirs.keys = [ec_key("theirs")]
    checking = verifier(ours, issuers=[ISSUER, OTHER])

    assert (await checking.verify(ours.token(), ours)).issuer == ISSUER
    assert (await checking.verify(theirs.token(), theirs)).issuer == OTHER
    with pytest.raises(InvalidToken, match="no key of its issuer"):
        await checking.verify(theirs.token(iss=ISSUER), ours)


async def test_a_token_that_is_too_long_is_refused_unread() -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="more than 16384 characters"):
        await verifier(server).verify(server.token(junk="x" * 20_000), server)
    assert server.calls == []


async def test_an_algorithm_that_was_not_named_is_refused() -> None:
    server = Issuer(keys=[rsa_key()])

    with pytest.raises(InvalidToken, match="'RS256', which is not allowed"):
        await verifier(server, algorithms=["ES256"]).verify(server.token(algorithm="RS256"), server)


async def test_an_unsigned_token_is_refused() -> None:
    server = Issuer()

    with pytest.raises(InvalidToken, match="'none', which is not allowed"):
        await verifier(server).verify(raw_jws({"alg": "none", "typ": "at+jwt"}, server.claims(), b""), server)


async def test_a_server_that_is_away_is_no_fault_of_the_token() -> None:
    server = Issuer()
    server.goes_away()

    with pytest.raises(VerifierUnavailable):
        await verifier(server).verify(server.token(), server)


@pytest.mark.parametrize("algorithms", [[], ["HS256"], ["none"], ["ES256", "HS512"], ["es256"]])
def test_algorithms_without_public_keys_cannot_be_named(algorithms: list[str]) -> None:
    with pytest.raises(ValueError, match="algorithms="):
        JwtVerifier(algorithms=algorithms)


async def test_it_serves_the_issuers_of_a_resource_server() -> None:
    server = Issuer(clock=Clock(5.0))
    general = JwtVerifier(algorithms=["ES256"])

    serving = general.serving([ISSUER], trusted_hosts=["keycloak"], clock=server.clock)

    assert (serving.issuers, serving.trusted_hosts, serving.clock) == ([ISSUER], ["keycloak"], server.clock)
    assert serving.algorithms == ["ES256"]
    assert general.issuers == ()
    assert (await serving.verify(server.token(), server)).subject == "ann"


def test_what_it_was_told_of_issuers_stays() -> None:
    general = JwtVerifier(issuers=[OTHER], trusted_hosts=["a"])

    serving = general.serving([ISSUER], trusted_hosts=["b"], clock=Clock())

    assert (serving.issuers, serving.trusted_hosts) == ([OTHER], ["a"])


async def test_each_issuer_may_have_its_keys_somewhere_else() -> None:
    server = Issuer()
    server.answers["https://keys.example/"] = await server(
        HttpCall(method="GET", url=f"{ISSUER}/jwks", named_by="user")
    )
    checking = verifier(server, issuers=[ISSUER, OTHER], jwks_uri={ISSUER: "https://keys.example/"})
    server.calls.clear()

    await checking.verify(server.token(), server)
    with pytest.raises(VerifierUnavailable):
        await checking.verify(server.token(iss=OTHER), server)

    assert server.asked[0] == "https://keys.example/"
    assert server.asked[1] == f"{OTHER}/.well-known/oauth-authorization-server"


async def test_the_keys_of_the_only_issuer_may_be_named_by_a_url() -> None:
    server = Issuer()
    checking = JwtVerifier(jwks_uri=f"{ISSUER}/jwks").serving([ISSUER], trusted_hosts=(), clock=server.clock)

    await checking.verify(server.token(), server)

    assert server.asked == [f"{ISSUER}/jwks"]


@pytest.mark.parametrize(
    ("uri", "cause"),
    [
        ("https://keys.example/", "pass the URL of each one"),
        ({ISSUER: "http://keys.example/"}, "jwks_uri 'http://keys.example/'"),
        ({ISSUER: "nonsense"}, "jwks_uri 'nonsense'"),
    ],
)
def test_places_of_keys_that_make_no_sense_are_refused(uri: Any, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        JwtVerifier(jwks_uri=uri).serving([ISSUER, OTHER], trusted_hosts=(), clock=Clock())
