"""Templates with plain variables."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import UriTemplate


@pytest.mark.requirement("B.21-S5b")
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
        ("greeting://{name}", "greeting://Ada\n", {"name": "Ada\n"}),
        ("greeting://{name}", "greeting://a%20b%C3%A9", {"name": "a bé"}),
        ("greeting://{name}", "greeting://a%2Fb", {"name": "a/b"}),
        ("n://{folder}/{name}.txt", "n://a/b.txt", {"folder": "a", "name": "b"}),
        ("n://{folder}/{name}.txt", "n://a/bxtxt", None),
        ("memo://insights", "memo://insights", {}),
        ("memo://insights", "memo://insights/", None),
        ("a+b(c)*://{_x1}", "a+b(c)*://v", {"_x1": "v"}),
    ],
)
def test_a_uri_fits_a_template_or_does_not(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).match(uri) == values


def test_variables_are_named_in_order() -> None:
    assert UriTemplate("n://{folder}/{name}").variables == ("folder", "name")
    assert UriTemplate("memo://insights").variables == ()


@pytest.mark.parametrize("expression", ["", "+path", "#f", "a,b", "a*", "a:3", "1a", "a-b", "?q"])
def test_other_expressions_are_refused_by_name(expression: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{{{expression}}} in 'x://{{{expression}}}'")):
        UriTemplate(f"x://{{{expression}}}")


def test_a_variable_may_appear_once() -> None:
    with pytest.raises(ValueError, match=r"\{a\} appears twice in 'x://\{a\}/\{a\}'"):
        UriTemplate("x://{a}/{a}")


@given(st.lists(st.text(min_size=1).filter(lambda text: text.isprintable()), min_size=2, max_size=2))
def test_any_value_comes_back_from_its_percent_encoding(values: list[str]) -> None:
    first, second = values

    found = UriTemplate("x://{a}/y/{b}").match(f"x://{quote(first, safe='')}/y/{quote(second, safe='')}")

    assert found == {"a": first, "b": second}


@pytest.mark.parametrize("template", ["a://{x", "a://x}", "a://{{x}}"])
def test_a_brace_without_its_partner_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"brace without its partner|only plain variables"):
        UriTemplate(template)


def test_variables_that_touch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\{a\} in 'x://\{a\}\{b\}': another variable follows with nothing between"):
        UriTemplate("x://{a}{b}")


def test_a_variable_ends_at_the_text_before_the_next_one_so_that_a_uri_has_one_reading() -> None:
    template = UriTemplate("log://{year}-{month}/{name}.{kind}")

    assert template.match("log://2026-11-20/a.tar.gz") == {
        "year": "2026",
        "month": "11-20",
        "name": "a",
        "kind": "tar.gz",
    }
    assert template.match("log://" + "-" * 100_000) is None
