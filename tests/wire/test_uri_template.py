"""URI templates: matching, expanding, and the templates that are refused."""

from __future__ import annotations

import re

import pytest

from trio_mcp.wire import UriTemplate

Values = dict[str, str | list[str]]


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("greeting://{name}", "greeting://Ada", {"name": "Ada"}),
        ("greeting://{name}", "greeting://", None),
        ("greeting://{name}", "greeting://a/b", None),
        ("greeting://{name}", "greeting://a?b", None),
        ("greeting://{name}", "greeting://a#b", None),
        ("greeting://{name}", "GREETING://Ada", None),
        ("greeting://{name}", "x greeting://Ada", None),
        ("greeting://{name}", "greeting://a%20b%C3%A9", {"name": "a bé"}),
        ("greeting://{name}", "greeting://a%2Fb", {"name": "a/b"}),
        ("greeting://{name}", "", None),
        ("n://{folder}/{name}.txt", "n://a/b.txt", {"folder": "a", "name": "b"}),
        ("n://{folder}/{name}.txt", "n://a/b.txt.txt", {"folder": "a", "name": "b.txt"}),
        ("n://{folder}/{name}.txt", "n://a/bxtxt", None),
        ("memo://insights", "memo://insights", {}),
        ("memo://insights", "memo://insights/", None),
        ("memo://insights", "memo://insight", None),
        ("", "", {}),
        ("a+b(c)*://{_x1}", "a+b(c)*://v", {"_x1": "v"}),
        ("{+uri}", "https://example.com/a?b#c", {"uri": "https://example.com/a?b#c"}),
    ],
)
def test_a_uri_matches_a_template_or_does_not(template: str, uri: str, values: Values | None) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("a://{x,y}", "a://1,2", {"x": "1", "y": "2"}),
        ("a://{x,y}", "a://1", None),
        ("a://{x,y}", "a://1,", None),
        ("a://{x,y}", "a://1,2,3", None),
        ("a://{x*}", "a://1,2", {"x": ["1", "2"]}),
        ("a://{x*}", "a://1", {"x": ["1"]}),
        ("a://{x*}", "a://1,,2", {"x": ["1", "", "2"]}),
        ("a://{x,y*}", "a://1,2,3", {"x": "1", "y": ["2", "3"]}),
        ("a://{x,y*}", "a://1", None),
        ("a://{+x}", "a://b/c,d", {"x": "b/c,d"}),
        ("a://{+x,y}", "a://b/c,d,e", {"x": "b/c", "y": "d,e"}),
        ("a://{+x*}", "a://b/c,d", {"x": ["b/c", "d"]}),
        ("a://b{#x}", "a://b", {}),
        ("a://b{#x}", "a://b#", {"x": ""}),
        ("a://b{#x}", "a://b#c/d", {"x": "c/d"}),
        ("a://b{#x,y}", "a://b#c,d", {"x": "c", "y": "d"}),
        ("a://b{.x}", "a://b", {}),
        ("a://b{.x}", "a://b.tar.gz", {"x": "tar.gz"}),
        ("a://b{.x,y}", "a://b.tar.gz", {"x": "tar", "y": "gz"}),
        ("a://b{.x*}", "a://b.tar.gz", {"x": ["tar", "gz"]}),
        ("a://b{/x}", "a://b", {}),
        ("a://b{/x}", "a://b/", {"x": ""}),
        ("a://b{/x}", "a://b/c/d", None),
        ("a://b{/x,y}", "a://b/c", {"x": "c"}),
        ("a://b{/x,y}", "a://b/c/d", {"x": "c", "y": "d"}),
        ("a://b{/x,y}", "a://b/c/d/e", None),
        ("a://b{/x*}", "a://b", {}),
        ("a://b{/x*}", "a://b/c/d%2Fe/", {"x": ["c", "d/e", ""]}),
        ("a://b{/x,y*}", "a://b/c", {"x": "c"}),
        ("a://b{/x,y*}", "a://b/c/d/e", {"x": "c", "y": ["d", "e"]}),
        ("a://b{;x,y}", "a://b;x=1;y=2", {"x": "1", "y": "2"}),
        ("a://b{;x,y}", "a://b;x;y=2", {"x": "", "y": "2"}),
        ("a://b{;x}", "a://b;x=", None),
        ("a://b{;x*}", "a://b;x=1;x;x=2", {"x": ["1", "", "2"]}),
        ("a://b?c=d{&x}", "a://b?c=d&x=1", {"x": "1"}),
        ("a://b?c=d{&x}", "a://b?c=d", {}),
    ],
)
def test_every_operator_reads_what_it_writes(template: str, uri: str, values: Values | None) -> None:
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("uri", "values"),
    [
        ("search://notes", {}),
        ("search://notes?q=tea", {"q": "tea"}),
        ("search://notes?limit=3", {"limit": "3"}),
        ("search://notes?q=a%26b%3Dc%20d&limit=3", {"q": "a&b=c d", "limit": "3"}),
        ("search://notes?tag=a&tag=b", {"tag": ["a", "b"]}),
        ("search://notes?q=&tag=", {"q": "", "tag": [""]}),
        ("search://notes?q=a+b", None),  # a form would mean "a b", RFC 6570 writes %20, and %2B for a plus
        ("search://notes?q", None),
        ("search://notes?", None),
        ("search://notes?q=a&", None),
        ("search://notes?&q=a", None),
        ("search://notes?q=a=b", None),
        ("search://notes?limit=3&q=tea", None),  # the order must be that of the template
        ("search://notes?q=a&q=b", None),
        ("search://notes?tag=a&limit=3&tag=b", None),
        ("search://notes?q=tea&page=2", None),
        ("search://notes?Q=tea", None),
    ],
)
def test_a_query_may_omit_variables_but_not_reorder_or_add_them(uri: str, values: Values | None) -> None:
    assert UriTemplate("search://notes{?q,limit,tag*}").match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("log://{year}-{month}/{name}.{kind}", "log://2026-11-20/a.tar.gz", "2026 11-20 a tar.gz"),
        ("a://{x}{.y}", "a://b.tar.gz", "b tar.gz"),
        ("a://{x}--{y}", "a://1---2", "1 -2"),
        ("a://{x}-{y}", "a://-1-2", "-1 2"),
        ("a://{+x}/{y}", "a://1/2/3", "1/2 3"),
        ("a://{+x}/{y}.{z}", "a://1.0/2.tar.gz", "1.0 2 tar.gz"),
        ("a://{+x}/-/{+y}", "a://1/2/-/3/-/4", "1/2 3/-/4"),
        ("a://{+x}{?y}", "a://1/2?y=3", "1/2 3"),
        ("a://{+x}{#y}", "a://1/2#3?4#5", "1/2 3?4#5"),
        ("a://{+x}/raw{?y}", "a://raw/raw?y=1", "raw 1"),
        ("a://b{/x}/{y}", "a://b/1/2", "1 2"),
        ("a://b{/x}/{y}", "a://b/1", "1"),
        ("a://b{/x}/edit", "a://b/edit/edit", "edit"),
        ("a://b{/x*}{.y}", "a://b/1/2.3", "['1', '2'] 3"),
        ("a://b{.x}.json{?y}", "a://b.1.json?y=.json", "1 .json"),
        ("a://b{.x}/.{y}", "a://b.1/.2", "1 2"),
        ("a://b{.x}./{y}", "a://b.1./2", "1 2"),
        ("a://{x,y},{z}", "a://1,2,3", "1 2 3"),
        ("a://b{;x}/{y}", "a://b;x=1/2", "1 2"),
        ("a://b{?x,y}&z={z}", "a://b?x=1&y=2&z=3", "1 2 3"),
        ("a://{x}2F{y}", "a://%2F2F2F", "/ 2F"),
        ("a://{x}%2F{y}", "a://1%2F2%2f3", "1 2/3"),
        ("a://{x}ö{y}", "a://%C3%B6%C3%B6%C3%B6", "ö ö"),
    ],
)
def test_a_variable_ends_where_the_rest_first_fits(template: str, uri: str, values: str) -> None:
    found = UriTemplate(template).match(uri)

    assert found is not None
    assert " ".join(map(str, found.values())) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a://{+x}{?q}", "a://b?c"),
        ("a://{+x}?raw={y}", "a://b?c?raw=1"),
        ("a://{+x}{#y}{?q}", "a://b#c?d"),
        ("a://{x}{/y}", "a://b/c/d"),
        ("a://{/x}/{y}{?q}", "a:///1/2/3"),
        ("a://{x}{.y}/c", "a://.y/c"),
    ],
)
def test_a_uri_that_cannot_be_expanded_from_any_values_does_not_match(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize(
    "uri",
    [
        "a://Jörg%20~%2B",
        "a://J%C3%B6rg%20~%2B",
        "a://J%c3%b6rg%20%7e%2b",
        "a://%4A%C3%B6%72g%20~%2B",
    ],
)
def test_equivalent_spellings_of_characters_match_the_same_template(uri: str) -> None:
    assert UriTemplate("a://{x}").match(uri) == {"x": "Jörg ~+"}
    assert UriTemplate("a://Jörg%20%7e%2b").match(uri) == {}
    assert UriTemplate("a://J%c3%b6%72g{x}").match(uri) == {"x": " ~+"}


@pytest.mark.parametrize(
    "uri",
    [
        "a://%",
        "a://%4",
        "a://%zz",
        "a://%%41",
        "a://%+1",
        "a://%\uff11\uff11",
        "a://%FF",  # UTF-8 cannot begin like this
        "a://%C3",
        "a://%C3%28",
        "a://%C3ö",
        "a://%C0%AF",  # an overlong encoding
        "a://%E0%80%AF",
        "a://%ED%A0%80",  # a surrogate
        "a://%F5%80%80%80",  # beyond Unicode
        "a://\ud800",
        "a://b c",
        "a://b\n",
        "a://b\x00",
        "a://b\x7f",
        "a://b\\c",
        'a://b"',
        "a://<b>",
        "a://{x}",
        "a://b|c^d`",
    ],
)
def test_characters_that_no_uri_contains_do_not_match(uri: str) -> None:
    assert UriTemplate("a://{x}").match(uri) is None
    assert UriTemplate("a://{+x}").match(uri) is None


@pytest.mark.parametrize(
    ("uri", "value"),
    [
        ("a://100%25", "100%"),
        ("a://%252e", "%2e"),
        ("a://%25252e", "%252e"),
        ("a://%2541", "%41"),
    ],
)
def test_values_are_decoded_once(uri: str, value: str) -> None:
    assert UriTemplate("a://{x}").match(uri) == {"x": value}


def test_reserved_expansion_does_not_match_unnecessarily_encoded_characters() -> None:
    template = UriTemplate("a://{+x}")

    assert template.match("a://b%20c") == {"x": "b c"}
    assert template.match("a://b/c") == {"x": "b/c"}
    assert template.match("a://b%2Fc") is None
    assert template.match("a://100%25") == {"x": "100%"}
    assert template.match("a://%2541") is None  # expansion would have left "%41" unchanged


def test_a_template_lists_its_variables_by_name_and_kind() -> None:
    template = UriTemplate("n://{folder}{/path*}{?q,tag*}{#at}")

    assert template.template == "n://{folder}{/path*}{?q,tag*}{#at}"
    assert template.variables == ("folder", "path", "q", "tag", "at")
    assert template.exploded == {"path", "tag"}
    assert template.optional == {"path", "q", "tag", "at"}


def test_a_plain_uri_has_no_variables() -> None:
    template = UriTemplate("memo://insights")

    assert (template.variables, template.exploded, template.optional) == ((), frozenset(), frozenset())


def test_variable_names_follow_the_specification() -> None:
    template = UriTemplate("a://{1_x.y}{?%C3%B6,Z}")

    assert template.variables == ("1_x.y", "%C3%B6", "Z")
    assert template.expand({"1_x.y": "1", "%C3%B6": "2", "Z": "3"}) == "a://1?%C3%B6=2&Z=3"
    assert template.match("a://1?ö=2&Z=3") == {"1_x.y": "1", "%C3%B6": "2", "Z": "3"}


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "no variable is named"),
        ("+", "no variable is named"),
        ("=x", "RFC 6570 gives the operator '=' no meaning"),
        (",x", "RFC 6570 gives the operator ',' no meaning"),
        ("!x", "RFC 6570 gives the operator '!' no meaning"),
        ("@x", "RFC 6570 gives the operator '@' no meaning"),
        ("|x", "RFC 6570 gives the operator '|' no meaning"),
        ("x:3", "'x:3' asks for a prefix of the value, which is level 4"),
        ("?a,x:30", "'x:30' asks for a prefix of the value, which is level 4"),
        ("x:3*", "'x:3*' is not a variable"),
        ("x,", "'' is not a variable"),
        ("a, b", "' b' is not a variable"),
        ("a-b", "'a-b' is not a variable"),
        ("ö", "'ö' is not a variable"),
        ("%FF", "'%FF' is not a variable"),
        ("x**", "'x**' is not a variable"),
        ("*x", "'*x' is not a variable"),
        (".x.", "'x.' is not a variable"),
        ("x..y", "'x..y' is not a variable"),
        ("??x", "'?x' is not a variable"),
        ("x\n", "'x\\n' is not a variable"),
        ("a*,b", "where a list with '*' ends is open"),
        ("/a*,b*", "where a list with '*' ends is open"),
    ],
)
def test_an_invalid_expression_is_refused_by_name(expression: str, reason: str) -> None:
    name = repr(f"{{{expression}}}")[1:-1]  # on one line

    with pytest.raises(ValueError, match=re.escape(f"{name} in 'x://{name}': {reason}")):
        UriTemplate(f"x://{{{expression}}}")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "x://{a}{b}",
            "{a} in 'x://{a}{b}': another variable follows with nothing between them, {b}: put text between",
        ),
        ("x://{+a}{+b}", "{+a} in 'x://{+a}{+b}': another variable follows with nothing between them, {+b}"),
        ("x://{/a*}{b}", "{/a*} in 'x://{/a*}{b}': another variable follows with nothing between them, {b}"),
        (
            "x://{/a}{/b}",
            "{/a} in 'x://{/a}{/b}': which of the two a value is for is open when {/b} follows: write {/a,b}",
        ),
        ("x://{?a}{&b,c}", "when {&b,c} follows: write {?a,b,c}"),
        ("x://{.a}{/b}{.c}", "when {.c} follows: write {.a,c}"),
        ("x://{+a}{/b}", "{+a} in 'x://{+a}{/b}': it may hold the '/' that {/b} after it begins with"),
        ("x://{+a}{.b}", "it may hold the '.' that {.b} after it begins with"),
        ("x://{#a}{&b}", "it may hold the '&' that {&b} after it begins with"),
        ("x://{;a.b}{.c}", "it may hold the '.' that {.c} after it begins with"),
        ("x://{;a}a{+b}", "{;a} in 'x://{;a}a{+b}': a name or value may go on as 'a' after it: put text between"),
        ("x://{?a}={+b}", "a name or value may go on as '=' after it"),
        ("x://{/a}/{+b}", "{/a} in 'x://{/a}/{+b}': the '/' after it may be its own, or begin {+b}: put other text"),
        ("x://{.a}.{b}", "the '.' after it may be its own, or begin {b}"),
        ("x://{/a}{?c}/{b}{/d}", "the '/' after it may be its own, or begin {/d}"),
        ("x://{/a}/b{/d}", "the '/' after it may be its own, or begin {/d}"),
        ("x://{a,b},{+c}", "the ',' after it may be its own, or begin {+c}"),
        ("x://{a*},{b*}", "the ',' after it may be its own, or begin {b*}"),
        ("x://{?a,b}&b={+c}", "the '&' after it may be its own, or begin {+c}"),
    ],
)
def test_an_ambiguous_template_is_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        UriTemplate(template)


