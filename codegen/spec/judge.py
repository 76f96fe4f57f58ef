"""The validation of many messages of one revision, by the upstream schema and by the generated types."""

from __future__ import annotations

import copy
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs

from codegen.align import Revision
from codegen.merge import Merged
from codegen.normalise import clean
from codegen.registry import errors, methods
from codegen.repairs import REPAIRS
from codegen.shapes import PREFIX
from codegen.spec.leniency import NO_SWITCH, SWITCHES, Leniency, model
from codegen.spec.seeds import Change, changed, changes, same_json, seeds
from codegen.spec.targets import Target, accept, targets
from trio_mcp import types
from trio_mcp._errors import StructureError

_MOST = 25_000
_TWICE = 15
"""The number of messages with two faults that are made from each seed."""


class _Recipe(NamedTuple):
    """A function that makes one message. Most are never called, because messages are large."""

    target: Target
    seed: Any
    change: Change | None = None
    twice: bool = False


class Comparison:
    """The results for the messages of one revision.

    Args:
        revision: the aligned revision.
        merged: all revisions.
        document: the revision's normal form.
        raw: its upstream file.
    """

    def __init__(self, revision: Revision, merged: Merged, document: dict[str, Any], raw: dict[str, Any]) -> None:
        self.revision = revision
        self.faults: list[str] = []
        self.messages = 0
        self.kinds = 0
        self.valid = 0
        self.without_nulls = 0
        """The valid messages that come back without a null for an optional member."""
        self.accepted: Counter[str] = Counter()
        self._merged = merged
        self._document = document
        self._raw = raw
        self._container = "$defs" if "$defs" in raw else "definitions"
        self._repaired_raw = repaired(raw, self._container)
        self._upstream = lru_cache(maxsize=None)(self._make_upstream)
        self._model = lru_cache(maxsize=None)(self._make_model)

    def run(self, from_examples: dict[str, list[Any]]) -> None:
        """Judge mutants of messages made from the schema and of the examples, which are given by type name."""
        dice = random.Random(self.revision.name)  # noqa: S311 - deterministic on purpose
        found = list(self._recipes(from_examples, dice))
        for recipe in dice.sample(found, min(_MOST, len(found))):
            self.messages += 1
            value = recipe.seed if recipe.change is None else changed(recipe.seed, recipe.change)
            if recipe.twice:
                value = changed(value, dice.choice(changes(value)))
            self._judge(recipe.target, value)

    def _recipes(self, from_examples: dict[str, list[Any]], dice: random.Random) -> Iterator[_Recipe]:
        # A definition that is inline upstream is judged inside the message that contains it.
        inline = self._document["hoisted"]
        upstream = {name: each for name, each in self._raw[self._container].items() if name not in inline}
        rows, codes = methods(self.revision), errors(self.revision)
        own = self._merged.own[self.revision.name]
        for target in targets(self.revision, self._merged, rows, codes, upstream, f"#/{self._container}/"):
            self.kinds += 1
            for seed in [*from_examples.get(target.type_name, ()), *seeds(target.type_name, own)]:
                yield _Recipe(target, seed)
                ways = changes(seed)
                for change in ways:
                    yield _Recipe(target, seed, change)
                for change in dice.choices(ways, k=_TWICE):
                    yield _Recipe(target, seed, change, twice=True)

    def _judge(self, target: Target, value: Any) -> None:
        valid = self._upstream(target, False).is_valid(target.message(value))
        plain = self._model(target.type_name, NO_SWITCH).is_valid(value)
        allowed = self._model(target.type_name, SWITCHES).is_valid(value)
        if valid and not plain:
            self._fault(target, value, "valid upstream, but not by the normal form")
        try:
            message = accept(value, getattr(types, target.type_name), self.revision.name)
        except StructureError as error:
            if valid or allowed:
                self._fault(target, value, f"{'valid' if valid else 'allowed by a leniency'}, but refused: {error}")
            return
        if valid:
            self.valid += 1
            self._check_back(target, value, types.unstructure(message, revision=self.revision.name))
            return
        reason = self._reason(target, value) if allowed else None
        if reason is None:
            self._fault(target, value, "invalid, but accepted, for no reason that has a name")
        else:
            self.accepted[reason] += 1

    def _check_back(self, target: Target, value: Any, back: Any) -> None:
        if not same_json(back, value):
            if same_json(back, value, but_nulls=True):
                self.without_nulls += 1
            else:
                self._fault(target, value, f"valid, but came back as {back}")
        if not self._upstream(target, False).is_valid(target.message(back)):
            self._fault(target, value, f"valid, but sent as {back}, which is not")

    def _reason(self, target: Target, value: Any) -> str | None:
        """Return the fewest leniencies that together explain why an invalid value is accepted."""
        if self._upstream(target, True).is_valid(target.message(value)):
            return Leniency.REPAIR.value
        for count in range(1, len(SWITCHES) + 1):
            for some in itertools.combinations([each for each in Leniency if each in SWITCHES], count):
                if self._model(target.type_name, frozenset(some)).is_valid(value):
                    return "; and ".join(each.value for each in some)
        return None

    def _make_upstream(self, target: Target, repaired: bool) -> Any:
        raw = self._repaired_raw if repaired else self._raw
        schema = {"$schema": raw["$schema"], self._container: raw[self._container], "allOf": list(target.upstream)}
        return jsonschema_rs.validator_for(schema)

    def _make_model(self, type_name: str, leniencies: frozenset[Leniency]) -> Any:
        definitions = model(self._merged, self._document, leniencies)
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": definitions,
            "$ref": PREFIX + type_name,
        }
        return jsonschema_rs.validator_for(schema)

    def _fault(self, target: Target, value: Any, text: str) -> None:
        self.faults.append(f"revision {self.revision.name}, {target.label}: {value}: {text}")


def repaired(raw: dict[str, Any], container: str) -> dict[str, Any]:
    """Return the upstream file with only the known mistakes repaired."""
    copied = copy.deepcopy(raw)
    for repair in REPAIRS:
        *parents, last = repair.path
        holder: Any = copied[container]
        for key in parents:
            holder = holder.get(key, {})
        if last in holder and clean(holder[last], last) == repair.wrong:
            holder[last] = repair.right
    return copied
