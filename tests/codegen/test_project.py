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


def test_checking_and_importing_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--check", "--from", str(tmp_path)])

    assert caught.value.code == 2
