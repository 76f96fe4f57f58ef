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

from ..wire import JsonObject, Undecodable, decode, is_object
from ._verified import InvalidToken

if TYPE_CHECKING:
    from joserfc.jwk import Key

__all__ = ["ASYMMETRIC", "SignedJson", "decode_base64url", "encode_base64url", "is_signed_by", "public_key", "read_jws"]

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
