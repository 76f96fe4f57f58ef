"""`trio-mcp stubs`: the made module passes strict type checkers, and works against the server."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NotRequired, get_type_hints

import pytest

from tests.cli.command import PROGRAMS, run
from trio_mcp import RemoteProtocolError, Server, ToolFailed, open_client, types
from trio_mcp.cli._stubs import written_module

ROOT = Path(__file__).parents[2]
SAMPLE = [sys.executable, str(PROGRAMS / "sample_server.py")]
NASTY = [sys.executable, str(PROGRAMS / "nasty_server.py")]
DEMO = [sys.executable, "-m", "trio_mcp.cli.demo"]
SERVERS = {"sample": SAMPLE, "nasty": NASTY, "demo": DEMO}


def made(name: str, folder: Path) -> Path:
    """Return the file of the module that the command makes for a server."""
    done = run("stubs", "--", *SERVERS[name])
    assert done.returncode == 0, done.stderr
    path = folder / f"{name}_client.py"
    path.write_bytes(done.stdout)
    return path


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # type hints are looked up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the files of the made modules by server."""
    folder = tmp_path_factory.mktemp("stubs")
    return {name: made(name, folder) for name in SERVERS}


def test_the_made_modules_pass_mypy_strict(modules: dict[str, Path]) -> None:
    pytest.importorskip("mypy", reason="the type checker is not installed here")

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", *map(str, modules.values())],
        cwd=modules["demo"].parent,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )

    assert (done.stdout, done.returncode) == ("Success: no issues found in 3 source files\n", 0)


def test_the_made_modules_pass_pyright_strict(modules: dict[str, Path]) -> None:
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("the type checker is not installed here")
    folder = modules["demo"].parent
    (folder / "pyrightconfig.json").write_text(f'{{"typeCheckingMode": "strict", "extraPaths": ["{ROOT / "src"}"]}}')

    done = subprocess.run([pyright, "-p", str(folder)], capture_output=True, check=False, encoding="utf-8")

    assert done.stdout.splitlines()[-1].split(", ")[:2] == ["0 errors", "0 warnings"], done.stdout


async def test_a_made_client_calls_tools_gets_prompts_and_reads_resources(modules: dict[str, Path]) -> None:
    module = imported(modules["sample"])
    async with open_client(SAMPLE) as client:
        sample = module.SampleClient(client)

        assert await sample.add(1, b=2) == 3
        assert await sample.place({"name": "hill"}, ["a", "b"]) == {"name": "hill a+b", "height": None}
        with pytest.raises(ToolFailed, match="no reason"):
            await sample.fail()
        prompt = await sample.prompt_review("x=1", tone="cold")
        assert prompt.messages[0].content.text == "Be cold."
        read = await sample.read_greeting("Ada & Bob")
        assert read.contents[0].text == "Hello, Ada & Bob!"
        assert (await sample.read_all_bytes()).contents[0].uri == "bytes://all"
        assert isinstance(await sample.chatter(), types.CallToolResult | str)


def test_a_made_client_has_the_types_of_the_schemas(modules: dict[str, Path]) -> None:
    module = imported(modules["sample"])
    client = module.SampleClient

    assert get_type_hints(client.add) == {"a": int, "b": int, "return": int}
    assert client.add.__doc__ == "Add two numbers."
    assert get_type_hints(client.place)["where"] is module.PlaceWhere
    members = get_type_hints(module.PlaceWhere, include_extras=True)
    assert members == {"name": str, "height": NotRequired[float | None]}


async def test_names_that_python_cannot_have_reach_the_server_as_they_are(modules: dict[str, Path]) -> None:
    nasty = imported(modules["nasty"])
    async with open_client(NASTY) as client:
        made_client = nasty.NasTy1Client(client)
        calls: list[tuple[Any, dict[str, Any]]] = [
            (made_client.class_(1, def_="d", value_1_a_b=None), {"self": 1, "def": "d", "1-a b": None}),
            (made_client.list_(cast_=["x"]), {"cast": ["x"]}),
            (made_client.a_b({"value": 1}, y=[{"a": None}]), {"x": {"value": 1}, "y": [{"a": None}]}),
            (made_client.a_b_2({"value": 1, "name": "n"}), {"x": {"value": 1, "name": "n"}}),
            (made_client.tool(), {}),
        ]
        for call, arguments in calls:
            assert (await call).structured_content == arguments
        assert await made_client.grow(1.5) == {"value": 1.5}
        expected = {"count": 3, "ratio": 0.5, "colour": "red", "maybe": None}
        assert await made_client.defaults() == expected
        assert await made_client.open({"a": 1}) == {"a": 1}
        assert (await made_client.read_pair("x/y", "z")).contents[0].text == "x/y z"
        assert (await made_client.read_path("b://c/d")).contents[0].text == "c/d"
        assert (await made_client.prompt_class("t")).messages[0].content.text == "t kind"


