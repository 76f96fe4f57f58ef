"""Tests of forms with random classes: their schemas fit each revision, and their answers are read without loss.

The results are compared with the generated message types, the JSON Schema of each revision in `schema/`, and the
`jsonschema` package.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import json
import keyword
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

import attrs
import jsonschema  # type: ignore[import-untyped]  # has no annotations, and we need none
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trio_mcp import Choices, MissingCapability, types
from trio_mcp.server.asking._forms import AnswerFaults, form_of

Json: TypeAlias = dict[str, Any]
Strategy: TypeAlias = st.SearchStrategy[Any]
Meta = msgspec.Meta

REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
FIRST = REVISIONS[0]
WITH_PATTERN = REVISIONS[1]
SCHEMAS = Path(__file__).parents[3] / "schema"

UPSTREAM: dict[str, Any] = {}
for each in REVISIONS:
    definitions: Json = json.loads((SCHEMAS / f"{each}.json").read_text(encoding="utf-8"))["$defs"]
    UPSTREAM[each] = jsonschema.Draft202012Validator(
        {"$ref": "#/$defs/PrimitiveSchemaDefinition", "$defs": definitions}
    )


@attrs.frozen
class Kind:
    """One kind of member: its type, with valid and invalid values."""

    annotation: Any
    values: Strategy
    """Its Python values."""

    wrong: Strategy
    """Its JSON values."""

    to_json: Callable[[Any], Any] = lambda value: value
    is_several: bool = False
    is_formatted: bool = False
    """True if a validator without formats may accept the invalid values."""


@attrs.frozen
class Member:
    """One member of a class."""

    name: str
    kind: Kind
    default: Any = dataclasses.MISSING
    may_be_none: bool = False

    @property
    def is_optional(self) -> bool:
        return self.may_be_none or self.default is not dataclasses.MISSING

    @property
    def value_if_absent(self) -> Any:
        return None if self.default is dataclasses.MISSING else self.default

    def field(self) -> tuple[str, Any, Any]:
        annotation = self.kind.annotation | None if self.may_be_none else self.kind.annotation
        if isinstance(self.default, list):
            return self.name, annotation, dataclasses.field(default_factory=lambda: copy.copy(self.default))
        return self.name, annotation, dataclasses.field(default=self.default)


def meta(**facts: Any) -> Any:
    """Make a `msgspec.Meta` of the given constraints."""
    return Meta(**{name: fact for name, fact in facts.items() if fact is not None})


descriptions: Strategy = st.none() | st.text(max_size=10)
not_texts: Strategy = st.integers() | st.none() | st.booleans() | st.lists(st.text(max_size=2), max_size=1)
not_numbers: Strategy = (
    st.none() | st.booleans() | st.sampled_from(["1", "", "true"]) | st.lists(st.integers(), max_size=1)
)


@st.composite
def texts(draw: st.DrawFn) -> Kind:
    least, most = draw(st.none() | st.integers(0, 4)), draw(st.none() | st.integers(4, 9))
    wrong = not_texts
    if least:
        wrong |= st.text(max_size=least - 1)
    if most is not None:
        wrong |= st.text(min_size=most + 1)
    note = meta(min_length=least, max_length=most, title=draw(descriptions), description=draw(descriptions))
    values = st.text(min_size=least or 0, max_size=9 if most is None else most)
    return Kind(Annotated[str, note], values, wrong)


def formatted(name: str, pattern: str, wrong: str) -> Strategy:
    note = Meta(extra_json_schema={"format": name})
    values = st.from_regex(pattern, fullmatch=True)
    return st.just(Kind(Annotated[str, note], values, not_texts | st.just(wrong), is_formatted=True))


def iso(value: Any) -> Any:
    """Return the string of a date or datetime."""
    return value.isoformat().replace("+00:00", "Z")


zones = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
dates = st.just(
    Kind(dt.date, st.dates(), not_texts | st.sampled_from(["2026-02-30", "today", ""]), iso, is_formatted=True)
)
moments = st.just(
    Kind(
        dt.datetime,
        st.datetimes(timezones=zones),
        not_texts | st.sampled_from(["2026-01-31T09:30:00", "2026-01-31", "now"]),
        iso,
        is_formatted=True,
    )
)
patterned = st.just(
    Kind(
        Annotated[str, Meta(pattern="^[a-z]{1,4}$")],
        st.from_regex("[a-z]{1,4}", fullmatch=True),
        not_texts | st.sampled_from(["", "A", "abcde", "a1"]),
        is_formatted=True,
    )
)


@st.composite
def whole_numbers(draw: st.DrawFn) -> Kind:
    low, high = sorted(draw(st.tuples(st.integers(-(2**70), 2**70), st.integers(-(2**70), 2**70))))
    low_outside, high_outside = draw(st.booleans()), draw(st.booleans())
    note = meta(
        **({"gt": low - 1} if low_outside else {"ge": low}),
        **({"lt": high + 1} if high_outside else {"le": high}),
        description=draw(descriptions),
    )
    wrong = not_numbers | st.sampled_from([low - 1, high + 1, 0.5, -0.5])
    return Kind(Annotated[int, note], st.integers(low, high), wrong)


@st.composite
def numbers(draw: st.DrawFn) -> Kind:
    low, high = sorted(draw(st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000))))
    wrong = not_numbers | st.sampled_from([low - 0.25, high + 0.25])
    return Kind(Annotated[float, meta(ge=low, le=high)], st.floats(low, high), wrong)


booleans = st.just(Kind(bool, st.booleans(), st.integers(0, 1) | st.none() | st.sampled_from(["true", ""])))


@attrs.frozen
class Choice:
    """A choice of strings: its annotation, and its Python values by string."""

    annotation: Any
    by_text: Mapping[str, Any]

    def wrong(self) -> Strategy:
        return not_texts | st.text(max_size=4).filter(lambda text: text not in self.by_text)


def text_of(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    options = draw(st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True))
    titles = Choices({text: draw(st.text(max_size=4)) for text in options})
    members = cast("Any", enum.Enum)("Choice", {f"M{index}": text for index, text in enumerate(options)})
    plain = {text: text for text in options}
    literal = Literal[tuple(options)]  # type: ignore[valid-type]  # the texts are drawn
    return draw(
        st.sampled_from(
            [
                Choice(literal, plain),
                Choice(members, {member.value: member for member in members}),
                Choice(Annotated[str, titles], plain),
                Choice(Annotated[literal, titles], plain),
                Choice(Annotated[members, titles], {member.value: member for member in members}),
            ]
        )
    )


def one_of(choice: Choice) -> Kind:
    return Kind(choice.annotation, st.sampled_from(list(choice.by_text.values())), choice.wrong(), text_of)


@st.composite
def several_of(draw: st.DrawFn) -> Kind:
    choice = draw(choices())
    least, most = draw(st.none() | st.integers(0, 2)), draw(st.none() | st.integers(2, 3))
    values = list(choice.by_text.values())
    fitting = st.lists(st.sampled_from(values), min_size=least or 0, max_size=3 if most is None else most)
    wrong = choice.wrong().filter(lambda value: not isinstance(value, list)) | choice.wrong().map(lambda value: [value])
    wrong |= st.sampled_from(list(choice.by_text))
    if least:
        wrong |= st.just([])
    if most is not None:
        wrong |= st.just([next(iter(choice.by_text))] * (most + 1))
    note = meta(min_length=least, max_length=most)
    annotation: Any = Annotated[list[choice.annotation], note]  # type: ignore[name-defined]  # the type is drawn
    return Kind(annotation, fitting, wrong, lambda value: [text_of(each) for each in value], is_several=True)


KINDS = st.one_of(
    texts(),
    formatted("email", "[a-z]{1,8}@[a-z]{1,8}[.]org", "no-at-sign"),
    formatted("uri", "https://[a-z]{1,8}[.]org/[a-z]{0,4}", "not a place"),
    dates,
    moments,
    patterned,
    whole_numbers(),
    numbers(),
    booleans,
    choices().map(one_of),
    several_of(),
)
NAMES = st.from_regex("[a-z][a-z_0-9]{0,6}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))


@st.composite
def members(draw: st.DrawFn, name: str) -> Member:
    kind = draw(KINDS)
    default = draw(kind.values) if draw(st.booleans()) else dataclasses.MISSING
    may_be_none = draw(st.booleans())
    if may_be_none and draw(st.booleans()):
        default = None
    return Member(name, kind, default, may_be_none)


@st.composite
def classes(draw: st.DrawFn, at_least: int = 0) -> list[Member]:
    names = draw(st.lists(NAMES, min_size=at_least, max_size=5, unique=True))
    return [draw(members(name)) for name in names]


def made(drawn: list[Member]) -> Any:
    return dataclasses.make_dataclass("Member", [member.field() for member in drawn], kw_only=True)


def leftovers(value: Any, revision: str) -> list[str]:
    """Return the members of a message that its types do not declare."""
    cls: type[Any] = value.__class__
    if isinstance(value, Mapping):
        return [name for inner in cast("Mapping[str, Any]", value).values() for name in leftovers(inner, revision)]
    if isinstance(value, list | tuple):
        return [name for inner in cast("list[Any]", value) for name in leftovers(inner, revision)]
    if not attrs.has(cls):
        return []
    # The specification of that revision has it, but its schema does not.
    allowed = {"pattern"} if revision == WITH_PATTERN and cls is types.StringSchema else set[str]()
    inside = [getattr(value, field.name) for field in attrs.fields(cls) if field.name != "extra"]
    return [*(value.extra.keys() - allowed), *leftovers(inside, revision)]


def takes(schema: Json, value: Any) -> bool:
    """Return True if the `jsonschema` package accepts a value; it ignores formats."""
    validator: Any = jsonschema.Draft202012Validator(schema)
    return cast("bool", validator.is_valid(value))


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.requirement("B.23-S4")
@unhurried
@given(drawn=classes(), revision=st.sampled_from(REVISIONS))
def test_each_revision_gets_a_form_that_fits_its_own_schema(drawn: list[Member], revision: str) -> None:
    form = form_of(made(drawn))
    several = [member.name for member in drawn if member.kind.is_several]
    if revision == FIRST and several:
        with pytest.raises(MissingCapability) as missing:
            form.requested_schema(revision)
        assert str(missing.value).endswith(f"multiple choice, which $.{several[0]} needs")
        return

    schema = form.requested_schema(revision)

    structured = types.structure(copy.deepcopy(schema), types.ElicitRequestedSchema, revision=revision)
    assert leftovers(structured, revision) == []
    assert types.unstructure(structured, revision=revision) == schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert list(schema["properties"]) == [member.name for member in drawn]
    assert schema.get("required", []) == [member.name for member in drawn if not member.is_optional]
    for property_ in schema["properties"].values():
        UPSTREAM[revision].validate(property_)
        assert property_["type"] in {"string", "integer", "number", "boolean", "array"}


@unhurried
@given(drawn=classes())
def test_a_form_proposes_the_default_of_the_class(drawn: list[Member]) -> None:
    properties = form_of(made(drawn)).requested_schema(REVISIONS[-1])["properties"]

    for member in drawn:
        if member.default is dataclasses.MISSING or member.default is None:
            assert "default" not in properties[member.name]
        else:
            assert properties[member.name]["default"] == member.kind.to_json(member.default)


@unhurried
@given(data=st.data())
def test_an_answer_that_fits_is_loaded_to_an_equal_instance(data: st.DataObject) -> None:
    drawn = data.draw(classes())
    cls = made(drawn)
    form = form_of(cls)
    values: Json = {}
    for member in drawn:
        if not member.is_optional or data.draw(st.booleans()):
            values[member.name] = data.draw(member.kind.values)
    content = {member.name: member.kind.to_json(values[member.name]) for member in drawn if member.name in values}
    sent = json.loads(json.dumps(content))

    loaded = form.load(sent)

    assert loaded == cls(**{**{member.name: member.value_if_absent for member in drawn}, **values})
    assert types_of(loaded) == types_of(cls(**{**{member.name: member.value_if_absent for member in drawn}, **values}))
    assert takes(form.requested_schema(REVISIONS[-1]), sent)


def types_of(instance: Any) -> list[type]:
    """Return the types of the members, because 1 equals True, and a string enumeration equals its strings."""
    return [type(getattr(instance, field.name)) for field in dataclasses.fields(instance)]


@unhurried
@given(data=st.data())
def test_an_answer_that_does_not_fit_is_refused_with_the_path_of_the_fault(data: st.DataObject) -> None:
    drawn = data.draw(classes(at_least=1))
    form = form_of(made(drawn))
    content = {member.name: member.kind.to_json(data.draw(member.kind.values)) for member in drawn}
    victim = data.draw(st.sampled_from(drawn))
    if victim.is_optional or data.draw(st.booleans()):
        content[victim.name] = data.draw(victim.kind.wrong)
    else:
        del content[victim.name]

    with pytest.raises(AnswerFaults) as refusal:
        form.load(content)

    place = f"$.{victim.name}"
    assert all(fault.startswith((f"{place}:", f"{place}[")) for fault in refusal.value.faults)
    if not victim.kind.is_formatted:
        assert not takes(form.requested_schema(REVISIONS[-1]), content)
