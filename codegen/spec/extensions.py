"""The validation of many messages of one extension, by the upstream schema and by the generated types.

Between the two stand the steps of the generator, each as a JSON Schema, so that every difference has a name: the
upstream file; its plain form (see `dialect`); the same with references in place of copies; the file in `schema/`, in
which known mistakes are repaired; and the generated types, with the switches of `leniency`.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import jsonschema_rs

from codegen.choices import CORE_REVISION, JSON_MEMBERS, META_MEMBER, PLAIN_JSON
from codegen.dialect import LENIENCIES, MISTAKES, NOTATION, Rewrite, lifted, rewrite
from codegen.merge import Merged
from codegen.normalise import definitions_of, without_copies
from codegen.shapes import (
    JSON_OBJECT,
    PREFIX,
    Definitions,
    Schema,
    core_name,
    core_place,
    is_class,
    name_in_core,
    plain_json,
    rebuild,
    ref,
    rename_refs,
    target,
)
from codegen.spec.judge import repaired
from codegen.spec.leniency import Leniency, loosened
from codegen.spec.seeds import Change, changed, changes, same_json, seeds
from trio_mcp import types
from trio_mcp._errors import StructureError
from trio_mcp.types._faults import kind_of

_ANY = "any"
"""The name, in place of a revision's, under which the definitions stand that cover every revision."""
_MOST_OF_A_KIND = 250
_TWICE = 10
"""The number of messages with two faults that are made from each seed."""
_SWITCHES = (
    *(Leniency.NULL, Leniency.META, Leniency.PLAIN_JSON, Leniency.CAPABILITY, Leniency.FORM),
    Leniency.WIDER,
)


class _Kind(NamedTuple):
    """A kind of value: a definition of the upstream file, and its generated type."""

    name: str
    """The upstream definition."""
    place: str
    """The same definition after copies of the core became references to it."""
    cls: Any


class _Recipe(NamedTuple):
    """A way to make one message. Most are never followed, because messages are large."""

    seed: Any
    change: Change | None = None
    twice: bool = False