def test_a_variable_that_appears_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\{a\} appears twice in 'x://\{a\}/\{\?a\}'"):
        UriTemplate("x://{a}/{?a}")


@pytest.mark.parametrize("template", ["a://{x", "a://x}", "a://{{x}}", "a://{x}}", "{"])
def test_an_unbalanced_brace_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{template!r}: an unbalanced brace")):
        UriTemplate(template)


@pytest.mark.parametrize("text", ["a b", "a%", "%4", "%FF", "a\\b", "\x00", '"', "<", "\ud800"])
def test_characters_that_no_uri_contains_are_refused_in_a_template(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of a URI: percent-encode it, as UTF-8"):
        UriTemplate(f"{text}{{x}}")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "x: expected a string or a list of strings, got int"),
        (None, "x: expected a string or a list of strings, got NoneType"),
        (b"a", "x: expected a string or a list of strings, got int"),
        (["a", 1], "x: expected a string or a list of strings, got int"),
        ({"a": "b"}, "x: expected a string or a list of strings, got dict"),
    ],
)
def test_only_strings_and_lists_of_strings_can_be_expanded(value: object, message: str) -> None:
    values: dict[str, str] = {"x": value}  # type: ignore[dict-item]  # the test passes wrong types # pyright: ignore[reportAssignmentType]

    with pytest.raises(TypeError, match=re.escape(message)):
        UriTemplate("a://{x}").expand(values)


