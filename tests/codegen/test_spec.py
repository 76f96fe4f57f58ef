"""The comparison with upstream: it passes if every difference is known, and fails on any other difference.

The normal form stands in for the upstream files here, which lie outside the project.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from codegen import project
from codegen.__main__ import main
from codegen.align import align
from codegen.envelopes import complete
from codegen.extensions import EXTENSIONS, THIS_PROJECT
from codegen.merge import merge
from codegen.normalise import normalise_extension
from codegen.spec import extensions, judge, run
from codegen.spec.leniency import SWITCHES, Leniency
from codegen.spec.seeds import changed, changes, same_json

OLDEST, NEWEST = "2024-11-05", "2026-07-28"


FEW = 300
"""The number of messages of each revision that these tests compare."""
FEW_OF_A_KIND = 5
"""The number of messages of each kind, of each extension."""
FROM_UPSTREAM = [name for name, facts in EXTENSIONS.items() if facts.origin != THIS_PROJECT]
"""The extensions that have an upstream file."""


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the normal forms in the layout of upstream, and with a `schema/` that pins them."""
    root = tmp_path_factory.mktemp("laid out")
    shutil.copytree(project.SCHEMA, root / "schema")
    for path in (root / "schema").glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        (root / "upstream" / path.stem).mkdir(parents=True)
        text = json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})
        (root / "upstream" / path.stem / "schema.json").write_text(text, "utf-8")
    (root / "upstream" / "extensions").mkdir()
    for name in FROM_UPSTREAM:
        shutil.copy(root / "schema" / "extensions" / f"{name}.json", root / "upstream" / "extensions")
    write_example(root / "upstream", {"type": "text", "text": "hi"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(project, "SCHEMA", root / "schema")
        project.take_over(root / "upstream", "c0ffee", {})
    return root


@pytest.fixture
def upstream(laid_out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy that a test may damage, and reduce the number of compared messages."""
    shutil.copytree(laid_out, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(project, "SCHEMA", tmp_path / "schema")
    monkeypatch.setattr(judge, "_MOST", FEW)
    monkeypatch.setattr(run, "FEWEST", FEW)
    monkeypatch.setattr(extensions, "_MOST_OF_A_KIND", FEW_OF_A_KIND)
    monkeypatch.setattr(run, "FEWEST_OF_EXTENSION", FEW_OF_A_KIND)
    return tmp_path / "upstream"


def write_example(folder: Path, message: dict[str, Any]) -> None:
    path = folder / NEWEST / "examples" / "TextContent" / "example.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(message), "utf-8")


def compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["spec", "--from", str(folder)])
    return status, capsys.readouterr().out


def test_every_known_difference_from_the_schemas_is_named(upstream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = compare(upstream, capsys)

    assert status == 0
    assert report.splitlines()[0] == "2026-07-28: 1 example messages, each made into the type of its folder and back"
    assert report.count(f": {FEW} mutated messages of ") == len(project.read_pins())
    assert report.count(" mutated messages of ") == len(project.read_pins()) + len(EXTENSIONS)
    assert "apps: " in report
    assert "null for a member that may be left out counts as left out\n" in report
    assert report.endswith("no difference without a name\n")


def test_a_difference_without_a_name_fails(
    upstream: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_revision = judge.Comparison.run

    def compare_the_oldest(self: judge.Comparison, from_examples: dict[str, list[Any]]) -> None:
        (compare_revision if self.revision.name == OLDEST else none_compared)(self, from_examples)

    monkeypatch.setattr(judge.Comparison, "run", compare_the_oldest)
    monkeypatch.setattr(judge, "SWITCHES", SWITCHES - {Leniency.CAPABILITY})

    status, report = compare(upstream, capsys)

    assert status == 1
    assert f"FAULT revision {OLDEST}, " in report
    assert "invalid, but accepted, for no reason that has a name\n" in report


def none_compared(self: judge.Comparison, _: object) -> None:
    """Replace the comparison, which takes time, in tests that do not need it."""
    self.messages = FEW


def none_of_extension_compared(self: extensions.ExtensionComparison) -> None:
    """Replace the comparison of an extension likewise."""
    self.messages = FEW_OF_A_KIND


@pytest.fixture
def no_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge.Comparison, "run", none_compared)
    monkeypatch.setattr(extensions.ExtensionComparison, "run", none_of_extension_compared)


@pytest.mark.usefixtures("no_mutants")
def test_a_comparison_with_too_few_messages_fails(
    upstream: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compare(upstream, capsys)[0] == 0
    monkeypatch.setattr(run, "FEWEST", FEW + 1)
    monkeypatch.setattr(run, "FEWEST_OF_EXTENSION", FEW_OF_A_KIND + 1)

    status, report = compare(upstream, capsys)

    assert status == 1
    assert f"FAULT revision {OLDEST}: judged by {FEW} messages only\n" in report
    assert f"FAULT extension tasks: judged by {FEW_OF_A_KIND} messages only\n" in report


@pytest.mark.usefixtures("no_mutants")
def test_an_example_that_does_not_fit_its_type_fails(upstream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_example(upstream, {"type": "text", "text": 3})

    status, report = compare(upstream, capsys)

    assert status == 1
    assert "example.json (revision 2026-07-28): not a TextContent: $.text: expected string, got integer\n" in report


@pytest.mark.usefixtures("no_mutants")
def test_missing_examples_fail(upstream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(upstream / NEWEST / "examples")

    status, report = compare(upstream, capsys)

    assert status == 1
    assert "FAULT revision 2026-07-28 comes without example messages\n" in report


def test_upstream_files_that_differ_from_the_pinned_ones_fail(
    upstream: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = upstream / "2025-03-26" / "schema.json"
    document = json.loads(changed.read_text("utf-8"))
    document["$defs"]["Tool"]["required"] = ["name"]
    changed.write_text(json.dumps(document), "utf-8")
    (upstream / "2024-11-05" / "schema.json").unlink()
    (upstream / "extensions" / "tasks.json").unlink()
    spoilt = upstream / "extensions" / "apps.json"
    spoilt.write_text(spoilt.read_text("utf-8").replace('"dark"', '"dim"'), "utf-8")

    status, report = compare(upstream, capsys)

    assert status == 1
    assert report.splitlines() == [
        f"FAULT {upstream / '2024-11-05' / 'schema.json'} is missing",
        f"FAULT {changed} is not the upstream file that schema/pins.toml names",
        f"FAULT schema/2025-03-26.json is not the normal form of {changed}",
        f"FAULT {spoilt} is not the upstream file that schema/extensions/pins.toml names",
        f"FAULT schema/extensions/apps.json is not the normal form of {spoilt}",
        f"FAULT {upstream / 'extensions' / 'tasks.json'} is missing",
        "6 faults",
    ]


# -- Extensions: a file in the form of other tools, the normal form of which is in `schema/`.


RAW: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {
        "McpUiTheme": {"anyOf": [{"const": "light", "type": "string"}, {"const": "dark", "type": "string"}]},
        "McpUiHostCss": {
            "type": "object",
            "properties": {"fonts": {"anyOf": [{"type": "string"}, {}]}},
            "additionalProperties": False,
        },
    },
}


def judged(raw: dict[str, Any], normal: dict[str, Any] | None = None) -> extensions.ExtensionComparison:
    """Return the comparison of upstream's file of an extension with the generated types of apps."""
    core = project.read_core()
    document = normalise_extension(raw, "skills", core)
    merged = merge(complete(align(project.read_schemas())))
    comparison = extensions.ExtensionComparison({**document, "extension": "apps", **(normal or {})}, raw, core, merged)
    comparison.run()
    return comparison


def test_the_differences_of_an_extension_from_its_upstream_file_have_names() -> None:
    found = judged(RAW)

    assert found.faults == []
    assert [kind.name for kind in found.kinds] == ["McpUiHostCss", "McpUiTheme"]
    assert found.valid > 0
    assert found.accepted["an object may have members that its schema does not name"] > 0
    assert found.without_nulls > 0
    assert found.refused.keys() == {"JavaScript's undefined is taken for any value"}


@pytest.mark.parametrize(
    ("name", "schema", "sentence"),
    [
        ("McpUiHostCss", {"properties": {"fonts": {"type": "integer"}}, "type": "object"}, ": valid, but refused: "),
        ("McpUiHostCss", {"properties": {"css": {"type": "string"}}, "type": "object"}, ": accepted, for no reason "),
        ("McpUiTheme", {"enum": ["dark", "grey", "light"], "type": "string"}, ": valid, but refused: "),
        ("McpUiTheme", {"enum": ["dark", "grey"], "type": "string"}, ": valid, but refused: "),
    ],
)
def test_a_difference_of_an_extension_without_a_name_is_a_fault(
    name: str, schema: dict[str, Any], sentence: str
) -> None:
    faults = judged({**RAW, "$defs": {**RAW["$defs"], name: schema}}).faults

    assert any(fault.startswith(f"extension apps, {name}: ") and sentence in fault for fault in faults)


def test_a_copy_that_became_a_reference_to_something_else_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    something_else = {"McpUiHostCss": {"type": "object"}, "McpUiTheme": {"type": "string"}}
    monkeypatch.setattr(extensions, "without_copies", Mock(return_value=something_else))

    assert any("a copy became a reference to something else" in fault for fault in judged(RAW).faults)


def test_a_definition_of_which_no_valid_message_is_made_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "seeds", Mock(return_value=[3]))

    assert any("none of the messages made from the schema is valid" in fault for fault in judged(RAW).faults)


def test_a_mutant_differs_from_its_seed_in_one_place() -> None:
    seed = {"a": [1, {"b": "text"}], "c": True}

    found = [changed(seed, change) for change in changes(seed)]

    assert not [mutant for mutant in found if same_json(mutant, seed)]
    assert {"a": [1, {"b": "text"}]} in found
    assert {"a": [1, {"b": None}], "c": True} in found
    assert {"a": [1, {"b": "text"}], "c": True, "unheard/of": [1]} in found
    assert seed == {"a": [1, {"b": "text"}], "c": True}


PAIRS: list[tuple[Any, Any, bool]] = [
    (1, 1.0, True),
    (1, True, False),
    ([0], [False], False),
    ({"a": 1}, {"a": 1, "b": None}, False),
    ([1], [1, 2], False),
    ({"a": [{}]}, {"a": [{}]}, True),
]


@pytest.mark.parametrize(("first", "second", "same"), PAIRS)
def test_json_values_are_compared_as_json(first: Any, second: Any, same: bool) -> None:
    assert same_json(first, second) is same


def test_a_null_may_be_missing_if_the_comparison_allows_it() -> None:
    assert same_json({"a": [{}]}, {"a": [{"b": None}], "c": None}, but_nulls=True)
    assert not same_json({}, {"c": 1}, but_nulls=True)
