"""Senders and the bounds that they share."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp._shares import SharedBound, sender_of


def test_a_principal_is_a_sender_whatever_its_address() -> None:
    assert sender_of("ann", "192.0.2.1") == sender_of("ann", "192.0.2.2") != sender_of("bob", "192.0.2.1")


@pytest.mark.parametrize("address", ["192.0.2.1", None, "a name", "2001:db8::1"])
def test_a_principal_is_never_the_same_sender_as_an_address(address: str | None) -> None:
    assert sender_of(address or "", None) != sender_of(None, address)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        (None, None, True),
        (None, "192.0.2.1", False),
        ("a name", "another name", False),
    ],
)
def test_addresses_of_one_ipv6_network_are_one_sender(one: str | None, other: str | None, is_same: bool) -> None:
    assert (sender_of(None, one) == sender_of(None, other)) is is_same


def test_a_sender_alone_may_use_the_whole_bound_and_is_refused_beyond_it() -> None:
    bound = SharedBound[int](3)
    for entry in range(3):
        assert bound.has_room()
        bound.add("a", entry)
    assert not bound.has_room()
    assert bound.oldest_to_give_way("a") is None
    assert (len(bound), bound.total, bound.senders) == (3, 3, 1)


def test_the_sender_with_the_most_entries_loses_its_oldest_one_to_a_newcomer() -> None:
    bound = SharedBound[int](4)
    bound.add("b", 0)
    for entry in (1, 2, 3):
        bound.add("a", entry)
    assert bound.who_gives_way("c") == "a"
    assert bound.oldest_to_give_way("c") == 1
    assert list(bound.entries_of("a")) == [1, 2, 3]
    assert list(bound.entries_of("c")) == []


def test_a_newcomer_that_would_use_as_much_is_refused() -> None:
    bound = SharedBound[int](4)
    for entry in range(4):
        bound.add("ab"[entry % 2], entry)
    assert bound.who_gives_way("a") is None
    assert bound.who_gives_way("c") == "a"
    assert bound.who_gives_way("c", 2) is None


def test_an_empty_bound_refuses_what_can_never_fit() -> None:
    bound = SharedBound[int](1)
    assert not bound.has_room(2)
    assert bound.who_gives_way("a", 2) is None


def test_a_removed_entry_may_be_removed_again() -> None:
    bound = SharedBound[int](2)
    bound.add("a", 1, 2)
    assert 1 in bound
    bound.remove(1)
    bound.remove(1)
    assert 1 not in bound
    assert (bound.total, bound.senders, bound.weight_of("a")) == (0, 0, 0)


Step = tuple[str, int, int]
steps = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 30), st.integers(-4, 6)), max_size=300)


@given(steps)
def test_weights_and_the_heaviest_sender_are_those_of_a_simple_count(taken: list[Step]) -> None:
    bound = SharedBound[tuple[str, int]](10)
    counts: dict[tuple[str, int], int] = {}
    for sender, number, change in taken:
        entry = (sender, number)
        if change > 0:
            bound.add(sender, entry, change)
            counts[entry] = counts.get(entry, 0) + change
        elif change == 0:
            bound.remove(entry)
            counts.pop(entry, None)
        elif counts.get(entry, 0) >= -change:
            bound.reduce(entry, -change)
            counts[entry] += change
            if not counts[entry]:
                del counts[entry]
        weights = Counter[str]()
        for (owner, _), weight in counts.items():
            weights[owner] += weight
        assert bound.total == weights.total()
        assert [bound.weight_of(each) for each in "abcd"] == [weights[each] for each in "abcd"]
        heaviest = bound.who_gives_way("newcomer", 0)
        assert (weights[str(heaviest)] if heaviest is not None else 0) == max(weights.values(), default=0)


def test_a_renewed_entry_is_the_newest_one_of_its_sender() -> None:
    bound = SharedBound[int](3)
    for entry in range(3):
        bound.add("a", entry)
    bound.renew(0)
    assert list(bound.entries_of("a")) == [1, 2, 0]
    assert bound.oldest_to_give_way("b") == 1
