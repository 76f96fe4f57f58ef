"""Unique names for the tools of many servers."""

from __future__ import annotations

import hashlib
import random
import re

from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.client._many import assign_names, qualified_name


def digest(server: str, tool: str, attempt: int = 0) -> str:
    return hashlib.sha256(f"{server}\0{tool}\0{attempt}".encode()).hexdigest()[:8]


def test_only_tool_names_of_several_servers_get_the_prefix_of_their_server() -> None:
    offers = [("weather", "get"), ("files", "get"), ("files", "read.all/now")]

    assert assign_names(offers, prefix="clashes") == {
        ("weather", "get"): "weather__get",
        ("files", "get"): "files__get",
        ("files", "read.all/now"): "read.all/now",
    }


def test_with_prefix_always_every_tool_name_gets_the_prefix_of_its_server() -> None:
    offers = [("weather", "get"), ("files", "read")]

    assert assign_names(offers, prefix="always") == {
        ("weather", "get"): "weather__get",
        ("files", "read"): "files__read",
    }


def test_invalid_characters_of_a_server_name_become_underscores() -> None:
    assert qualified_name(("my sérver/2.0-x", "get")) == "my_s_rver_2_0-x__get"


def test_a_name_that_is_too_long_ends_in_a_digest() -> None:
    server, tool = "s" * 30, "t" * 33

    assert qualified_name((server, "t" * 32)) == f"{server}__{'t' * 32}"
    assert qualified_name((server, tool)) == f"{server}__{'t' * 23}_{digest(server, tool)}"


def test_servers_with_the_same_sanitized_name_get_a_digest() -> None:
    offers = [("a b", "get"), ("a_b", "get"), ("a", "get")]

    assert assign_names(offers, prefix="clashes") == {
        ("a b", "get"): f"a_b__get_{digest('a b', 'get')}",
        ("a_b", "get"): f"a_b__get_{digest('a_b', 'get')}",
        ("a", "get"): "a__get",
    }


def test_a_tool_name_does_not_begin_with_the_prefix_of_another_server() -> None:
    offers = [("a", "get"), ("b", "get"), ("c", "a__get"), ("c", "d__put"), ("c", "c__put"), ("c", "e__put")]

    assert assign_names(offers, prefix="clashes", servers=["a", "b", "c", "d"]) == {
        ("a", "get"): "a__get",
        ("b", "get"): "b__get",
        ("c", "a__get"): "c__a__get",
        ("c", "d__put"): "c__d__put",  # though d has not connected
        ("c", "c__put"): "c__put",
        ("c", "e__put"): "e__put",
    }


def test_a_tool_name_is_never_the_shortened_name_of_a_tool_of_another_server() -> None:
    long_server = "n" * 60
    name = qualified_name((long_server, "get"))

    assert assign_names([(long_server, "get"), ("b", name)], prefix="clashes") == {
        (long_server, "get"): "get",
        ("b", name): qualified_name(("b", name)),
    }


def test_a_digest_that_is_already_a_name_is_replaced() -> None:
    taken = f"get_{digest('a b', 'get')}"
    offers = [("a b", "get"), ("a_b", "get"), ("a_b", taken)]

    names = assign_names(offers, prefix="always")

    assert names["a_b", taken] == f"a_b__{taken}"
    assert names["a b", "get"] == f"a_b__get_{digest('a b', 'get', 1)}"


SERVERS = st.text("ab _-é", max_size=70)
TOOLS = st.text("ab_.", min_size=1, max_size=70)


@given(
    st.sets(st.tuples(SERVERS, TOOLS), max_size=12),
    st.sampled_from(["clashes", "always"]),
    st.randoms(use_true_random=False),
)
def test_names_are_unique_and_do_not_depend_on_any_order(
    offers: set[tuple[str, str]], prefix: str, chance: random.Random
) -> None:
    assert prefix in {"clashes", "always"}
    names = assign_names(offers, prefix="always" if prefix == "always" else "clashes")
    shuffled = sorted(offers)
    chance.shuffle(shuffled)

    assert names.keys() == offers
    assert len(set(names.values())) == len(offers)
    assert assign_names(shuffled, prefix="always" if prefix == "always" else "clashes") == names
    for (server, tool), name in names.items():
        assert name == tool or (len(name) <= 64 and re.match(r"[A-Za-z0-9_-]*__", name)), (server, tool)
