"""The generator as a command: reproducible, strict about drift, and ready for a future revision.

Nothing here needs the upstream files: the normalised schemas are accepted as upstream, and spoilt on purpose.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codegen.choices import MESSAGE_MODULE, MODULES, OTHER_MODULE
from codegen.emit import emit
from codegen.extensions import EXTENSIONS
from codegen.normalise import normalise
from codegen.project import ROOT, read_schemas
from codegen.shapes import RefusedError, Schema, children

NEWEST = "2026-07-28"
SIXTH = "2027-01-01"


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "codegen", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(project / "src")}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of all files that the generator reads and writes."""
    copy = tmp_path / "project"
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("codegen", "schema", "src/trio_mcp/types"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignore)
    for name in EXTENSIONS:
        (copy / "src/trio_mcp" / name).mkdir()
        shutil.copy(ROOT / "src/trio_mcp" / name / "types.py", copy / "src/trio_mcp" / name)
    for module in ("_errors.py", "_facade.py", "_other_sdks.py"):
        shutil.copy(ROOT / "src/trio_mcp" / module, copy / "src/trio_mcp" / module)
    (copy / "src/trio_mcp/__init__.py").write_text("")
    (copy / "src/trio_mcp/py.typed").write_text("")
    return copy


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """Return the generated sources."""
    return emit(read_schemas())


