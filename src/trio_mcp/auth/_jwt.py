"""JOSE: parsing signed JSON (JWS) with bounds, checking signatures with public keys, and reading the claims of tokens.

A string is parsed once, here, so that the checked content and the used content cannot differ; joserfc does the
cryptography. A header can choose only a key and an algorithm that the caller allows.

Specification: https://www.rfc-editor.org/rfc/rfc7515, https://www.rfc-editor.org/rfc/rfc8725,
https://www.rfc-editor.org/rfc/rfc9068#section-2.2 and https://www.rfc-editor.org/rfc/rfc7662#section-2.2
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..abc import VerifiedToken
from ..wire import JsonObject, Undecodable, decode, is_array, is_object

if TYPE_CHECKING:
    from joserfc.jwk import Key

__all__ = [
    "ASYMMETRIC",
    "LEEWAY_SECONDS",
    "InvalidToken",
    "SignedJson",
    "VerifiedToken",
    "VerifierUnavailable",
    "decode_base64url",
    "encode_base64url",
    "is_of_another_kind",
    "is_signed_by",
    "public_key",
    "read_claims",
    "read_jws",
    "read_time",
]


LEEWAY_SECONDS = 60.0
"""The time by which a token is accepted after its expiry, and before its start, because clocks differ."""


class InvalidToken(Exception):
    """A token is invalid. The message says why; it is only for the log, and never sent to the client."""


class VerifierUnavailable(Exception):
    """A token cannot be checked, because the authorization server is out of reach. The message is only for the log."""


ASYMMETRIC = (
    "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "Ed25519", "EdDSA",
)  # fmt: skip
"""The algorithms with public keys. With any other, the party that checks a token could make one."""

_ALPHABET = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_SECRET_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_RSA_BITS = range(2048, 8192 + 1)
_LONGEST_RSA_EXPONENT = 8  # bytes: the time of a check grows with it


@frozen
class SignedJson:
    """A signed JSON object. Its signature has not been checked yet."""

    header: JsonObject
    payload: JsonObject = field(repr=False)
    algorithm: str
    signed: bytes = field(repr=False)
    """The bytes that are signed."""
    signature: bytes = field(repr=False)

    @property
    def key_id(self) -> str | None:
        """The id of the key that has signed it, according to its header; None if it names none."""
        name = self.header.get("kid")
        return name if isinstance(name, str) else None

    @property
    def type(self) -> str | None:
        """The type, in lower case and without ``application/``; None if the header names none."""
        said = self.header.get("typ")
        return said.lower().removeprefix("application/") if isinstance(said, str) else None


def read_jws(text: str, *, algorithms: Collection[str], max_chars: int) -> SignedJson:
    """Parse a signed JSON object, whose signature will be checked with one of *algorithms*.

    Raises:
        InvalidToken: it is malformed, too long, or names another algorithm.
    """
    if len(text) > max_chars:
        raise InvalidToken(f"it has more than {max_chars} characters")
    parts = text.split(".", 3)
    if len(parts) != 3:
        raise InvalidToken("it does not have the three parts of a JWS")
    header, payload = _object(parts[0], "header"), _object(parts[1], "payload")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise InvalidToken(f"it is signed with {algorithm!r:.40}, which is not allowed")
    if "crit" in header or "b64" in header:
        raise InvalidToken("its header requires extensions")
    signature = decode_base64url(parts[2])
    if not signature:
        raise InvalidToken("it has no signature")
    return SignedJson(header, payload, algorithm, f"{parts[0]}.{parts[1]}".encode(), signature)


def _object(part: str, name: str) -> JsonObject:
    data = decode_base64url(part)
    try:
        value = None if data is None else decode(data)
    except Undecodable as exc:
        raise InvalidToken(f"its {name} is not JSON: {exc}") from None
    if not is_object(value):
        raise InvalidToken(f"its {name} is not a JSON object")
    return value


def decode_base64url(text: str) -> bytes | None:
    """Decode base64url without padding; return None unless *text* is the canonical encoding."""
    if not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        return None
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return data if encode_base64url(data) == text else None


def encode_base64url(data: bytes) -> str:
    """Encode in base64url, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_key(jwk: JsonObject) -> Key:
    """Return the public key that a JWK describes.

    Raises:
        InvalidToken: it is a secret, a key that is too weak or too costly, or not a key.
    """
    from joserfc.jwk import import_key  # noqa: PLC0415 # heavy

    if jwk.get("kty") not in ("EC", "RSA", "OKP") or _SECRET_MEMBERS & jwk.keys():
        raise InvalidToken("it is not a public key")
    if jwk["kty"] == "RSA" and not _is_reasonable_rsa(jwk):
        raise InvalidToken("it is an RSA key of an unsupported size")
    try:
        return import_key(jwk)
    except Exception as exc:  # noqa: BLE001 # the two libraries raise many types for untrusted input
        raise InvalidToken(f"it is not a key: {type(exc).__name__}") from None


