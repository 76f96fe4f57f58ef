"""Messages that the core does not define: subclasses of `Model` in other modules, with rules in their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import field, frozen

from trio_mcp import StructureError, types


@frozen(kw_only=True, repr=False, eq=False)
class Parcel(types.Model):
    """A message with a name on the wire and a limit that its attributes do not show."""

    weight: int = field(metadata={"bounds": types.Bounds(minimum=1, maximum=30)})
    next_stop: str | None = None
    meta: types.JSONObject | None = field(default=None, metadata={"wire": "_meta"})
    extra: Mapping[str, Any] = types.NO_EXTRA


@frozen(kw_only=True, repr=False, eq=False)
class Task(types.Model):
    """A message that only shares its name with one of the core."""

    meta: str
    extra: Mapping[str, Any] = types.NO_EXTRA


@pytest.mark.parametrize("revision", [None, *types.REVISIONS])
def test_the_metadata_of_an_attribute_states_its_name_on_the_wire(revision: str | None) -> None:
    value = {"weight": 3, "nextStop": "Ulm", "_meta": {"a": 1}}

    parcel = types.structure(value, Parcel, revision=revision)

    assert parcel == Parcel(weight=3, next_stop="Ulm", meta={"a": 1})
    assert types.unstructure(parcel, revision=revision) == value


@pytest.mark.parametrize(("weight", "fault"), [(0, "expected at least 1, got 0"), (31, "expected at most 30, got 31")])
def test_the_metadata_of_an_attribute_states_its_limits(weight: int, fault: str) -> None:
    with pytest.raises(StructureError, match=rf"^not a Parcel: \$\.weight: {fault}$"):
        types.structure({"weight": weight}, Parcel)


@pytest.mark.parametrize("revision", [None, *types.REVISIONS])
def test_the_rules_of_a_class_of_the_core_do_not_apply_to_another_class_of_that_name(revision: str | None) -> None:
    assert types.structure({"meta": "x"}, Task, revision=revision) == Task(meta="x")