def upstream(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Return the newest schema in the form of upstream, with a change."""
    definitions = json.loads((ROOT / "schema" / f"{NEWEST}.json").read_text("utf-8"))["$defs"]
    for name, schema in definitions.items():
        schema["description"] = f"What upstream says of {name}."
    change(definitions)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": definitions}


def hand_over(tmp_path: Path, document: dict[str, Any], revision: str = SIXTH) -> Path:
    folder = tmp_path / "upstream"
    (folder / revision).mkdir(parents=True)
    (folder / revision / "schema.json").write_text(json.dumps(document), "utf-8")
    return folder


def files_of(project: Path) -> dict[str, bytes]:
    folders = (project / "schema", project / "src/trio_mcp/types")
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*.*") if path.is_file()}


def sixth_revision(definitions: dict[str, Any]) -> None:
    """Add a type, rename another, require another member, and add a method."""
    renamed = json.dumps(definitions).replace('"#/$defs/ModelHint"', '"#/$defs/ModelSuggestion"')
    definitions.clear()
    definitions.update(json.loads(renamed))
    definitions["ModelSuggestion"] = definitions.pop("ModelHint")
    definitions["Weather"] = {
        "type": "object",
        "description": "Unknown to the table of docstrings.",
        "properties": {"skyColour": {"type": "string"}, "warmth": {"type": "number", "minimum": -273}},
        "required": ["skyColour"],
    }
    definitions["Tool"]["required"] = ["description", *definitions["Tool"]["required"]]
    meta = {"$ref": "#/$defs/RequestMetaObject"}
    definitions["GetWeatherRequest"] = {
        "type": "object",
        "properties": {
            "id": {"$ref": "#/$defs/RequestId"},
            "jsonrpc": {"type": "string", "const": "2.0"},
            "method": {"type": "string", "const": "weather/get"},
            "params": {
                "type": "object",
                "properties": {"_meta": meta, "place": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "required": ["_meta"],
            },
        },
        "required": ["id", "jsonrpc", "method", "params"],
    }
    definitions["GetWeatherResult"] = {
        "type": "object",
        "properties": {"weather": {"$ref": "#/$defs/Weather"}, "resultType": {"type": "string"}},
        "required": ["resultType", "weather"],
    }
    definitions["ClientRequest"]["anyOf"].append({"$ref": "#/$defs/GetWeatherRequest"})
    definitions["ServerResult"]["anyOf"].append({"$ref": "#/$defs/GetWeatherResult"})


USES_THE_SIXTH_REVISION = f"""
from trio_mcp import types
from trio_mcp._errors import StructureError

weather: types.Weather = types.structure({{"skyColour": "grey"}}, types.Weather, revision="{SIXTH}")
colour: str = weather.sky_colour
warmth: float | None = weather.warmth
hint = types.ModelSuggestion(name="big")
place: types.GetWeatherRequestParamsPlace = types.GetWeatherRequestParamsPlace(name="Ulm")
params = types.GetWeatherRequestParams(place=place, meta={{}})
row = types.METHODS["{SIXTH}"]["weather/get"]
assert row == types.Method("request", "client", "GetWeatherRequestParams", True, ("GetWeatherResult",)), row
assert (row.params, row.results) == (types.GetWeatherRequestParams, (types.GetWeatherResult,))
assert "weather/get" not in types.METHODS["{NEWEST}"]
line = b'{{"jsonrpc": "2.0", "id": 1, "result": {{"resultType": "complete", "weather": {{"skyColour": "grey"}}}}}}'
response = types.read_message(line, method="weather/get")
assert isinstance(response, types.GetWeatherResultResponse)
assert response.result.weather == weather
assert types.REVISIONS[-1] == "{SIXTH}" and len(types.REVISIONS) == 6
assert types.unstructure(params) == {{"place": {{"name": "Ulm"}}, "_meta": {{}}}}
tool = {{"name": "x", "inputSchema": {{}}}}
for value, kind in [(tool, types.Tool), ({{"skyColour": "a", "warmth": -300}}, types.Weather)]:
    try:
        types.structure(value, kind, revision="{SIXTH}")
    except StructureError as error:
        print(error)
assert types.structure(tool, types.Tool, revision="{NEWEST}").description is None
"""


def test_a_new_revision_becomes_code_without_manual_changes(project: Path, tmp_path: Path) -> None:
    folder = hand_over(tmp_path, upstream(sixth_revision))
    before = {name: data for name, data in files_of(project).items() if "/schema/20" in name}

    made = run(project, "--from", str(folder), "--commit", "a" * 40)

    assert (made.returncode, made.stderr) == (0, "")
    assert {name: files_of(project)[name] for name in before} == before
    assert f'["{SIXTH}"]\ncommit = "{"a" * 40}"' in (project / "schema/pins.toml").read_text("utf-8")
    checked = run(project, "--check")
    assert (checked.returncode, checked.stderr) == (0, "")
    program = project / "program.py"
    program.write_text(USES_THE_SIXTH_REVISION, "utf-8")
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(project / "src")}
    ran = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "not a Tool: $: required member 'description' is missing",
        "not a Weather: $.warmth: expected at least -273, got -300",
    ]
    pytest.importorskip("mypy", reason="the type checker is not installed here")
    typed = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "program.py", "src/trio_mcp/types"],
        cwd=project,
        env={**environment, "MYPYPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert typed.stdout.startswith("Success"), typed.stdout


def test_the_committed_files_match_the_schemas() -> None:
    checked = run(ROOT, "--check")

    assert (checked.returncode, checked.stderr) == (0, "")


def test_two_generations_are_equal_byte_for_byte(generated: dict[str, str]) -> None:
    assert emit(read_schemas()) == generated


def test_generating_again_changes_nothing(project: Path) -> None:
    before = files_of(project)

    made = run(project)

    assert (made.returncode, made.stdout) == (0, "nothing changed\n")
    assert files_of(project) == before


def test_the_first_line_of_a_generated_file_marks_it_as_generated(generated: dict[str, str]) -> None:
    for text in generated.values():
        assert text.startswith('"""Generated from schema/ by `python -m codegen`: do not edit.')


def test_no_class_has_a_numbered_name(generated: dict[str, str]) -> None:
    modules = [text for name, text in generated.items() if name.startswith("_generated/")]
    classes = [line for text in modules for line in text.splitlines() if line.startswith("class ")]

    assert len(classes) > 100
    assert not [line for line in classes if line.split("(")[0][-1].isdigit()]


def test_no_two_modules_of_types_import_one_another(generated: dict[str, str]) -> None:
    order = [*MODULES, OTHER_MODULE, MESSAGE_MODULE]

    for index, module in enumerate(order):
        lines = generated[f"_generated/{module}.py"].splitlines()
        prefix = "from trio_mcp.types._generated."
        assert {line.removeprefix(prefix).split()[0] for line in lines if line.startswith(prefix)} <= {*order[:index]}


def test_each_module_of_types_holds_its_main_types(generated: dict[str, str]) -> None:
    for module, roots in MODULES.items():
        assert all(
            re.search(rf"^(class )?{root}\b", generated[f"_generated/{module}.py"], re.MULTILINE) for root in roots
        )


@pytest.mark.parametrize("revision", [document["revision"] for document in read_schemas()])
def test_the_normal_form_is_unchanged_by_normalising(revision: str) -> None:
    document = json.loads((ROOT / "schema" / f"{revision}.json").read_text("utf-8"))

    assert normalise(document, revision) == document


def test_committed_schemas_contain_no_descriptions() -> None:
    prose = {"$comment", "default", "deprecated", "description", "examples", "title", "allOf"}

    def check(schema: Schema) -> None:
        assert not prose & schema.keys()
        for inner in children(schema):
            check(inner)

    for document in read_schemas():
        for schema in document["$defs"].values():
            check(schema)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        ("src/trio_mcp/types/_tables.py", "src/trio_mcp/types/_tables.py is not what schema/ generates"),
        ("schema/2025-06-18.json", "schema/2025-06-18.json is not the file that schema/pins.toml names"),
    ],
)
def test_drift_is_reported_and_fails(project: Path, spoil: str, sentence: str) -> None:
    path = project / spoil
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")

    checked = run(project, "--check")

    assert checked.returncode == 1
    assert sentence in checked.stderr


