"""Random templates, values and URIs: expanding and matching are inverse operations."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from trio_mcp.wire import UriTemplate
from trio_mcp.wire._uri_template import Literal, Part, cut, spelled

Values = dict[str, str | list[str]]

RESERVED = ":/?#[]@!$&'()*+,;="
UNRESERVED = string.ascii_letters + string.digits + "-._~"
NAMES = ["x", "a", "Z_1", "a.b", "%C3%B6", "0"]
TEXTS = ["/", "-", ".", "?", "#", "&", ";", "=", ",", "://", "ab", "ö", "%2F", "%c3%b6", "/-/", "%20", "?x=", "a"]

steady = settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
"""The settings of these tests: no deadline, because the time is irrelevant, and many refused random templates."""


@st.composite
def expressions(draw: st.DrawFn, names: list[str]) -> str:
    """Return an expression, and remove its variables from *names*."""
    count = draw(st.integers(1, min(3, len(names))))
    variables = [names.pop() + draw(st.sampled_from(["", "", "*"])) for _ in range(count)]
    return f"{{{draw(st.sampled_from(['', '+', '#', '.', '/', ';', '?', '&']))}{','.join(variables)}}}"


@st.composite
def templates(draw: st.DrawFn) -> UriTemplate:
    """Return a template that is not refused."""
    names = draw(st.permutations(NAMES))
    pieces: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        is_text = not names or draw(st.booleans())
        pieces.append(draw(st.sampled_from(TEXTS) if is_text else expressions(names)))
    try:
        return UriTemplate("".join(pieces))
    except ValueError:
        assume(False)
        raise


TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(RESERVED + "%. "), max_size=6)
ANY_VALUES = st.dictionaries(st.sampled_from(NAMES), TEXT | st.lists(TEXT, max_size=4))


@st.composite
def readable_values(draw: st.DrawFn, template: UriTemplate) -> Values:
    """Return values without separators, and without the characters of the literal parts of the template.

    The values contain no percent signs either, because expressions that keep reserved characters would read a percent
    sign with two hex digits as a percent-encoding.
    """
    literals = spelled("".join(re.split(r"\{[^}]*\}", template.template)))
    assert literals is not None
    excluded = [chr(ord(each) & 0x7F) if "\udc00" <= each <= "\udc7f" else each for each in literals]
    characters = st.characters(exclude_categories=["Cs"], exclude_characters=[*excluded, *"?#.,%"])
    values: Values = {}
    for body in re.findall(r"\{([^}]*)\}", template.template):
        operator = body[0] if body[0] in "+#./;?&" else ""
        names = body.removeprefix(operator).split(",")
        may_be_absent, is_named = operator not in {"", "+"}, operator in {";", "?", "&"}
        text = st.text(characters, min_size=0 if may_be_absent else 1, max_size=5)
        for name in names:
            if may_be_absent and draw(st.booleans()):
                if is_named:
                    continue
                break  # values without names can only be omitted at the end
            if name.endswith("*"):
                values[name.removesuffix("*")] = draw(st.lists(text, min_size=1, max_size=4))
            else:
                values[name] = draw(text)
    return values


def normalised(uri: str) -> str:
    """Return the URI with one spelling for each character, by RFC 3986 and RFC 3987, independently of the code."""
    octets = b""
    for part in re.findall(r"%[0-9A-Fa-f]{2}|[^%]", uri):
        if len(part) == 1:
            octets += part.encode() if ord(part) < 0x80 else "".join(f"%{each:02X}" for each in part.encode()).encode()
        else:
            octet = chr(int(part[1:], 16))
            octets += (octet if octet in UNRESERVED else part.upper()).encode()
    return octets.decode()


@settings(steady, max_examples=200)
@given(st.data())
def test_expanded_values_are_read_back(data: st.DataObject) -> None:
    template = data.draw(templates())
    values = data.draw(readable_values(template))

    assert template.match(template.expand(values)) == values


@steady
@given(st.data())
def test_expanding_the_values_of_a_match_gives_the_same_uri(data: st.DataObject) -> None:
    template = data.draw(templates())
    expansion = template.expand(data.draw(ANY_VALUES))
    at = data.draw(st.integers(0, len(expansion)))
    inserted = data.draw(st.sampled_from(["", "", "%", "%2e", "%2F", "%c3", "/", "..", "&x=", ",", "é", " ", "\x00"]))
    uri = expansion[:at] + inserted + expansion[at + data.draw(st.integers(0, 2)) :]

    values = template.match(uri)

    if values is not None:
        assert normalised(template.expand(values)) == normalised(uri)
        assert values.keys() >= set(template.variables) - template.optional
        assert {name for name, value in values.items() if isinstance(value, list)} <= template.exploded


@steady
@given(templates(), st.text() | st.text("ab%2Ff.-/?#&;=,öx0123", max_size=30))
@example(UriTemplate("{x}"), "\ud800")
def test_any_string_can_be_checked_or_matched(template: UriTemplate, text: str) -> None:
    values = template.match(text)

    if values is not None:
        assert normalised(template.expand(values)) == normalised(text)


@steady
@given(st.lists(st.text(min_size=1).filter(lambda text: text.isprintable()), min_size=2, max_size=2))
def test_any_two_values_are_read_back_from_their_segments(values: list[str]) -> None:
    template = UriTemplate("x://{a}/y/{b}")
    first, second = values

    assert template.match(template.expand({"a": first, "b": second})) == {"a": first, "b": second}


@steady
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_any_list_is_read_back_from_path_query_and_parameters(items: list[str]) -> None:
    template = UriTemplate("x://y{/a*}{;b*}{?c*}")
    values: Values = {"a": items, "b": items, "c": items}

    assert template.match(template.expand(values)) == values


def lazy_pattern(parts: tuple[Part, ...]) -> str:
    """Return the equivalent regular expression, which backtracks."""
    pattern = ""
    for part in parts:
        if isinstance(part, Literal):
            pattern += re.escape(part.spelling)
        else:
            inside = f"[^{''.join(map(re.escape, sorted(part.excluded)))}]"
            first = re.escape(part.first)
            pattern += f"((?:{first}{inside}*?)??)" if first else f"({inside}+?)"
    return pattern


@steady
@given(templates(), st.text("ab-./?#&;=,xö", max_size=12))
@example(UriTemplate("{x}-{y}"), "a-b-c")
@example(UriTemplate("{/x*}/{y}"), "/a/b/c")
def test_the_matched_pieces_equal_those_of_a_backtracking_search(template: UriTemplate, text: str) -> None:
    found = re.fullmatch(lazy_pattern(template._parts), text, re.DOTALL)

    pieces = cut(template._parts, text)

    assert (None if pieces is None else tuple(piece for _, piece in pieces)) == (found and found.groups())


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("a://{x}", {"x": ""}),
        ("a://{x}", {}),
        ("a://b{/x*}", {"x": []}),
        ("a://b{?x}", {"x": ["1", "2"]}),
        ("a://{+x}", {"x": "%41"}),
        ("a://{+x*}", {"x": ["1,2"]}),
        ("a://b{.x*}", {"x": ["1.2"]}),
        ("a://{x}-{y}", {"x": "1-2", "y": "3"}),
        ("a://b{/x,y}", {"y": "1"}),
        ("a://{+x}{?y}", {"x": "1?y=2"}),
    ],
)
def test_only_values_that_the_rules_exclude_are_not_read_back(template: str, values: Values) -> None:
    made = UriTemplate(template)
    expansion = made.expand(values)

    found = made.match(expansion)

    assert found != values
    assert found is None or made.expand(found) in {expansion, expansion.replace("%41", "A")}
