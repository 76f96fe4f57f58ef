"""Signed JSON that anybody may have sent: read with bounds, and checked with asymmetric keys alone.

The text is taken apart here, and once, so that what is checked and what is used cannot differ; joserfc does the
cryptography. Nothing in a header chooses a key or an algorithm that the caller has not allowed.

Specification: https://www.rfc-editor.org/rfc/rfc7515 and https://www.rfc-editor.org/rfc/rfc8725
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


# What a verifier finds out about a token that a client shows, and how it says that it is none.
#
# Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-handling

LEEWAY_SECONDS = 60.0
"""For so long a token is good beyond its end, and before its beginning: clocks differ."""


class InvalidToken(Exception):
    """A token is not good. The text says why, for the log alone: it never crosses the wire."""


class VerifierUnavailable(Exception):
    """Whether a token is good cannot be told now: the authorization server is out of reach. For the log alone."""


ASYMMETRIC = (
    "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "Ed25519", "EdDSA",
)  # fmt: skip
"""The algorithms whose keys can be published. With any other, who can check a token can make one."""

_ALPHABET = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_SECRET_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_RSA_BITS = range(2048, 8192 + 1)
_LONGEST_RSA_EXPONENT = 8  # bytes: the time that a check takes grows with it


@frozen
class SignedJson:
    """A signed JSON object, of which nothing has been checked yet."""

    header: JsonObject
    payload: JsonObject = field(repr=False)
    algorithm: str
    signed: bytes = field(repr=False)
    """What the signature is over."""
    signature: bytes = field(repr=False)

    @property
    def key_id(self) -> str | None:
        """The name of the key that has signed it, as it says itself; None where it names none."""
        name = self.header.get("kid")
        return name if isinstance(name, str) else None

    @property
    def type(self) -> str | None:
        """What it is, in lower case and without ``application/``; None where it does not say."""
        said = self.header.get("typ")
        return said.lower().removeprefix("application/") if isinstance(said, str) else None


def read_jws(text: str, *, algorithms: Collection[str], max_chars: int) -> SignedJson:
    """Take a signed JSON object apart, whose signature is to be checked with one of *algorithms*.

    Raises:
        InvalidToken: it is none, is too long, or names another algorithm.
    """
    if len(text) > max_chars:
        raise InvalidToken(f"it has more than {max_chars} characters")
    parts = text.split(".", 3)
    if len(parts) != 3:
        raise InvalidToken("it does not have the three parts of signed JSON")
    header, payload = _object(parts[0], "header"), _object(parts[1], "payload")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise InvalidToken(f"it is signed with {algorithm!r:.40}, which is not allowed")
    if "crit" in header or "b64" in header:
        raise InvalidToken("its header asks for extensions")
    signature = decode_base64url(parts[2])
    if not signature:
        raise InvalidToken("it has no signature")
    return SignedJson(header, payload, algorithm, f"{parts[0]}.{parts[1]}".encode(), signature)


def _object(part: str, name: str) -> JsonObject:
    data = decode_base64url(part)
    try:
        value = None if data is None else decode(data)
    except Undecodable as exc:
        raise InvalidToken(f"its {name} is no JSON: {exc}") from None
    if not is_object(value):
        raise InvalidToken(f"its {name} is no JSON object")
    return value


def decode_base64url(text: str) -> bytes | None:
    """Return the bytes behind *text*; None where it is not their one spelling in base64url without padding."""
    if not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        return None
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return data if encode_base64url(data) == text else None


def encode_base64url(data: bytes) -> str:
    """Return *data* in base64url, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_key(jwk: JsonObject) -> Key:
    """Return the public key that a JWK describes.

    Raises:
        InvalidToken: it describes none: a secret, a key that is too weak or too costly, or something else.
    """
    from joserfc.jwk import import_key  # noqa: PLC0415 # heavy

    if jwk.get("kty") not in ("EC", "RSA", "OKP") or _SECRET_MEMBERS & jwk.keys():
        raise InvalidToken("it is no public key")
    if jwk["kty"] == "RSA" and not _is_reasonable_rsa(jwk):
        raise InvalidToken("it is an RSA key of a size that is not used")
    try:
        return import_key(jwk)
    except Exception as exc:  # noqa: BLE001 # whatever two libraries make of what a stranger has written
        raise InvalidToken(f"it is no key: {type(exc).__name__}") from None


