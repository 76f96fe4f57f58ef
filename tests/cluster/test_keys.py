"""The keys of a service: what a process signs, and the ids and request states that name the process that made them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.cluster._keys import ClusterKeys, OwnerNames

OLD, NEW, OTHER = b"old" * 12, b"new" * 12, b"other" * 8
ANY_TEXT = st.text(st.characters(), max_size=20)
"""Also text with lone surrogates, which UTF-8 does not have."""


@given(parts=st.lists(ANY_TEXT, max_size=4))
def test_what_was_signed_is_verified_whatever_characters_it_has(parts: list[str]) -> None:
    keys = ClusterKeys([NEW])

    code = keys.sign("purpose", *parts)

    assert re.fullmatch("[0-9a-f]{64}", code)
    assert keys.verify(code, "purpose", *parts)
    assert not keys.verify(code, "another purpose", *parts)
    assert not ClusterKeys([OTHER]).verify(code, "purpose", *parts)


@given(one=st.lists(ANY_TEXT, max_size=4), two=st.lists(ANY_TEXT, max_size=4))
def test_a_signature_is_for_its_own_parts_and_no_others(one: list[str], two: list[str]) -> None:
    keys = ClusterKeys([NEW])

    assert keys.verify(keys.sign("purpose", *one), "purpose", *two) == (one == two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["a", "b"], ["a\0b"]),
        (["a", "b"], ["ab"]),
        (["a\0", "b"], ["a", "\0b"]),
        (["1:a"], ["a"]),
        ([], [""]),
        (["\ud83d\ude00"], ["\U0001f600"]),
    ],
)
def test_parts_that_are_divided_in_another_way_are_other_parts(one: list[str], two: list[str]) -> None:
    keys = ClusterKeys([NEW])

    assert not keys.verify(keys.sign("purpose", *one), "purpose", *two)
    assert not keys.verify(keys.sign("purpose", *two), "purpose", *one)


@pytest.mark.parametrize("code", [None, 5, b"", [], {}, "", "x", "0" * 64, "\ud800", "é" * 64, "0" * 100_000])
def test_garbage_is_no_signature(code: object) -> None:
    assert not ClusterKeys([NEW]).verify(code, "purpose", "part")


def test_all_keys_verify_and_the_first_one_signs() -> None:
    keys = ClusterKeys([OLD])
    before = keys.sign("purpose", "part")

    keys.replace([NEW, OLD])

    assert keys.sign("purpose", "part") == ClusterKeys([NEW]).sign("purpose", "part") != before
    assert keys.verify(before, "purpose", "part")
    assert keys.verify(keys.sign("purpose", "part"), "purpose", "part")


def test_a_sealed_value_is_opened_with_every_key_under_its_name_only() -> None:
    keys = ClusterKeys([OLD])
    before = keys.seal("name", b"data")
    keys.replace([NEW, OLD])
    after = keys.seal("name", b"data")

    assert keys.open("name", before) == keys.open("name", after) == b"data"
    assert ClusterKeys([NEW]).open("name", after) == b"data"
    assert ClusterKeys([NEW]).open("name", before) is None
    assert keys.open("other name", after) is None
    assert keys.seal("name", b"data") != after
    assert b"data" not in after


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(12), bytes(100)])
def test_garbage_is_no_sealed_value(sealed: bytes) -> None:
    assert ClusterKeys([NEW]).open("name", sealed) is None


def test_keys_are_not_shown() -> None:
    assert "old" not in repr(ClusterKeys([OLD]))


def names_of(node: str, keys: Sequence[bytes] = (NEW,)) -> OwnerNames:
    return OwnerNames(ClusterKeys(keys), node)


def test_an_id_names_the_process_that_has_made_it_and_is_visible_ascii() -> None:
    one, other = names_of("one"), names_of("other")

    id = one.new_id()

    assert re.fullmatch(r"one\.[\w-]{43}\.[\w-]{16}", id, re.ASCII)
    assert other.owner_of(id) == "one"
    assert one.new_id() != id


def test_an_id_of_this_process_has_no_other_owner() -> None:
    one = names_of("one")

    assert one.owner_of(one.new_id()) is None


def test_an_id_of_another_service_has_no_owner() -> None:
    assert names_of("other").owner_of(names_of("one", [OTHER]).new_id()) is None


@pytest.mark.parametrize("place", ["one", ".", "middle", "end"])
def test_an_id_that_was_changed_has_no_owner(place: str) -> None:
    id = names_of("one").new_id()
    changed = {
        "one": id.replace("one", "two"),
        ".": id.replace(".", ".x.", 1),
        "middle": id[:10] + ("A" if id[10] != "A" else "B") + id[11:],
        "end": id[:-1] + ("A" if id[-1] != "A" else "B"),
    }[place]

    assert names_of("other").owner_of(changed) is None


@pytest.mark.parametrize("cut", range(1, 56))
def test_a_part_of_an_id_has_no_owner(cut: int) -> None:
    id = names_of("one").new_id()

    assert names_of("other").owner_of(id[:-cut]) is None
    assert names_of("other").owner_of(id[cut:]) is None


@given(id=ANY_TEXT)
def test_garbage_has_no_owner(id: str) -> None:
    assert names_of("other").owner_of(id) is None


@pytest.mark.parametrize("id", ["", ".", "..", "one", "one.", "one..", "é.é.é", "\ud800.\ud800.\ud800", "one\0.x.y"])
def test_an_id_of_another_form_has_no_owner(id: str) -> None:
    assert names_of("other").owner_of(id) is None


@pytest.mark.parametrize("pad", ["x", "é", ".", "\U0001f600"])
def test_a_very_long_id_has_no_owner(pad: str) -> None:
    id = names_of("one").new_id()

    assert names_of("other").owner_of(id + pad * 1_000_000) is None
    assert names_of("other").owner_of(pad * 1_000_000 + id) is None


def test_an_id_without_the_name_of_a_process_has_no_owner_even_if_it_is_signed() -> None:
    assert names_of("other").owner_of(names_of("").new_id()) is None


def test_the_beginning_of_a_state_names_the_process_that_has_made_it_and_is_visible_ascii() -> None:
    one, other = names_of("one"), names_of("other")

    home = one.home()

    assert re.fullmatch(r"one-[\w-]{16}", home, re.ASCII)
    assert other.owner_of_home(home) == "one"
    assert one.owner_of_home(home) is None
    assert names_of("other", [OTHER]).owner_of_home(home) is None
    assert names_of("other").owner_of_home(names_of("").home()) is None


@given(home=ANY_TEXT)
def test_garbage_begins_no_state(home: str) -> None:
    assert names_of("other").owner_of_home(home) is None


def test_a_tag_for_one_purpose_is_of_no_use_for_another() -> None:
    keys = ClusterKeys([NEW])
    one, other = OwnerNames(keys, "one"), OwnerNames(keys, "other")

    assert other.owner_of_home(f"one-{keys.tag('session', 'one')}") is None
    assert other.owner_of(f"one.{keys.tag('home', 'one')}") is None
    assert other.owner_of(one.home()) is None
    assert other.owner_of_home(one.new_id()) is None


def test_keys_are_replaced_one_process_after_the_other() -> None:
    keys = [ClusterKeys([OLD]), ClusterKeys([OLD])]
    one, other = (OwnerNames(each, name) for each, name in zip(keys, ["one", "other"], strict=True))
    ids = [(one.new_id(), other.new_id())]

    for step in ([OLD, NEW], [NEW, OLD]):
        for each in keys:
            each.replace(step)
            ids.append((one.new_id(), other.new_id()))
            assert {other.owner_of(of_one) for of_one, _ in ids} == {"one"}
            assert {one.owner_of(of_other) for _, of_other in ids} == {"other"}

    for each in keys:
        each.replace([NEW])
    assert other.owner_of(ids[0][0]) is None
    assert other.owner_of(ids[-1][0]) == "one"