def _is_reasonable_rsa(jwk: JsonObject) -> bool:
    modulus, exponent = jwk.get("n"), jwk.get("e")
    if not isinstance(modulus, str) or not isinstance(exponent, str):
        return False
    n, e = decode_base64url(modulus), decode_base64url(exponent)
    if n is None or e is None:
        return False
    return int.from_bytes(n).bit_length() in _RSA_BITS and len(e) <= _LONGEST_RSA_EXPONENT


def is_signed_by(signed: SignedJson, key: Key) -> bool:
    """Return True if *key* has signed it; False also if the key does not fit the algorithm."""
    from joserfc.jws import JWSRegistry  # noqa: PLC0415 # heavy

    algorithm = JWSRegistry.algorithms[signed.algorithm]
    try:
        algorithm.check_key(key)
        return algorithm.verify(signed.signed, signed.signature, key)
    except Exception:  # noqa: BLE001 # likewise: a key that does not fit, a signature of the wrong length
        return False


# --- Claims, in the token itself or in an introspection response ---

_LATEST = 2**53
"""The largest accepted time, in seconds."""
_LONGEST_NAME = 1024
"""The longest accepted subject or client id, in characters: it is compared and logged."""
_KIND_CLAIMS = ("typ", "token_use", "token_type")
"""The claims that name the type of a token: at Keycloak, Cognito, Hydra and others."""
_OTHER_KINDS = frozenset({"id", "logout", "offline", "refresh"})


def read_claims(claims: JsonObject, *, issuer: str) -> VerifiedToken:
    """Read the claims of a token that *issuer* has issued.

    Raises:
        InvalidToken: a claim is invalid, or binds the token to something that cannot be checked.
    """
    return VerifiedToken(
        issuer=issuer,
        subject=_name(claims, "sub"),
        client_id=_name(claims, "client_id") or _name(claims, "azp"),
        audiences=_texts(claims, "aud"),
        scopes=frozenset(_words(claims, "scope") or _words(claims, "scp")),
        expires_at=read_time(claims, "exp"),
        not_before=read_time(claims, "nbf"),
        key_thumbprint=_thumbprint(claims),
        claims=claims,
    )


def is_of_another_kind(claims: JsonObject) -> bool:
    """Return True if claims name another type than an access token, such as a refresh token."""
    kinds = [claims.get(name) for name in _KIND_CLAIMS]
    return any(isinstance(kind, str) and kind.lower().removesuffix("_token") in _OTHER_KINDS for kind in kinds)


def _name(claims: JsonObject, name: str) -> str | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or not value.isprintable():
        raise InvalidToken(f"its {name!r} is not a name")
    return value


def _texts(claims: JsonObject, name: str) -> tuple[str, ...]:
    value = claims.get(name)
    values = value if is_array(value) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in values):
        raise InvalidToken(f"its {name!r} is neither a string nor a list of strings")
    return tuple(values)


def _words(claims: JsonObject, name: str) -> list[str]:
    """Return the words of a claim. Only spaces separate them: other white space may be part of a name."""
    return [word for text in _texts(claims, name) for word in text.split(" ") if word]


def read_time(claims: JsonObject, name: str) -> float | None:
    """Return a time claim, as `time.time` counts; None if it is missing.

    Raises:
        InvalidToken: it is not a time.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise InvalidToken(f"its {name!r} is not a time")
    return float(value)


def _thumbprint(claims: JsonObject) -> str | None:
    confirmation = claims.get("cnf")
    if confirmation is None:
        return None
    thumbprint = confirmation.get("jkt") if is_object(confirmation) else None
    if not isinstance(thumbprint, str) or len(confirmation) > 1:
        raise InvalidToken("it is bound to something that cannot be checked here")
    return thumbprint