def test_a_schema_without_a_pin_and_a_pin_without_a_schema_are_reported(project: Path) -> None:
    (project / "schema/2024-11-05.json").unlink()
    pins = project / "schema/pins.toml"
    pins.write_text(pins.read_text("utf-8").replace('["2025-03-26"]', '["2025-03-27"]'), "utf-8")

    checked = run(project, "--check")

    assert "schema/2025-03-26.json has no pin" in checked.stderr
    assert "names revision 2025-03-27, which schema/ does not hold" in checked.stderr
    assert "names revision 2024-11-05, which schema/ does not hold" in checked.stderr


def closed(definitions: dict[str, Any]) -> None:
    definitions["Tool"]["additionalProperties"] = False


def conditional(definitions: dict[str, Any]) -> None:
    definitions["Prompt"]["if"] = {"type": "object"}


def dangling(definitions: dict[str, Any]) -> None:
    definitions["Root"]["properties"]["owner"] = {"$ref": "#/$defs/Owner"}


def numeric_name(definitions: dict[str, Any]) -> None:
    definitions["Icon"]["properties"]["2x"] = {"type": "string"}


def taken_attribute(definitions: dict[str, Any]) -> None:
    definitions["Icon"]["properties"]["extra"] = {"type": "string"}


def two_kinds(definitions: dict[str, Any]) -> None:
    definitions["Role"] = {"type": "object", "properties": {"name": {"type": "string"}}}


def retyped(definitions: dict[str, Any]) -> None:
    definitions["Implementation"]["properties"]["version"] = {"type": "array", "items": {"type": "string"}}


def senderless(definitions: dict[str, Any]) -> None:
    definitions["LostRequest"] = {"type": "object", "properties": {"method": {"const": "lost", "type": "string"}}}


def unanswered(definitions: dict[str, Any]) -> None:
    results = definitions["ServerResult"]["anyOf"]
    results.remove({"$ref": "#/$defs/ListToolsResult"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (closed, f"revision {SIXTH}: Tool: an object closed by additionalProperties: false"),
        (conditional, f"revision {SIXTH}: Prompt: the keyword 'if' cannot be expressed"),
        (dangling, f"revision {SIXTH}: Root.owner refers to Owner, which is not defined"),
        (numeric_name, "Icon: the member '2x' has no Python name"),
        (taken_attribute, "Icon: the member 'extra' would be the attribute extra"),
        (two_kinds, "Role is a class in one of the revisions"),
        (retyped, "Implementation.version (revision "),
        (senderless, f"revision {SIXTH}: no union, or more than one, says what kind of message LostRequest is"),
        (unanswered, f"revision {SIXTH}: ListToolsRequest is answered by ListToolsResult, which no union of results"),
    ],
)
def test_an_inexpressible_schema_is_refused_by_name_and_changes_nothing(
    project: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    before = files_of(project)

    made = run(project, "--from", str(hand_over(tmp_path, upstream(change))))

    assert made.returncode == 1
    assert made.stderr.startswith("codegen: ")
    assert sentence in made.stderr
    assert files_of(project) == before


def test_a_repair_that_no_longer_applies_is_refused() -> None:
    def mend_otherwise(definitions: dict[str, Any]) -> None:
        definitions["ElicitResult"]["properties"]["content"]["additionalProperties"] = {"type": "string"}

    with pytest.raises(RefusedError, match=r"ElicitResult\.properties\.content\..* is not the known mistake"):
        normalise(upstream(mend_otherwise), NEWEST)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not a JSON file"),
        ("[]", "is not a JSON Schema: it is not an "),
        ("{}", "has neither $defs nor definitions"),
    ],
)
def test_a_file_that_is_not_a_schema_is_refused(project: Path, tmp_path: Path, text: str, sentence: str) -> None:
    folder = tmp_path / "upstream" / SIXTH
    folder.mkdir(parents=True)
    (folder / "schema.json").write_text(text)

    made = run(project, "--from", str(folder.parent))

    assert made.returncode == 1
    assert sentence in made.stderr


def test_a_folder_without_schemas_is_refused(project: Path, tmp_path: Path) -> None:
    made = run(project, "--from", str(tmp_path))

    assert made.returncode == 1
    assert "holds no <revision>/schema.json" in made.stderr