async def test_a_result_that_lacks_the_promised_structured_content_is_an_error(tmp_path: Path) -> None:
    described = Server("described")

    @described.tool
    async def count() -> int:
        """Count."""
        raise NotImplementedError

    async with open_client(described) as client:
        (tool,) = [each async for each in client.tools()]
    path = tmp_path / "described_client.py"
    path.write_text(written_module("described", "1", tools=[tool]))
    served = Server("served")

    @served.tool(name="count")
    async def speak() -> types.CallToolResult:
        return types.CallToolResult(content=[])

    async with open_client(served) as client:
        with pytest.raises(RemoteProtocolError, match="tool 'count' promises structured content"):
            await imported(path).DescribedClient(client).count()


def test_a_server_without_anything_has_a_client_without_methods(tmp_path: Path) -> None:
    text = written_module("", "")

    assert "class TypeClient:" in text
    assert text.count("def ") == 1
    compile(text, "made.py", "exec")


def schema_type(schema: Any, **more: Any) -> str:
    """Return the annotation of a required parameter with this schema."""
    tool = types.Tool(name="t", input_schema={"type": "object", "properties": {"p": schema}, "required": ["p"], **more})
    text = written_module("s", "", tools=[tool])
    return text.partition("async def t(self, p: ")[2].partition(") ->")[0]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, "Any"),
        ({}, "Any"),
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"type": "unknown"}, "Any"),
        ({"type": [3]}, "Any"),
        ({"items": {"type": "string"}}, "list[str]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "list[str | int]"),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}}, "list[str | None]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"additionalProperties": {"type": "number"}}, "dict[str, float]"),
        ({"anyOf": [{"type": "string"}, {"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"oneOf": [{"type": "string"}, {}]}, "Any"),
        ({"const": 3}, "Literal[3]"),
        ({"enum": ["a", "a", None]}, 'Literal["a", None]'),
        ({"enum": [0.5, 1, "x"]}, "float | int | str"),
        ({"enum": []}, "Any"),
        ({"$ref": "#/$defs/A"}, "str"),
        ({"$ref": "#/$defs/a~1b"}, "int"),
        ({"$ref": "#"}, "P"),
        ({"$ref": "other.json"}, "Any"),
        ({"$ref": "#/$defs/A/type"}, "Any"),
        ({"$ref": "#/$defs/Loop"}, "Any"),
        ({"allOf": [{"$ref": "#/$defs/A"}, 3]}, "str"),
        ({"allOf": [{"$ref": "#/$defs/Loop"}]}, "Any"),
    ],
)
def test_a_schema_becomes_the_type_of_its_values(schema: Any, expected: str) -> None:
    definitions = {"A": {"type": "string"}, "a/b": {"type": "integer"}, "Loop": {"allOf": [{"$ref": "#/$defs/Loop"}]}}

    found = schema_type(schema, **{"$defs": definitions})

    assert found == ("Root" if expected == "P" else expected)


def test_a_schema_that_is_nested_too_deeply_ends_in_any() -> None:
    schema: Any = {"type": "string"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}

    assert schema_type(schema).startswith("list[list[")
    assert "Any" in schema_type(schema)


def test_tools_that_use_the_same_schema_share_its_class() -> None:
    note = {"title": "Note", "type": "object", "properties": {"text": {"type": "string"}}}
    tools = [types.Tool(name=name, input_schema={"type": "object", "properties": {"n": note}}) for name in ("a", "b")]
    other = {**note, "required": ["text"]}
    tools.append(types.Tool(name="c", input_schema={"type": "object", "properties": {"n": other}}))

    text = written_module("s", "", tools=tools)

    assert text.count("class Note(TypedDict)") == 1
    assert text.count("class Note_2(TypedDict)") == 1


def test_json_is_refused_because_the_result_is_python() -> None:
    done = run("stubs", "--json", "--", *SAMPLE)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"trio-mcp stubs: stubs prints a Python module, not JSON\n"
