"""Challenges of `WWW-Authenticate`: read from anything within bounds, and never more than was written."""

from __future__ import annotations

import re

from fuzz.effort import effort
from fuzz.source import Source
from trio_mcp.auth._challenges import Challenge, read_challenges, write_challenge

_LONGEST = 16_384
"""The characters that are accepted."""
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PIECES = (
    "Bearer",
    "Basic",
    " ",
    ",",
    ", ",
    "=",
    '"',
    "\\",
    '\\"',
    "scope",
    "realm=",
    'a="b"',
    "\t",
    "é",
    "YWJj==",
    "a=b",
)
_NAMES = ("scope", "error", "realm", "Scope", "resource_metadata", "a b", "", "é")
_SCHEMES = ("Bearer", "DPoP", "bearer", "x", "", "a b", "B,asic")


def target(data: bytes) -> None:
    """Parse an arbitrary string, and parse generated challenges among other ones."""
    source = Source(data)
    if source.flag():
        _read(source)
    else:
        _write(source)


def _read(source: Source) -> None:
    pieces = [source.choose(_PIECES) if source.below(4) else source.any_text(8) for _ in range(source.below(40))]
    text = "".join(pieces) * source.choose((1, 1, 10, 400))
    challenges, calls = effort(read_challenges, text)

    assert calls <= 500 + 16 * len(text)
    assert len(challenges) <= 16
    for challenge in challenges:
        assert _TOKEN.fullmatch(challenge.scheme)
        assert challenge.scheme in text
        assert len(challenge.parameters) <= 32
        assert all(_TOKEN.fullmatch(name) and name == name.lower() for name in challenge.parameters)
        if all(re.fullmatch(r"[ -~]*", value) for value in challenge.parameters.values()):
            again = write_challenge(challenge)  # with two backslashes for each
            assert len(again) > _LONGEST or read_challenges(again) == [challenge]


def _write(source: Source) -> None:
    """Check that a quoted string is never parsed as anything else."""
    written: list[Challenge] = []
    texts: list[str] = []
    for _ in range(source.below(5)):
        parameters = {source.choose(_NAMES): _value(source) for _ in range(source.below(4))}
        challenge = Challenge(source.choose(_SCHEMES), parameters)
        try:
            texts.append(write_challenge(challenge))
        except ValueError:
            sound = [_TOKEN.fullmatch(name) for name in (challenge.scheme, *challenge.parameters)]
            assert not all(sound) or any(not re.fullmatch(r"[ -~]*", value) for value in parameters.values())
            continue
        assert re.fullmatch(r"[ -~]*", texts[-1])
        written.append(challenge)

    assert read_challenges(source.choose((", ", ",", " , ,")).join(texts)) == written


def _value(source: Source) -> str:
    return "".join(source.choose(_PIECES) if source.below(4) else source.any_text(6) for _ in range(source.below(5)))
