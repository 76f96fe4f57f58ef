"""TLS for an HTTP server: which versions and ciphers, which protocols on top of it, and what is wrong with a file."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from ._hypercorn_listening import HttpListening

__all__ = ["tls_context"]

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: those that HTTP/2 may use (RFC 9113, 9.2.2). TLS 1.3 has no others."""


def tls_context(listening: HttpListening) -> ssl.SSLContext | None:
    """Return the context of the server's connections; None where TLS is not spoken.

    Raises:
        OSError: a file cannot be read; the text names it.
        ValueError: the certificate or the key cannot be used; the text names the files.
    """
    if listening.certfile is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION  # RFC 9113, 9.2.1
    context.set_alpn_protocols(["h2", "http/1.1"] if listening.http2 else ["http/1.1"])
    _load(context, os.fspath(listening.certfile), os.fspath(listening.keyfile or listening.certfile), listening)
    return context


def _load(context: ssl.SSLContext, certificate: str, key: str, listening: HttpListening) -> None:
    files = " and ".join(dict.fromkeys([certificate, key]))
    is_encrypted = False

    def password() -> str:
        """Called for an encrypted key alone; without a password OpenSSL would ask at the terminal."""
        nonlocal is_encrypted
        is_encrypted = True
        if listening.keyfile_password is None:
            raise ValueError(f"cannot use {files} for TLS: the key is encrypted; give keyfile_password")
        return listening.keyfile_password

    for path in (certificate, key):
        with Path(path).open("rb"):
            pass  # its error names the file; that of `load_cert_chain` does not
    try:
        context.load_cert_chain(certificate, key, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = "the key is not that of the certificate"
        elif is_encrypted:
            reason = "keyfile_password is wrong"
        else:
            reason = "a certificate and a private key are expected, both as PEM"
        raise ValueError(f"cannot use {files} for TLS: {reason}") from error
