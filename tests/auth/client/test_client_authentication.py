"""The methods by which a client authenticates at the token endpoint."""

from __future__ import annotations

import base64
import json
from typing import Any, Literal
from urllib.parse import unquote, unquote_plus

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from joserfc import jwt
from joserfc.jwk import import_key

from trio_mcp._errors import AuthorizationFailed
from trio_mcp.auth import PrivateKey, Registration
from trio_mcp.auth.client import ServerMetadata, authenticate
from trio_mcp.auth.client._token_endpoint import ASSERTION_TYPE, ClientAuthentication

ISSUER = "https://as.example/tenant/"
NOW = 1_700_000_000.5


def server(*methods: str, lists: bool = True) -> ServerMetadata:
    """Return the metadata of an authorization server that lists these methods; None omits the member."""
    listed = methods if lists else None
    return ServerMetadata(
        issuer=ISSUER, token_endpoint="https://as.example/token", token_endpoint_auth_methods_supported=listed
    )


SILENT = server(lists=False)


def pem_of(key: Any, password: bytes | None = None) -> str:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return pem.decode()


def public_pem_of(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem: bytes = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return pem


P256 = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
KEY = PrivateKey(pem_of(P256))


def basic(pair: str, client_id: str) -> ClientAuthentication:
    shown = {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return ClientAuthentication(headers=shown, form={"client_id": client_id})


NONE = ClientAuthentication(form={"client_id": "me"})
BASIC = basic("me:secret", "me")
POST = ClientAuthentication(form={"client_id": "me", "client_secret": "secret"})


def method_of(authenticated: ClientAuthentication) -> str:
    """Return the method that a client named "me" with the secret "secret", or with a key, uses."""
    if "client_assertion" in authenticated.form:
        return "private_key_jwt"
    methods = [("none", NONE), ("client_secret_basic", BASIC), ("client_secret_post", POST)]
    return next(name for name, expected in methods if authenticated == expected)


@pytest.mark.requirement("C.2-17")
def test_a_public_client_sends_only_its_client_id() -> None:
    assert authenticate(Registration("me"), SILENT, NOW) == NONE
    assert authenticate(Registration("me"), server("client_secret_basic"), NOW) == NONE
    assert authenticate(Registration("me", method="none", secret="secret"), SILENT, NOW) == NONE


@pytest.mark.requirement("C.2-17")
def test_the_registered_method_is_used_regardless_of_the_methods_in_the_metadata() -> None:
    listed = server("none", "private_key_jwt", "client_secret_basic", "client_secret_post")
    by_basic = Registration("me", secret="secret", method="client_secret_basic")
    by_post = Registration("me", secret="secret", method="client_secret_post")

    assert authenticate(by_basic, listed, NOW) == BASIC
    assert authenticate(by_post, listed, NOW) == POST


@pytest.mark.requirement("C.2-17")
@pytest.mark.parametrize(
    ("listed", "method"),
    [
        (SILENT, "client_secret_basic"),
        (server(), "client_secret_basic"),
        (server("tls_client_auth"), "client_secret_basic"),
        (server("client_secret_post"), "client_secret_post"),
        (server("client_secret_basic"), "client_secret_basic"),
        (server("private_key_jwt", "client_secret_post", "client_secret_basic"), "client_secret_post"),
        (server("none", "client_secret_basic"), "client_secret_basic"),
        (server("none"), "none"),
    ],
)
def test_a_secret_is_sent_with_the_first_method_that_the_server_lists(listed: ServerMetadata, method: str) -> None:
    assert method_of(authenticate(Registration("me", secret="secret"), listed, NOW)) == method


@pytest.mark.parametrize(
    ("listed", "method"),
    [
        (SILENT, "private_key_jwt"),
        (server("none"), "private_key_jwt"),
        (server("client_secret_post"), "client_secret_post"),
        (server("client_secret_post", "private_key_jwt"), "client_secret_post"),
        (server("private_key_jwt", "client_secret_post"), "private_key_jwt"),
    ],
)
def test_a_client_with_a_secret_and_a_key_uses_the_first_listed_method_and_by_default_its_key(
    listed: ServerMetadata, method: str
) -> None:
    assert method_of(authenticate(Registration("me", secret="secret", private_key=KEY), listed, NOW)) == method


@pytest.mark.requirement("C.2-17")
def test_client_id_and_secret_are_form_encoded_before_basic_authentication() -> None:
    client_id, secret = "https://me.example/a b", "s:e%c+r/ét"

    authenticated = authenticate(Registration(client_id, secret=secret), SILENT, NOW)

    assert authenticated == basic("https%3A%2F%2Fme.example%2Fa%20b:s%3Ae%25c%2Br%2F%C3%A9t", client_id)
    pair = base64.b64decode(authenticated.headers["authorization"].removeprefix("Basic ")).decode()
    for decoded in (unquote, unquote_plus):  # both with and without form encoding, as servers differ
        assert [decoded(part) for part in pair.split(":")] == [client_id, secret]


@pytest.mark.requirement("C.2-17")
@pytest.mark.parametrize(
    ("algorithm", "kind", "private"),
    [
        ("ES256", "EC", P256),
        ("ES384", "EC", ec.generate_private_key(ec.SECP384R1())),
        ("RS256", "RSA", RSA),
        ("PS256", "RSA", RSA),
        ("Ed25519", "OKP", ed25519.Ed25519PrivateKey.generate()),
    ],
    ids=["ES256", "ES384", "RS256", "PS256", "Ed25519"],
)
def test_a_client_with_a_key_sends_a_signed_assertion_for_the_issuer(
    algorithm: str, kind: Literal["EC", "RSA", "OKP"], private: Any
) -> None:
    registration = Registration("me", private_key=PrivateKey(pem_of(private), algorithm, "key-1"))

    authenticated = authenticate(registration, SILENT, NOW)

    assertion = authenticated.form["client_assertion"]
    assert authenticated == ClientAuthentication(
        form={"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
    )
    public = import_key(public_pem_of(private), kind)
    token = jwt.decode(assertion, public, algorithms=[algorithm])
    assert token.header == {"alg": algorithm, "typ": "JWT", "kid": "key-1"}
    assert token.claims == {
        "iss": "me",
        "sub": "me",
        "aud": ISSUER,
        "jti": token.claims["jti"],
        "iat": 1_700_000_000,
        "exp": 1_700_000_060,
    }


def test_each_assertion_is_unique_and_names_the_key_only_if_it_has_an_id() -> None:
    registration = Registration("me", private_key=KEY)

    first, second = (authenticate(registration, SILENT, NOW).form["client_assertion"] for _ in range(2))

    assert first != second
    assert json.loads(base64.urlsafe_b64decode(first.partition(".")[0] + "==")) == {"alg": "ES256", "typ": "JWT"}


@pytest.mark.parametrize(
    ("registration", "reason"),
    [
        (Registration("me", method="client_secret_basic"), "with client_secret_basic, but has no secret"),
        (
            Registration("me", method="client_secret_post", private_key=KEY),
            "with client_secret_post, but has no secret",
        ),
        (Registration("me", method="private_key_jwt", secret="s3cret"), "with private_key_jwt, but has no private key"),
    ],
)
def test_a_client_without_the_credentials_of_its_method_raises_an_error(
    registration: Registration, reason: str
) -> None:
    with pytest.raises(AuthorizationFailed) as caught:
        authenticate(registration, SILENT, NOW)

    assert str(caught.value) == f"the client 'me' must authenticate {reason}"
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        PrivateKey("s3cret"),
        PrivateKey(""),
        PrivateKey("\ud800"),
        PrivateKey(KEY.pem.replace("M", "N", 3)),
        PrivateKey(KEY.pem, "RS256"),
        PrivateKey(KEY.pem, "ES384"),
        PrivateKey(KEY.pem, "HS256"),
        PrivateKey(KEY.pem, "none"),
        PrivateKey(pem_of(P256, password=b"s3cret")),
        PrivateKey(pem_of(dsa.generate_private_key(1024))),
        PrivateKey(pem_of(ec.generate_private_key(ec.SECP192R1()))),
    ],
    ids=["text", "empty", "surrogate", "damaged", "kind", "curve", "symmetric", "none", "password", "dsa", "p192"],
)
def test_an_unusable_private_key_raises_an_error_without_showing_it(key: PrivateKey) -> None:
    with pytest.raises(
        AuthorizationFailed, match=f"key of the client 'me' cannot sign with {key.algorithm}; "
    ) as caught:
        authenticate(Registration("me", private_key=key), SILENT, NOW)

    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_public_key_cannot_sign() -> None:
    key = PrivateKey(public_pem_of(P256).decode())

    with pytest.raises(AuthorizationFailed, match="cannot sign with ES256"):
        authenticate(Registration("me", private_key=key), SILENT, NOW)


def test_the_repr_contains_no_credentials() -> None:
    shown = repr([BASIC, POST, authenticate(Registration("me", private_key=KEY), SILENT, NOW)])

    assert shown == "[ClientAuthentication(), ClientAuthentication(), ClientAuthentication()]"
