"""Challenges of `WWW-Authenticate`: read whatever servers write, and written so that nothing gets out of its quotes.

Rules of this file:

1. Reading never fails and takes linear time. What is no challenge and no parameter is skipped; a quoted text without
   its end swallows the rest, so that what stands in quotes is never taken for anything else.
2. Commas between parameters may be missing, and a value without quotes may hold more than a token: both are common.
   Of parameters of one name the first counts.
3. What stands for a challenge without names (`token68`) is skipped: no scheme of ours has one.

Specification: https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

__all__ = ["Challenge", "read_challenges", "write_challenge"]

_LONGEST = 16_384  # characters of all challenges of a response; the rest is not looked at
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
    """One way to show who asks, as a server offers it. Schemes are equal whatever their case."""

    scheme: str = field(eq=str.lower)
    """As it is written: ``"Bearer"``."""
    parameters: Mapping[str, str] = field(factory=dict[str, str], converter=_by_lower_name)
    """By lower-case name."""


def read_challenges(text: str) -> list[Challenge]:
    """Return the challenges in the value of `WWW-Authenticate`, or in several joined with commas, in their order.

    Args:
        text: of any length and content: at most 16 challenges in the first 16384 characters are read.
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
    """Return a challenge as it stands in `WWW-Authenticate`; all values are quoted.

    Raises:
        ValueError: the scheme, or a name, is no token; or a value holds more than visible ASCII and blanks.
    """
    parts: list[str] = []
    for name, value in challenge.parameters.items():
        if not re.fullmatch(_TOKEN, name) or not _VISIBLE.fullmatch(value):
            raise ValueError(f"the parameter {name!r} cannot stand in a challenge")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'{name}="{escaped}"')
    if not re.fullmatch(_TOKEN, challenge.scheme):
        raise ValueError(f"{challenge.scheme!r} is no scheme of a challenge")
    return f"{challenge.scheme} {', '.join(parts)}".rstrip()
