"""Proofs of possession of a key (DPoP, RFC 9449), made without the package, as an attacker would."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time

from joserfc import jwt
from joserfc.jwk import ECKey

__all__ = ["generate_key", "make_proof", "thumbprint"]


def generate_key() -> str:
    """Return a new private key, as a JSON Web Key."""
    return json.dumps(ECKey.generate_key("P-256").as_dict(private=True))


def thumbprint(key: str) -> str:
    """Return the thumbprint that tokens are bound to."""
    return ECKey.import_key(json.loads(key)).thumbprint()


def make_proof(key: str, token: str, method: str, url: str) -> str:
    """Return a proof for one request with a token."""
    loaded = ECKey.import_key(json.loads(key))
    digest = hashlib.sha256(token.encode()).digest()
    claims = {
        "jti": secrets.token_urlsafe(18),
        "htm": method,
        "htu": url,
        "iat": int(time.time()),
        "ath": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
    }
    header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": loaded.as_dict(private=False)}
    return jwt.encode(header, claims, loaded, algorithms=["ES256"])