def _is_reasonable_rsa(jwk: JsonObject) -> bool:
    modulus, exponent = jwk.get("n"), jwk.get("e")
    if not isinstance(modulus, str) or not isinstance(exponent, str):
        return False
    n, e = decode_base64url(modulus), decode_base64url(exponent)
    if n is None or e is None:
        return False
    return int.from_bytes(n).bit_length() in _RSA_BITS and len(e) <= _LONGEST_RSA_EXPONENT


def is_signed_by(signed: SignedJson, key: Key) -> bool:
    """Tell whether *key* has signed it; False too where the key is none for its algorithm, or for signatures."""
    from joserfc.jws import JWSRegistry  # noqa: PLC0415 # heavy

    algorithm = JWSRegistry.algorithms[signed.algorithm]
    try:
        algorithm.check_key(key)
        return algorithm.verify(signed.signed, signed.signature, key)
    except Exception:  # noqa: BLE001 # likewise: a key that does not fit, a signature of the wrong length
        return False


# What a token says, whether it stands in the token itself or in what the authorization server says of it.
#
# Specification: https://www.rfc-editor.org/rfc/rfc9068#section-2.2 and https://www.rfc-
# editor.org/rfc/rfc7662#section-2.2

_LATEST = 2**53
"""The largest time that is taken for one, in seconds; later ones are never meant."""
_LONGEST_NAME = 1024
"""Characters of whoever a token speaks for, or was issued to: it is compared and logged."""
_KIND_CLAIMS = ("typ", "token_use", "token_type")
"""Where authorization servers say what a token is: Keycloak, Cognito and Hydra, and others."""
_OTHER_KINDS = frozenset({"id", "logout", "offline", "refresh"})


def read_claims(claims: JsonObject, *, issuer: str) -> VerifiedToken:
    """Return what the claims of a token say, which was issued by *issuer*.

    Raises:
        InvalidToken: a claim is not what it has to be, or binds the token to something that cannot be checked.
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
    """Tell whether claims say of a token that it is something else than one for access, such as a refresh token."""
    kinds = [claims.get(name) for name in _KIND_CLAIMS]
    return any(isinstance(kind, str) and kind.lower().removesuffix("_token") in _OTHER_KINDS for kind in kinds)


def _name(claims: JsonObject, name: str) -> str | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or not value.isprintable():
        raise InvalidToken(f"its {name!r} is no name")
    return value


def _texts(claims: JsonObject, name: str) -> tuple[str, ...]:
    value = claims.get(name)
    values = value if is_array(value) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in values):
        raise InvalidToken(f"its {name!r} is neither a text nor a list of texts")
    return tuple(values)


def _words(claims: JsonObject, name: str) -> list[str]:
    """Return the words of a claim. Blanks alone part them: what else looks like one may stand in a name."""
    return [word for text in _texts(claims, name) for word in text.split(" ") if word]


def read_time(claims: JsonObject, name: str) -> float | None:
    """Return the time that a claim names, as `time.time` counts; None where there is none.

    Raises:
        InvalidToken: it is no time.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise InvalidToken(f"its {name!r} is no time")
    return float(value)


def _thumbprint(claims: JsonObject) -> str | None:
    confirmation = claims.get("cnf")
    if confirmation is None:
        return None
    thumbprint = confirmation.get("jkt") if is_object(confirmation) else None
    if not isinstance(thumbprint, str) or len(confirmation) > 1:
        raise InvalidToken("it is bound to something that is not checked here")
    return thumbprint