class ExtensionComparison:
    """The results for the messages of one extension.

    Args:
        document: its normal form.
        raw: its upstream file.
        core: the definitions of each revision.
        merged: all revisions.
    """

    def __init__(
        self, document: dict[str, Any], raw: dict[str, Any], core: Mapping[str, Definitions], merged: Merged
    ) -> None:
        self.name: str = document["extension"]
        self.faults: list[str] = []
        self.messages = 0
        self.valid = 0
        self.without_nulls = 0
        """The valid messages that come back without a null for an optional member."""
        self.accepted: Counter[str] = Counter()
        """The invalid messages that are accepted, by the reason."""
        self.refused: Counter[str] = Counter()
        """The valid messages that are refused, by the known mistake of the upstream file."""
        self._merged = merged
        self._core = _named_by_place(core)
        self._upstream = lifted(definitions_of(raw, f"extension {self.name}"), f"extension {self.name}")
        self._repaired = repaired({"$defs": self._upstream}, "$defs")["$defs"]
        self._without_copies = without_copies(raw, self.name, core)
        self._normal: Definitions = {**document["$defs"], **self._core}
        # An object without a name of its own is judged inside the message that contains it.
        self.kinds = list(self._all_kinds(document["hoisted"]))
        self._rewritten = lru_cache(maxsize=None)(self._make_rewritten)
        self._model = lru_cache(maxsize=None)(self._make_model)
        self._validator: Callable[..., jsonschema_rs.Draft202012Validator] = lru_cache(maxsize=None)(
            self._make_validator
        )

    def run(self) -> None:
        """Judge messages made from the schema, and mutants of them."""
        dice = random.Random(self.name)  # noqa: S311 - deterministic on purpose
        for kind in self.kinds:
            made = seeds(kind.place, self._normal)
            found = [*made, *map(_without_free_members, made)]
            if not any(self._accepts_without_copies(kind, each) for each in found):
                self._fault(kind, found[0], "none of the messages made from the schema is valid")
            recipes = list(_recipes(found, dice))
            for recipe in dice.sample(recipes, min(_MOST_OF_A_KIND, len(recipes))):
                self.messages += 1
                value = recipe.seed if recipe.change is None else changed(recipe.seed, recipe.change)
                self._judge(kind, changed(value, dice.choice(changes(value))) if recipe.twice else value)

    def _all_kinds(self, inline: Iterable[str]) -> Iterator[_Kind]:
        own = import_module(f"trio_mcp.{self.name}.types")
        for name in sorted(self._upstream.keys() - {*inline}):
            place = name_in_core(CORE_REVISION, name)
            if name in self._normal:
                yield _Kind(name, name, getattr(own, name))
            elif place in self._core and name not in PLAIN_JSON:
                yield _Kind(name, place, getattr(types, name))

    def _judge(self, kind: _Kind, value: Any) -> None:
        valid = self._accepts_upstream(kind, value)
        if not any(self._is_same_without_copies(kind, each) for each in (value, _without_tool_schemas(value))):
            self._fault(kind, value, "a copy became a reference to something else")
        allowed = self._accepts_model(kind, value, _SWITCHES)
        try:
            message = types.structure(value, kind.cls)
        except StructureError as error:
            mistake = self._mistake(kind, value) if valid else None
            if mistake is not None:
                self.refused[mistake] += 1
            elif valid or allowed:
                self._fault(kind, value, f"{'valid' if valid else 'allowed by a leniency'}, but refused: {error}")
            return
        if not allowed:
            self._fault(kind, value, "accepted, for no reason that has a name")
        elif valid:
            self.valid += 1
            self._check_back(kind, value, types.unstructure(message))
        else:
            self.accepted[self._reason(kind, value)] += 1

    def _check_back(self, kind: _Kind, value: Any, back: Any) -> None:
        if not same_json(back, value):
            if same_json(back, value, but_nulls=True):
                self.without_nulls += 1
            else:
                self._fault(kind, value, f"valid, but came back as {back}")
        if not self._accepts_upstream(kind, back):
            self._fault(kind, value, f"valid, but sent as {back}, which is not")

    def _mistake(self, kind: _Kind, value: Any) -> str | None:
        """Return the known mistake of the upstream file that explains why a valid value is refused."""
        for mistake in MISTAKES:
            if not self._accepts_repaired(kind, value, (mistake,)):
                return mistake.reason
        is_repaired = self._accepts_without_copies(kind, value) and not self._accepts_model(kind, value, ())
        return Leniency.REPAIR.value if is_repaired else None

    def _reason(self, kind: _Kind, value: Any) -> str:
        """Return the fewest leniencies that together explain why an invalid value is accepted."""
        for some in ((), *_subsets(LENIENCIES)):
            if self._accepts_repaired(kind, value, (*MISTAKES, *some)):
                return "; and ".join(each.reason for each in some) or Leniency.REPAIR.value
        for some in ((), *_subsets(_SWITCHES)):
            if self._accepts_model(kind, value, some):
                return "; and ".join(each.value for each in some) or Leniency.REPAIR.value
        raise AssertionError("all switches together allow the value")

    def _accepts_upstream(self, kind: _Kind, value: Any) -> bool:
        return self._validator(self._make_upstream, (), kind.name).is_valid(value)

    def _accepts_repaired(self, kind: _Kind, value: Any, rewrites: tuple[Rewrite, ...]) -> bool:
        return self._validator(self._rewritten, rewrites, kind.name).is_valid(value)

    def _accepts_without_copies(self, kind: _Kind, value: Any) -> bool:
        return self._validator(self._make_without_copies, (), kind.place).is_valid(value)

    def _is_same_without_copies(self, kind: _Kind, value: Any) -> bool:
        in_plain_form = self._accepts_repaired(kind, value, (*MISTAKES, *LENIENCIES))
        return in_plain_form == self._accepts_without_copies(kind, value)

    def _accepts_model(self, kind: _Kind, value: Any, switches: tuple[Leniency, ...]) -> bool:
        return self._validator(self._model, switches, kind.place).is_valid(value)

    def _make_validator(
        self, source: Callable[[Any], Definitions], variant: Any, name: str
    ) -> jsonschema_rs.Draft202012Validator:
        definitions = _needed(name, source(variant))
        places = {each: ".".join(core_place(each) or (each,)) for each in definitions}
        schemas = {places[each]: _pointing(schema, places) for each, schema in definitions.items()}
        return jsonschema_rs.Draft202012Validator({"$defs": schemas, "$ref": PREFIX + places[name]})

    def _make_rewritten(self, rewrites: tuple[Rewrite, ...]) -> Definitions:
        return {**rewrite(self._repaired, (*NOTATION, *rewrites)), **self._core}

    def _make_upstream(self, _: object) -> Definitions:
        return {**self._upstream, **self._core}

    def _make_without_copies(self, _: object) -> Definitions:
        return {**self._without_copies, **self._core}

    def _make_model(self, switches: tuple[Leniency, ...]) -> Definitions:
        """Return definitions that accept what the generated types accept."""
        definitions = self._normal
        if Leniency.WIDER in switches:
            widest = self._widest()
            shared = {place: name_in_core(_ANY, name) for place in self._core if (name := core_name(place))}
            definitions = {
                **definitions,
                **widest,
                **{place: ref(any_place) for place, any_place in shared.items() if any_place in widest},
            }
        return {place: self._loosened(place, schema, frozenset(switches)) for place, schema in definitions.items()}

    def _loosened(self, place: str, schema: Schema, switches: frozenset[Leniency]) -> Schema:
        name = core_name(place) or place
        if is_class(schema):
            plain = {
                member
                for member in schema["properties"]
                if (Leniency.META in switches and member == META_MEMBER)
                or (Leniency.PLAIN_JSON in switches and (name, member) in JSON_MEMBERS)
            }
            members = {each: JSON_OBJECT if each in plain else inner for each, inner in schema["properties"].items()}
            is_lenient = name != place and name in self._merged.lenient
            schema = loosened({**schema, "properties": members}, is_lenient, switches)
        return _without_patterns(schema) if Leniency.FORM in switches else schema

    def _widest(self) -> Definitions:
        """Return the definitions of the core that cover every revision."""
        found: Definitions = {}
        names = {name: name_in_core(_ANY, name) for name in self._merged.definitions}
        for name, joined in self._merged.definitions.items():
            schema = rename_refs(_spelled(joined), names)
            limits = self._merged.superset.bounds.get(name, {})
            if limits:
                members = {each: {**inner, **limits.get(each, {})} for each, inner in schema["properties"].items()}
                schema = {**schema, "properties": members}
            found[names[name]] = schema
        return found

    def _fault(self, kind: _Kind, value: Any, text: str) -> None:
        self.faults.append(f"extension {self.name}, {kind.name}: {value}: {text}")


