"""The content security policy of an app: nothing but what is declared, and nothing that is no origin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import Csp
from trio_mcp.wire import JsonObject

ORIGINS = [
    "https://api.example.com",
    "HTTP://example.com:8080",
    "wss://feed.example.com",
    "ws://localhost:*",
    "https://*.example.com",
    "cdn.example.com",
    "https://cdn.example.com/",
    "https://cdn.example.com/npm/lib@1".replace("@", "/"),
]
HOSTILE: list[Any] = [
    "",
    "*",
    "https://*",
    "*.com",
    "https:",
    "data:",
    "blob:",
    "javascript:alert(1)",
    "'unsafe-eval'",
    "'self'",
    "'none'",
    "https://a.example; script-src *",
    "https://a.example script-src",
    "https://a.example,https://b.example",
    "https://a.example\r\nSet-Cookie: x",
    "https://a.example\n",
    "https://user@a.example",
    "https://a.example?q",
    "https://a.example#f",
    "https://ä.example",
    "https://-a.example",
    "ftp://a.example",
    "https://" + "a." * 200 + "example",
    None,
    7,
    ["https://a.example"],
]


def directives(policy: str) -> dict[str, list[str]]:
    """Return the sources of a policy by directive, as a browser reads it."""
    return {name: sources for name, *sources in (each.split() for each in policy.split(";"))}


def test_without_a_declaration_a_page_has_what_it_holds_itself_and_nothing_else() -> None:
    assert directives(Csp().policy()) == {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-inline'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "media-src": ["'self'", "data:"],
        "font-src": ["'none'"],
        "connect-src": ["'none'"],
        "frame-src": ["'none'"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }


def test_each_list_of_origins_is_in_the_directives_that_it_is_for() -> None:
    csp = Csp(
        connect=["https://api.example"],
        resources=["https://cdn.example"],
        frames=["https://video.example"],
        base_uris=["https://base.example"],
    )

    policy = directives(csp.policy(frame_ancestors="http://127.0.0.1:8000"))

    holding = {
        origin: [name for name, sources in policy.items() if f"https://{origin}.example" in sources]
        for origin in ("api", "cdn", "video", "base")
    }
    assert holding == {
        "api": ["connect-src"],
        "cdn": ["script-src", "style-src", "img-src", "media-src", "font-src"],
        "video": ["frame-src"],
        "base": ["base-uri"],
    }
    assert policy["frame-ancestors"] == ["http://127.0.0.1:8000"]
    assert policy["font-src"] == ["'self'", "https://cdn.example"]


def test_only_an_origin_may_hold_the_page_in_a_frame() -> None:
    with pytest.raises(ValueError, match="frame_ancestors='https://a; script-src'"):
        Csp().policy(frame_ancestors="https://a; script-src")


@pytest.mark.parametrize("origin", ORIGINS)
def test_origins_are_accepted_from_the_program_and_from_a_server(origin: str) -> None:
    assert Csp.from_wire(Csp(connect=[origin]).to_wire()) == (Csp(connect=[origin]), [])


@pytest.mark.parametrize("entry", HOSTILE)
def test_what_is_no_origin_is_refused_in_a_program_and_left_out_of_a_declaration(entry: Any) -> None:
    with pytest.raises(ValueError, match=r"Csp\(resources=\).*is not an origin"):
        Csp(resources=[entry])
    csp, faults = Csp.from_wire({"resourceDomains": [entry, "https://good.example"]})

    assert csp == Csp(resources=["https://good.example"])
    assert len(faults) == 1
    assert faults[0].startswith("csp.resourceDomains: ")
    assert len(faults[0]) < 200


@given(st.lists(st.text() | st.sampled_from(ORIGINS)), st.lists(st.text(alphabet="aA1.*:/;'\" -\n")))
def test_no_declaration_changes_the_directives_of_a_policy(connect: list[str], resources: list[str]) -> None:
    csp, _ = Csp.from_wire({"connectDomains": connect, "resourceDomains": resources})
    least, policy = directives(Csp().policy()), directives(csp.policy())

    assert [*policy] == [*least]
    assert policy["object-src"] == policy["form-action"] == policy["frame-src"] == ["'none'"]
    keywords = {source for sources in policy.values() for source in sources if "'" in source or source.endswith(":")}
    assert keywords <= {"'none'", "'self'", "'unsafe-inline'", "data:"}


@pytest.mark.parametrize(
    ("declared", "faults"),
    [
        (None, []),
        ({}, []),
        ("https://a.example", ["csp: it is not an object"]),
        ({"connectDomains": None}, []),
        ({"connectDomains": "https://a.example"}, ["csp.connectDomains: it is not a list"]),
        ({"unknown": ["https://a.example"]}, []),
    ],
)
def test_a_declaration_of_another_form_grants_nothing(declared: Any, faults: list[str]) -> None:
    csp, found = Csp.from_wire(declared)

    assert csp == Csp()
    assert [*found] == faults


def test_a_list_has_a_bounded_length() -> None:
    many = [f"https://{number}.example" for number in range(101)]

    with pytest.raises(ValueError, match="101 origins; at most 100"):
        Csp(connect=many)
    csp, faults = Csp.from_wire({"connectDomains": many})

    assert csp == Csp(connect=many[:100])
    assert [*faults] == ["csp.connectDomains: only the first 100 of 101 origins are used"]


def test_a_single_string_is_no_list() -> None:
    with pytest.raises(TypeError, match=r"such as \['https://a.example'\]"):
        Csp(connect="https://a.example")


def test_a_policy_says_that_nothing_external_is_used() -> None:
    empty: JsonObject = {"connectDomains": [], "resourceDomains": []}

    assert Csp().to_wire() == empty
    assert Csp(frames=["https://a.example"]).to_wire() == {**empty, "frameDomains": ["https://a.example"]}
