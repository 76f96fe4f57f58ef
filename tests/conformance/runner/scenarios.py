"""The scenarios of `scenarios.toml` that must pass, and those that are left out on purpose."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from attrs import frozen

__all__ = ["Leg", "Scenario", "Scenarios", "read_scenarios"]

Leg: TypeAlias = Literal["server", "client"]
"""The side under test."""

_DATA = Path(__file__).parent.parent / "scenarios.toml"


@frozen
class Scenario:
    """One scenario in one revision, with the expected results."""

    leg: Leg
    revision: str
    name: str
    least: int
    """The minimum number of successful checks."""
    is_watched: bool
    """True if the suite validates our messages against the schema of the revision."""
    skips: frozenset[str]
    """The names of the checks that may be skipped."""


@frozen
class Scenarios:
    """All of them."""

    required: Sequence[Scenario]
    left_out: Mapping[str, str]
    """The reasons for leaving scenarios out, by name pattern."""
    not_through_gateway: Mapping[str, str]
    """The reasons why scenarios must fail with a gateway in front of the server, by name."""

    def of(self, leg: Leg, revision: str) -> dict[str, Scenario]:
        """Return the scenarios of one leg and revision, by name."""
        chosen = (each for each in self.required if (each.leg, each.revision) == (leg, revision))
        return {each.name: each for each in chosen}

    def revisions(self, leg: Leg) -> list[str]:
        """Return the revisions of a leg, oldest first."""
        return sorted({each.revision for each in self.required if each.leg == leg})

    def why_left_out(self, name: str) -> str | None:
        """Return the reason why *name* is left out; None if it is not."""
        return next((why for pattern, why in self.left_out.items() if fnmatch(name, pattern)), None)

    def unexpected(self, leg: Leg, revision: str, requested: Sequence[str]) -> list[str]:
        """Return the *requested* scenarios of the suite that are neither required here nor left out."""
        known = self.of(leg, revision)
        return [name for name in requested if name not in known and self.why_left_out(name) is None]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def read_scenarios(data: Path = _DATA) -> Scenarios:
    """Read the file."""
    content: dict[str, Any] = tomllib.loads(data.read_text())
    unwatched, skips = content["unwatched"], content["skips"]
    required = [
        Scenario(leg, revision, name, least, not _fits(name, unwatched[leg]), frozenset(skips.get(name, ())))
        for leg in get_args(Leg)
        for revision, names in content[leg].items()
        for name, least in names.items()
    ]
    return Scenarios(required, content["left-out"], content["not-through-gateway"])
