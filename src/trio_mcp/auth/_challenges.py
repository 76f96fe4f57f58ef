"""Parsing and writing the challenges of `WWW-Authenticate`.

Rules of this file:

1. Parsing never fails, and takes linear time. Anything that is neither a challenge nor a parameter is skipped. A quoted
   string without its end includes the rest, so that quoted content is never parsed as a challenge.
2. Commas between parameters may be missing, and an unquoted value may contain more than a token: both are common. If a
   parameter occurs twice, the first one counts.
3. A challenge without named parameters (`token68`) is skipped: no supported scheme has one.
4. Written values are quoted, so that no value can end its quotes.

Specification: https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

__all__ = ["Challenge", "read_challenges", "write_challenge"]

_LONGEST = 16_384  # characters of all challenges of a response; the rest is ignored
_MOST_CHALLENGES = 16
_MOST_PARAMETERS = 32

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"  # noqa: S105 # a grammar
_SKIPPED = re.compile(r"[ \t,]++")
_PARAMETER = re.compile(
    rf'(?P<name>{_TOKEN})[ \t]*+=[ \t]*+(?:"(?P<quoted>(?:[^"\\]++|\\.)*+)(?P<end>"?)|(?P<plain>[^\s,"]*+))', re.DOTALL
)
_SCHEME = re.compile(rf"(?P<scheme>{_TOKEN})(?:[ \t]++[A-Za-z0-9\-._~+/]++=*+(?=[ \t]*+(?:,|\Z)))?+")
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_VISIBLE = re.compile(r"[ -~]*")


def _by_lower_name(parameters: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in parameters.items()}


@frozen
class Challenge:
    """A challenge: one way to authenticate that a server offers. Schemes are compared without regard to case."""

    scheme: str = field(eq=str.lower)
    """The scheme as it is written: ``"Bearer"``."""
    parameters: Mapping[str, str] = field(factory=dict[str, str], converter=_by_lower_name)
    """The parameters, by lower-case name."""


def read_challenges(text: str) -> list[Challenge]:
    """Parse the value of `WWW-Authenticate`, or several values joined with commas; return the challenges in order.

    Args:
        text: any string. At most 16 challenges in the first 16384 characters are parsed.
    """
    found: list[tuple[str, dict[str, str]]] = []
    place, text = 0, text[:_LONGEST]
    while place < len(text):
        if match := _SKIPPED.match(text, place):
            place = match.end()
        elif match := _PARAMETER.match(text, place):
            if match["quoted"] is not None and not match["end"]:
                break
            if found and len(found[-1][1]) < _MOST_PARAMETERS:
                found[-1][1].setdefault(match["name"].lower(), _value_of(match))
            place = match.end()
        elif match := _SCHEME.match(text, place):
            if len(found) == _MOST_CHALLENGES:
                break
            found.append((match["scheme"], {}))
            place = match.end()
        elif text[place] == '"':
            match = _QUOTED.match(text, place)
            place = match.end() if match else len(text)
        else:
            place += 1
    return [Challenge(scheme, parameters) for scheme, parameters in found]


def _value_of(match: re.Match[str]) -> str:
    quoted: str | None = match["quoted"]
    return match["plain"] if quoted is None else _ESCAPED.sub(r"\1", quoted)


def write_challenge(challenge: Challenge) -> str:
    """Return a challenge as the value of `WWW-Authenticate`.

    Raises:
        ValueError: the scheme or a name is not a token, or a value contains anything but visible ASCII and spaces.
    """
    parts: list[str] = []
    for name, value in challenge.parameters.items():
        if not re.fullmatch(_TOKEN, name) or not _VISIBLE.fullmatch(value):
            raise ValueError(f"a challenge cannot contain the parameter {name!r}")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'{name}="{escaped}"')
    if not re.fullmatch(_TOKEN, challenge.scheme):
        raise ValueError(f"{challenge.scheme!r} is not a scheme of a challenge")
    return f"{challenge.scheme} {', '.join(parts)}".rstrip()
