"""The files of the generator: pins of schemas, checks, and obsolete modules."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from codegen import project
from codegen.__main__ import main
from codegen.extensions import EXTENSIONS

REVISION = "2025-06-18"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of `schema/` and the generated types, which the generator then uses."""
    root = tmp_path / "checkout"
    shutil.copytree(project.SCHEMA, root / "schema")
    for package in ("types", *EXTENSIONS):
        shutil.copytree(project.PACKAGE / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(project, "SCHEMA", root / "schema")
    monkeypatch.setattr(project, "PACKAGE", root)
    return root


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """Return one revision in the layout of upstream: an equivalent schema in other bytes."""
    document = json.loads((project.SCHEMA / f"{REVISION}.json").read_text("utf-8"))
    document["$defs"]["Tool"]["description"] = "Prose, of which nothing may remain."
    path = tmp_path / "upstream" / REVISION / "schema.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document), "utf-8")
    return path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_importing_an_equivalent_schema_changes_only_the_pin(
    checkout: Path, upstream: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(checkout)

    assert main(["--from", str(upstream.parent.parent), "--commit", "c0ffee"]) == 0

    assert capsys.readouterr().out == "took over 2025-06-18\nnothing changed\n"
    after = contents(checkout)
    assert {path.name for path in after if after[path] != before[path]} == {"pins.toml"}
    pin = project.read_pins()[REVISION]
    assert pin.commit == "c0ffee"
    assert pin.upstream == hashlib.sha256(upstream.read_bytes()).hexdigest()
    assert pin.normalised == hashlib.sha256(after[checkout / "schema" / f"{REVISION}.json"]).hexdigest()


def test_a_pinned_file_keeps_its_commit_and_a_new_file_has_none(
    checkout: Path, upstream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "emit", Mock())  # it takes time, and the test does not need it
    folder = upstream.parent.parent
    project.take_over(folder, "c0ffee", {})

    project.take_over(folder, None, {})
    kept = project.read_pins()[REVISION].commit
    upstream.write_text(upstream.read_text("utf-8") + "\n", "utf-8")
    project.take_over(folder, None, {})

    assert (kept, project.read_pins()[REVISION].commit) == ("c0ffee", "unknown")
    assert checkout.exists()


def test_checking_and_generating_fail_without_any_schema(
    checkout: Path, upstream: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(checkout / "schema")

    assert (main(["--check"]), main([])) == (1, 1)

    sentence = f"codegen: {checkout / 'schema'} holds no schema: run `python -m codegen --from DIR` first\n"
    assert capsys.readouterr().err == sentence * 2
    assert main(["--from", str(upstream.parent.parent)]) == 0
    assert list(project.read_pins()) == [REVISION]


def test_the_check_changes_nothing(checkout: Path) -> None:
    (checkout / "types" / "_tables.py").write_text("", "utf-8")
    (checkout / "types" / "__init__.py").unlink()
    before = contents(checkout)

    assert main(["--check"]) == 1

    assert contents(checkout) == before


def test_an_obsolete_module_is_reported_and_removed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left_over = checkout / "types" / "_generated" / "weather.py"
    left_over.write_text("", "utf-8")

    assert main(["--check"]) == 1

    assert "types/_generated/weather.py is not what schema/ generates" in capsys.readouterr().err
    assert main([]) == 0
    assert capsys.readouterr().out == "wrote types/_generated/weather.py\n"
    assert not left_over.exists()


# -- Extensions.


def hand_over(tmp_path: Path, name: str, change: tuple[str, str] = ("", "")) -> Path:
    """Return a folder in the layout of upstream with an extension: its normal form, with a text replaced."""
    path = tmp_path / "handed over" / "extensions" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (project.ROOT / "schema/extensions/tasks.json").read_text("utf-8")
    path.write_text(text.replace(*change), "utf-8")
    return path


def test_importing_an_extension_changes_its_schema_its_pin_and_its_module(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(checkout)
    path = hand_over(tmp_path, "tasks", ('"cancelled"', '"given_up"'))

    assert main(["--from", str(path.parent.parent), "--pin", "tasks=c0ffee"]) == 0

    assert capsys.readouterr().out == "took over tasks\nwrote tasks/types.py\n"
    after = contents(checkout)
    changed = {path.relative_to(checkout).as_posix() for path in after if after[path] != before[path]}
    assert changed == {"schema/extensions/pins.toml", "schema/extensions/tasks.json", "tasks/types.py"}
    pin = project.read_extension_pins()["tasks"]
    assert (pin.version, pin.upstream) == ("c0ffee", hashlib.sha256(path.read_bytes()).hexdigest())
    assert "github.com/modelcontextprotocol/ext-tasks" in pin.origin


@pytest.fixture
def no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the generation of the core, which takes time, in tests that do not need it."""
    monkeypatch.setattr(project, "emit", Mock())


@pytest.mark.usefixtures("no_core")
def test_a_pinned_file_of_an_extension_keeps_its_version_and_a_new_file_has_none(
    checkout: Path, tmp_path: Path
) -> None:
    path = hand_over(tmp_path, "tasks")
    project.take_over(path.parent.parent, None, {"tasks": "c0ffee"})

    project.take_over(path.parent.parent, None, {})
    kept = project.read_extension_pins()["tasks"].version
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")
    project.take_over(path.parent.parent, None, {})

    assert (kept, project.read_extension_pins()["tasks"].version) == ("c0ffee", "unknown")
    assert checkout.exists()


@pytest.mark.usefixtures("no_core")
@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("dances", ("", ""), "is the schema of an extension that codegen/extensions.py does not describe"),
        ("skills", ("", ""), "has no place here: schema/extensions/skills.json is written in this project"),
        ("tasks", ('"tasks/get"', '"tasks/fetch"'), "does not state the sender of tasks/fetch (GetTaskRequest)"),
        (
            "tasks",
            ('"additionalProperties": {}', '"contains": {}'),
            "CompletedTask.result: the keyword 'contains' cannot",
        ),
    ],
)
def test_an_extension_that_cannot_be_imported_is_refused_by_name(
    checkout: Path,
    tmp_path: Path,
    name: str,
    change: tuple[str, str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = contents(checkout)
    path = hand_over(tmp_path, name, change)

    assert main(["--from", str(path.parent.parent)]) == 1

    assert sentence in capsys.readouterr().err
    assert contents(checkout) == before


def test_extensions_without_the_revision_on_which_they_build_are_refused(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(checkout / "schema")
    path = hand_over(tmp_path, "tasks")

    assert main(["--from", str(path.parent.parent)]) == 1

    assert "holds extensions only, and " in capsys.readouterr().err


def test_drift_of_an_extension_is_reported(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("tasks/types.py", "schema/extensions/tasks.json", "schema/extensions/skills.json"):
        path = checkout / name
        path.write_text(path.read_text("utf-8") + "\n", "utf-8")
    pins = checkout / "schema/extensions/pins.toml"
    pins.write_text(pins.read_text("utf-8").replace('["skills"]', '["dances"]'), "utf-8")

    assert main(["--check"]) == 1

    assert capsys.readouterr().err.splitlines() == [
        "codegen: schema/extensions/skills.json has no pin in schema/extensions/pins.toml",
        "codegen: schema/extensions/skills.json is not in normal form",
        "codegen: schema/extensions/tasks.json is not the file that schema/extensions/pins.toml names",
        "codegen: schema/extensions/tasks.json is not in normal form",
        "codegen: schema/extensions/pins.toml names dances, which schema/extensions/ does not hold",
        "codegen: src/trio_mcp/tasks/types.py is not what schema/ generates: run `python -m codegen`",
    ]


def test_the_module_of_an_extension_without_a_schema_is_removed(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "schema/extensions/tasks.json").unlink()

    assert main([]) == 0

    assert capsys.readouterr().out == "wrote tasks/types.py\n"
    assert not (checkout / "tasks/types.py").exists()


def test_a_schema_that_is_written_here_is_brought_into_normal_form_and_pinned(checkout: Path) -> None:
    path = checkout / "schema/extensions/skills.json"
    document = json.loads(path.read_text("utf-8"))
    document["$defs"]["Skill"]["description"] = "Prose, of which nothing may remain."
    document["$defs"]["Skill"]["properties"]["weight"] = {"type": "number"}
    path.write_text(json.dumps(document), "utf-8")

    assert main([]) == 0

    assert main(["--check"]) == 0
    assert "weight: float | None = None" in (checkout / "skills/types.py").read_text("utf-8")
    assert "Prose" not in path.read_text("utf-8")


@pytest.mark.parametrize("argument", ["tasks", "tasks=", "dances=1"])
def test_a_version_that_names_no_extension_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--pin", argument])

    assert caught.value.code == 2
    assert f"'{argument}' is not NAME=VERSION; the names are apps, skills, tasks" in capsys.readouterr().err


def test_checking_and_importing_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--check", "--from", str(tmp_path)])

    assert caught.value.code == 2