@pytest.mark.parametrize("template", ["a://{x}", "a://{+x}", "a://{x*}"])
def test_a_lone_surrogate_cannot_be_expanded(template: str) -> None:
    with pytest.raises(ValueError, match=r"x: 'a\\ud800' holds a lone surrogate, which a URI cannot hold"):
        UriTemplate(template).expand({"x": "a\ud800"})


LENGTH = 65_536


@pytest.mark.parametrize(
    ("template", "repeated"),
    [
        ("{a}-{b}-{c}-{d}-{e}", "-"),
        ("{a}-{b}-{c}-{d}-{e}", "a-"),
        ("{+a}/{+b}/{+c}/{+d}/x{e}", "/"),
        ("{+a}-x-{b}/{c}{/d*}{?e*}{#f}", "-x-/?e=#"),
        ("{a}aab{b}aab{c}", "a"),
        ("{a*}x{b*}x{c*}", "x,"),
        ("x{/a*}/{b}/y{?c*}", "/"),
        ("x{.a*}{/b*}{;c*}", "./;c="),
        ("x{?a*,b*,c*}", "&a=&b=&c="),
        ("x{;a*}", ";"),
        ("{a}%20{b}%20{c}", "%20"),
        ("{a}ö{b}ö{c}", "ö"),
        ("{+a}", "%25"),
        ("{+a}", "%C3"),
        ("{+a}", "%"),
    ],
)
def test_a_long_uri_is_matched_in_reasonable_time(template: str, repeated: str) -> None:
    """A matcher that backtracks takes extremely long for some of these."""
    for end in ("", "#", "/z"):
        for start in ("", "x"):
            UriTemplate(template).match((start + repeated * LENGTH)[: LENGTH - len(end)] + end)


def test_the_internal_spelling_of_encoded_characters_does_not_match() -> None:
    assert UriTemplate("a://{x}").match("a://\udc2f") is None


def test_a_uri_beyond_the_limit_does_not_match() -> None:
    template = UriTemplate("{x}")

    assert template.match("a" * LENGTH) == {"x": "a" * LENGTH}
    assert template.match("a" * (LENGTH + 1)) is None
