"""The secret that the processes of a service have in common, and what is derived from it.

The secret comes from the keys of the server (``Server(keys=[...])``). A server without keys gets a key that the first
process puts into the shared backend (`Membership`), and uses it for its cursors and request states as well; then
everybody who can read the backend can forge these.

Each purpose has a key of its own, derived with HMAC-SHA256. The first key of a server signs, and all of them verify, so
that keys can be replaced one process after the other.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from attrs import define, field, frozen

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["ClusterKeys", "OwnerNames"]

_TAG_BYTES = 12
_NONCE_BYTES = 12


@define(eq=False)
class ClusterKeys:
    """The keys of a service.

    Args:
        all: the first one signs, all of them verify.
    """

    all: Sequence[bytes] = field(repr=False)
    """The keys."""

    def replace(self, keys: Sequence[bytes]) -> None:
        """Use other keys from now on."""
        self.all = keys

    def sign(self, purpose: str, *parts: str) -> str:
        """Return the authentication code of some strings: 64 hexadecimal digits."""
        return _code(self.all[0], purpose, parts).hex()

    def verify(self, code: object, purpose: str, *parts: str) -> bool:
        """Return True if a process of the service has signed these strings for this purpose."""
        given = code.encode("utf-8", "surrogatepass") if isinstance(code, str) else b""
        return any(hmac.compare_digest(_code(key, purpose, parts).hex().encode(), given) for key in self.all)

    def tag(self, purpose: str, text: str) -> str:
        """Return a short authentication code of a string: 16 letters, digits, ``-`` and ``_``."""
        return _tag(self.all[0], purpose, text)

    def has_tagged(self, tag: str, purpose: str, text: str) -> bool:
        """Return True if *tag* is one of a process of the service."""
        given = tag.encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(_tag(key, purpose, text).encode(), given) for key in self.all)

    def seal(self, name: str, data: bytes) -> bytes:
        """Encrypt a value, so that only processes of the service can read it, or make one for the same name."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = next(self._ciphers(name))
        return nonce + cipher.encrypt(nonce, data, None)

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """Return a value that a process of the service has sealed for a name; None if none has."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 # slow to import

        for cipher in self._ciphers(name):
            try:
                return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
            except (InvalidTag, ValueError):  # ValueError: the nonce is too short
                continue
        return None

    def _ciphers(self, name: str) -> Iterator[AESGCM]:
        """Return the ciphers of a name: each has keys of its own, so that no value fits another name."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 # slow to import

        return (AESGCM(_code(key, "value", (name,))) for key in self.all)


def _code(key: bytes, purpose: str, parts: Sequence[str]) -> bytes:
    own = hmac.digest(key, b"trio-mcp cluster\0" + purpose.encode(), "sha256")
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join(b"%d:%b" % (len(each), each) for each in encoded)  # other parts are other bytes
    return hmac.digest(own, framed, "sha256")


def _tag(key: bytes, purpose: str, text: str) -> str:
    return base64.urlsafe_b64encode(_code(key, purpose, (text,))[:_TAG_BYTES]).decode()


@frozen
class OwnerNames:
    """Makes and reads the ids of sessions, and the beginnings of request states, that name their process.

    The id of a session is the name of the process, a dot, a random string, a dot, and a tag. The tag keeps strangers
    from having requests forwarded.
    """

    _keys: ClusterKeys
    _node: str
    """The name of this process."""

    def new_id(self) -> str:
        """Return the id of a new session of this process."""
        plain = f"{self._node}.{secrets.token_urlsafe(32)}"
        return f"{plain}.{self._keys.tag('session', plain)}"

    def home(self) -> str:
        """Return the string with which the states of this process begin: its name, a hyphen, and a tag."""
        return f"{self._node}-{self._keys.tag('home', self._node)}"

    def owner_of_home(self, home: str) -> str | None:
        """Return the name of the other process that has made the beginning of a state; None if no other has."""
        node, _, tag = home.partition("-")
        if node in {"", self._node} or not self._keys.has_tagged(tag, "home", node):
            return None
        return node

    def owner_of(self, id: str) -> str | None:
        """Return the name of the other process that has made an id; None if no other process of the service has."""
        plain, _, tag = id.rpartition(".")
        node = plain.partition(".")[0]
        if node in {"", self._node} or not self._keys.has_tagged(tag, "session", plain):
            return None
        return node
