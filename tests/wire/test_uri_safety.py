"""Attacks through URIs, which the template or the check of the values refuses, and ordinary URIs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trio_mcp.wire import UriTemplate, escapes

NAME = "files://{name}"
PATH = "files:///{+path}"
SEGMENTS = "files://root{/path*}"
QUERY = "files://root{?name}"

Values = dict[str, str | list[str]]


def read(template: str, uri: str) -> Values | None:
    """Return the values that a server passes to the function of a template, or None if it refuses the URI."""
    values = UriTemplate(template).match(uri)
    return None if values is None or any(map(escapes, values.values())) else values


NO_MATCH = [
    (NAME, "files://../etc/passwd"),
    (NAME, "files://%2e%2e/etc/passwd"),
    (NAME, "files://..\\..\\windows\\win.ini"),
    (NAME, "files:///etc/passwd"),
    (NAME, "files://"),
    (NAME, "files://name\x00.txt"),
    (NAME, "files://name\n"),
    (NAME, "files://%c0%ae%c0%ae%c0%afetc"),  # overlong dots and slash
    (NAME, "files://%e0%80%ae%e0%80%ae"),
    (NAME, "files://%f0%80%80%ae"),
    (NAME, "files://..%c1%9cetc"),
    (NAME, "files://%ed%a0%ae"),  # half a surrogate pair
    (NAME, "files://%u002e%u002e"),
    (NAME, "files://%2"),
    (NAME, "files://%2g%2g"),
    (NAME, "files://name?x=../.."),
    (NAME, "files://name#../.."),
    (NAME, "files://\udc2e\udc2e"),  # the internal spelling of encoded characters
    (PATH, "files:///..%2f..%2fetc/passwd"),
    (PATH, "files:///%252e%252e/etc/passwd"),
    (PATH, "files:///..%c0%af..%c0%afetc/passwd"),
    (PATH, "files:///a/..\\..\\secret"),
    (PATH, "file:///etc/passwd"),
    (SEGMENTS, "files://root/a?/../.."),
    (SEGMENTS, "files://rooted/a"),
    (SEGMENTS, "files://root/%c0%ae%c0%ae/etc"),
]

ESCAPES = [
    (NAME, "files://.."),
    (NAME, "files://%2e%2e"),
    (NAME, "files://.%2E"),
    (NAME, "files://..%2fetc%2fpasswd"),
    (NAME, "files://..%5c..%5cwindows%5cwin.ini"),
    (NAME, "files://a%2F..%2F..%2Fb"),
    (NAME, "files://a%5C..%2F..%5Cb"),
    (NAME, "files://%2Fetc%2Fpasswd"),
    (NAME, "files://%5Cwindows"),
    (NAME, "files://%5C%5Cserver%5Cshare"),
    (NAME, "files://%2F%2Fserver%2Fshare"),
    (NAME, "files://%5C%5C%3F%5CC%3A%5Cwindows"),
    (NAME, "files://C%3A%5Cwindows"),
    (NAME, "files://c%3Awin.ini"),
    (NAME, "files://file%3A%2F%2F%2Fetc%2Fpasswd"),
    (NAME, "files://FILE%3Aetc"),
    (NAME, "files://http%3A%2F%2Fexample.com"),
    (NAME, "files://jar%3Afile%3A%2Fetc%21%2Fx"),
    (NAME, "files://%20file%3A%2F%2Fetc"),
    (NAME, "files://name%00.txt"),
    (NAME, "files://name%0d%0aX"),
    (NAME, "files://%7F"),
    (NAME, "files://%C2%85"),
    (NAME, "files://%252e%252e%252f%252e%252e%252fetc"),
    (NAME, "files://%25252e%25252e%25252fetc"),
    (NAME, "files://%252525252525252e"),
    (NAME, "files://..%252fetc"),
    (NAME, "files://..%255cetc"),
    (NAME, "files://%252fetc"),
    (NAME, "files://name%2500.txt"),
    (NAME, "files://%25c0%25ae%25c0%25ae%25c0%25afetc"),
    (NAME, "files://..%25e0%2580%25afetc"),
    (NAME, "files://..%25f0%2580%2580%25afetc"),
    (NAME, "files://..%25c1%259cetc"),
    (NAME, "files://%25u002e%25u002e%25u002fetc"),
    (NAME, "files://%EF%BC%8E%EF%BC%8E%EF%BC%8Fetc"),  # fullwidth dots and slash, which NFKC turns into ../
    (NAME, "files://\uff0e\uff0e\uff0fetc"),
    (NAME, "files://‥%2Fetc"),  # two dot leader
    (NAME, "files://\u2024\u2024"),  # two one dot leaders
    (NAME, "files://..\uff3cetc"),
    (NAME, "files://\uff052e\uff052e\uff0fetc"),
    (NAME, "files://%EF%BC%852e%252e"),
    (NAME, "files://%25EF%25BC%258E%25EF%25BC%258E"),
    (NAME, "files://\uff23\uff1a\uff3cwindows"),
    (NAME, "files://.%20."),
    (NAME, "files://..%20"),
    (NAME, "files://%20.."),
    (NAME, "files://..."),
    (NAME, "files://%20"),
    (NAME, "files://%C2%A0"),
    (NAME, "files://."),
    (NAME, "files://..%3Bx%2F..%3Bx"),
    (NAME, "files://..%3A%3A%24INDEX_ALLOCATION%2Fx"),
    (PATH, "files:///../etc/passwd"),
    (PATH, "files:///a/../../etc/passwd"),
    (PATH, "files:///%2E%2E/etc/passwd"),
    (PATH, "files:////etc/passwd"),
    (PATH, "files://///server/share"),
    (PATH, "files:///a/..;/b"),
    (PATH, "files:///a/.%20./b"),
    (PATH, "files:///C:/windows/win.ini"),
    (PATH, "files:///a/C:/windows"),
    (NAME, "files://1%3Ax"),
    (NAME, "files://%C3%A9%3Ax"),
    (PATH, "files:///::x"),
    (PATH, "files:///file:///etc/passwd"),
    (PATH, "files:///a%5C..%5C..%5Cb"),
    (PATH, "files:///a/b/.."),
    (PATH, "files:///a/%2e%2e%5c.."),
    (PATH, "files:///a/%00"),
    (PATH, "files:///\uff0e\uff0e/etc"),
    (SEGMENTS, "files://root/../etc"),
    (SEGMENTS, "files://root/a/%2e%2e/b"),
    (SEGMENTS, "files://root/a%2fb"),
    (SEGMENTS, "files://root/a%5cb"),
    (SEGMENTS, "files://root/..%2f..%2fetc"),
    (SEGMENTS, "files://root/a%252fb"),
    (SEGMENTS, "files://root/a\uff0fb"),
    (SEGMENTS, "files://root//etc/passwd"),
    (SEGMENTS, "files://root/a//b"),
    (SEGMENTS, "files://root//"),
    (SEGMENTS, "files://root/C%3A/windows"),
    (SEGMENTS, "files://root/a/%00"),
    (SEGMENTS, "files://root/a/%20/b"),
    (QUERY, "files://root?name=..%2Fsecret"),
    (QUERY, "files://root?name=%252e%252e"),
]


@pytest.mark.parametrize(("template", "uri"), NO_MATCH)
def test_an_attack_that_no_expansion_can_produce_does_not_match(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is None
    assert read(template, uri) is None


@pytest.mark.parametrize(("template", "uri"), ESCAPES)
def test_an_attack_that_matches_the_template_is_refused_for_its_value(template: str, uri: str) -> None:
    assert UriTemplate(template).match(uri) is not None
    assert read(template, uri) is None


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        (NAME, "files://readme.txt", {"name": "readme.txt"}),
        (NAME, "files://C", {"name": "C"}),
        (NAME, "files://a..b", {"name": "a..b"}),
        (NAME, "files://...x", {"name": "...x"}),
        (NAME, "files://x..", {"name": "x.."}),
        (NAME, "files://.gitignore", {"name": ".gitignore"}),
        (NAME, "files://v1.2", {"name": "v1.2"}),
        (NAME, "files://100%25", {"name": "100%"}),
        (NAME, "files://100%2525", {"name": "100%25"}),
        (NAME, "files://100%25accurate", {"name": "100%accurate"}),
        (NAME, "files://J%C3%B6rg", {"name": "Jörg"}),
        (NAME, "files://Jörg%20Müller", {"name": "Jörg Müller"}),
        (NAME, "files://日本語", {"name": "日本語"}),
        (NAME, "files://wait…", {"name": "wait…"}),
        (NAME, "files://½", {"name": "½"}),
        (NAME, "files://%F0%9F%91%A9%E2%80%8D%F0%9F%9A%80", {"name": "👩\u200d🚀"}),
        (NAME, "files://12%3A30", {"name": "12:30"}),
        (NAME, "files://note%3A%20tea", {"name": "note: tea"}),
        (NAME, "files://profile%3Ax", {"name": "profile:x"}),
        (NAME, "files://a%3Bb", {"name": "a;b"}),
        (NAME, "files://a%2Fb", {"name": "a/b"}),
        (NAME, "files://~", {"name": "~"}),
        (NAME, "files://1%20%2F%202", {"name": "1 / 2"}),
        (PATH, "files:///a/b", {"path": "a/b"}),
        (PATH, "files:///a/b/", {"path": "a/b/"}),
        (PATH, "files:///a//b", {"path": "a//b"}),
        (PATH, "files:///a.b/c..d/...e", {"path": "a.b/c..d/...e"}),
        (PATH, "files:///src/%C3%B6/x%20y.txt", {"path": "src/ö/x y.txt"}),
        (SEGMENTS, "files://root", {}),
        (SEGMENTS, "files://root/", {"path": [""]}),
        (SEGMENTS, "files://root/a", {"path": ["a"]}),
        (SEGMENTS, "files://root/a/b/", {"path": ["a", "b", ""]}),
        (SEGMENTS, "files://root/a..b/100%25", {"path": ["a..b", "100%"]}),
        (QUERY, "files://root", {}),
        (QUERY, "files://root?name=", {"name": ""}),
        (QUERY, "files://root?name=what%3F", {"name": "what?"}),
    ],
)
def test_an_ordinary_uri_is_read(template: str, uri: str, values: Values) -> None:
    assert read(template, uri) == values


@pytest.mark.parametrize("value", ["", "a", "a/b", "a\\b", "a/", [], [""], ["a"], ["a", "b"], ["a", ""]])
def test_relative_paths_and_lists_of_segments_do_not_escape(value: str | list[str]) -> None:
    assert not escapes(value)


@pytest.mark.parametrize("value", ["/", "\\", "a/..", ["a/b"], ["a/"], ["/"], ["", "a"], ["a", "", "b"], ["a", ".."]])
def test_absolute_paths_parent_paths_and_segments_with_slashes_escape(value: str | list[str]) -> None:
    assert escapes(value)


def test_a_value_that_is_encoded_more_than_three_times_escapes() -> None:
    assert not escapes("%252541")
    assert escapes("%25252541")


@settings(deadline=None)
@given(st.text("./\\%25ef:;C \u2024\uff0e\x00a", max_size=12), st.integers(1, 8))
def test_repeated_encoding_never_hides_an_escaping_value(value: str, times: int) -> None:
    encoded = value
    for _ in range(times):
        encoded = "".join(f"%{octet:02x}" for octet in encoded.encode())

    assert escapes(encoded) or not escapes(value)


@settings(deadline=None)
@given(st.text())
def test_any_string_can_be_checked_or_matched(value: str) -> None:
    assert escapes(value) in {True, False}
    assert escapes([value]) or not escapes(value)


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("a" * 300_000, False),
        ("a/" * 300_000, False),
        ("ab:" * 300_000, False),
        ("%41" * 300_000, False),
        ("%" * 300_000, False),
        ("\u0315\u0300" * 300_000, False),  # normalising the whole string takes extremely long
        ("%" + "25" * 300_000, True),
        (" ." * 300_000, True),
    ],
    ids=lambda value: str(value)[:10],
)
def test_a_long_value_is_checked_in_reasonable_time(value: str, refused: bool) -> None:
    assert escapes(value) is refused