def _needed(name: str, definitions: Definitions) -> Definitions:
    """Return one definition with all that it refers to, also in the forms of other tools."""
    needed: Definitions = {}
    waiting: list[Any] = [ref(name)]
    while waiting:
        schema = waiting.pop()
        if kind_of(schema) == "object":
            waiting += schema.values()
            reference = schema.get("$ref")
            place = target(schema) if kind_of(reference) == "string" else None
            if place is not None and place not in needed:
                needed[place] = definitions[place]
                waiting.append(definitions[place])
        elif kind_of(schema) == "array":
            waiting += schema
    return needed


def _pointing(schema: Any, places: Mapping[str, str]) -> Any:
    """Return a schema in any form whose references lead to these places."""
    if kind_of(schema) == "array":
        return [_pointing(each, places) for each in schema]
    if kind_of(schema) != "object":
        return schema
    if kind_of(schema.get("$ref")) == "string":
        return {"$ref": PREFIX + places[target(schema) or ""]}
    return {key: _pointing(each, places) for key, each in schema.items()}


def _recipes(found: list[Any], dice: random.Random) -> Iterator[_Recipe]:
    for seed in found:
        yield _Recipe(seed)
        ways = changes(seed)
        for change in ways:
            yield _Recipe(seed, change)
        for change in dice.choices(ways, k=_TWICE):
            yield _Recipe(seed, change, twice=True)


def _without_free_members(value: Any) -> Any:
    """Return a message whose objects of any members have none, because upstream may allow none."""
    if kind_of(value) == "array":
        return [_without_free_members(each) for each in value]
    if kind_of(value) != "object":
        return value
    return {name: _without_free_members(each) for name, each in value.items() if name != "free"}


def _named_by_place(core: Mapping[str, Definitions]) -> Definitions:
    """Return the definitions of all revisions, by the names by which an extension refers to them."""
    found: Definitions = {}
    for revision, definitions in core.items():
        names = {name: name_in_core(revision, name) for name in definitions}
        found.update({names[name]: rename_refs(_spelled(definitions[name]), names) for name in definitions})
    return found


def _spelled(schema: Schema) -> Schema:
    """Return a schema with plain JSON written out, because its definitions contain themselves."""
    name = target(schema)
    return plain_json(name) if name in PLAIN_JSON else rebuild(schema, _spelled)


def _without_tool_schemas(value: Any) -> Any:
    """Return a message with the schemas of tools reduced, which are plain JSON and do not count in copies."""
    if kind_of(value) == "array":
        return [_without_tool_schemas(each) for each in value]
    if kind_of(value) != "object":
        return value
    return {
        name: {"type": "object"} if ("Tool", name) in JSON_MEMBERS and kind_of(each) == "object" else inner
        for name, each in value.items()
        for inner in [_without_tool_schemas(each)]
    }


def _without_patterns(schema: Schema) -> Schema:
    inner = rebuild(schema, _without_patterns)
    return {key: value for key, value in inner.items() if key != "pattern"}


def _subsets(all_of_them: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the subsets that are not empty, the smallest first."""
    given = tuple(all_of_them)
    return itertools.chain.from_iterable(itertools.combinations(given, count) for count in range(1, len(given) + 1))
