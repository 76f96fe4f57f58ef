"""PKCE: the code verifier and its challenge, and the check that the server supports S256."""

from __future__ import annotations

import re

import pytest
from attrs import evolve

from tests.auth.client.flow_script import TOKEN_ISSUER, issuer_with
from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth.client._authorization_code import Pkce, check_pkce
from trio_mcp.auth.client._discovery import TokenIssuer


def test_the_challenge_matches_the_example_of_the_specification() -> None:
    pkce = Pkce.of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")  # RFC 7636, appendix B

    assert pkce.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_each_verifier_is_long_and_unique_and_not_in_the_repr() -> None:
    verifiers = {Pkce.make().verifier for _ in range(20)}
    pkce = Pkce.make()

    assert len(verifiers) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9\-._~]{43,128}", verifier) for verifier in verifiers)
    assert pkce.verifier not in repr(pkce)


@pytest.mark.requirement("C.2-10")
@pytest.mark.parametrize("methods", [None, (), ("plain",), ("s256",)])
def test_a_server_that_does_not_announce_s256_is_refused(methods: tuple[str, ...] | None) -> None:
    with pytest.raises(AuthorizationFailed, match=r"https://auth\.example\.com .* PKCE with S256"):
        check_pkce(issuer_with(code_challenge_methods_supported=methods))


OLD = evolve(TOKEN_ISSUER, resource=None)


@pytest.mark.parametrize(
    "token_issuer",
    [
        issuer_with(code_challenge_methods_supported=("plain", "S256")),
        evolve(OLD, server=evolve(TOKEN_ISSUER.server, code_challenge_methods_supported=None)),
        evolve(OLD, server=evolve(TOKEN_ISSUER.server, code_challenge_methods_supported=None, is_assumed=True)),
    ],
)
def test_a_server_that_announces_s256_or_has_no_metadata_is_accepted(token_issuer: TokenIssuer) -> None:
    check_pkce(token_issuer)


@pytest.mark.requirement("C.2-10")
def test_a_server_that_announces_only_other_methods_is_refused_even_without_metadata() -> None:
    with pytest.raises(AuthorizationFailed, match="S256"):
        check_pkce(evolve(OLD, server=evolve(TOKEN_ISSUER.server, code_challenge_methods_supported=("plain",))))
