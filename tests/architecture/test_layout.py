"""Tests of the rules of the layout, by parsing the sources.

1. A folder imports only folders above it, through their `__init__`, and so do sub-folders. No circle of imports exists
   at run time; circles of imports for annotations exist only inside one folder. A capability beside the core imports
   public names of the core only, and the core refers to it in `_capabilities`.
2. A module is one idea: at most 500 lines of code, and at least 100 unless two other modules import it.
3. One name has one meaning: no class name is defined twice.
4. Code for the legacy revisions lives in files named for it, and the modern files that import these are listed.
5. Tests import facades; the private modules that they import nevertheless are listed.
"""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

import trio_mcp
from tests.architecture.sources import (
    EXTENSIONS,
    MODULES,
    ROOT,
    WRITTEN,
    Module,
    circles,
    home_of,
    imports_of_package,
)

# Each folder may import the folders named before it.
LAYERS = (
    *("schema", "types", "wire", "peer", "auth", "transports", "client", "server", "llm"),
    *("shared", "cluster", "tasks", "skills", "apps", "openapi", "gateway", "asyncio", "sync"),
    *("testing", "cli"),
)
# Layers beside the core, which import only public names of it and nothing of one another.
CAPABILITIES = {"shared", "cluster", "tasks", "skills", "apps", "openapi", "gateway", "asyncio", "sync"}
# Those that show the whole client again, to other worlds.
MIRRORS = {"asyncio", "sync"}
MIRRORED = {"_mirrors", "_misuse", "client", "llm", "server", "tasks", "skills"}
PUBLIC = {"_facade", "abc", "lowlevel", "types", "wire", *vars(trio_mcp)["__all__"]}
# Every layer may import these; each of them may import only the layers and modules named here.
SHARED = {
    "_other_sdks": {"_misuse"},
    "_facade": {"_other_sdks"},
    "_errors": set[str](),
    "_version": set[str](),
    "_misuse": set[str](),
    "_util": {"_errors", "_misuse"},
    "_mirrors": set[str](),
    "_shares": set[str](),
    "_tracing": {"_errors"},
    "_user_types": {"_errors", "types", "wire"},
    "_extensions": {"_errors", "types", "wire"},
    "_capabilities": CAPABILITIES,  # only for annotations and when a program uses one
    "abc": {"_errors", "_util", "types", "wire", "peer"},  # only for annotations, as a test below checks
}
FACADES = ("__init__", "lowlevel")

HTTP_LIBRARIES = {"httpx2", "httpcore2", "httptools", "h11", "hypercorn", "wsproto", "h2"}
HTTP_LAYERS = {"transports", "auth", "openapi"}
TRIO_FREE_LAYERS = {"schema", "types", "wire"}

LONGEST_MODULE, SHORTEST_MODULE = 500, 100  # lines of code
MOST_MODULES, MOST_SMALL_MODULES = 244, 32  # of the core
MOST_OF_A_CAPABILITY, MOST_SMALL_OF_A_CAPABILITY = 15, 4
SMALL_MODULE = 60  # lines of code
ENTRY_POINTS = ("__main__.py", "cli/_main.py", "cli/demo/__main__.py", "testing/pytest_plugin.py", "lowlevel.py")

INSIDE = [module for module in MODULES if module.layer not in FACADES]


def layers_imported(module: Module) -> set[str]:
    """Return the layers that a module imports anywhere in its file."""
    return {(f"{each.source}.{each.name}").split(".")[1] for each in module.imports()}


def allowed(layer: str) -> set[str]:
    """Return the layers and shared modules that a layer may import."""
    if layer in SHARED:
        return SHARED[layer]
    if layer in CAPABILITIES:
        return {layer} | PUBLIC | (MIRRORED if layer in MIRRORS else set())
    above = set(LAYERS[: LAYERS.index(layer) + 1]) | set(SHARED)
    return above - {"client"} if layer == "server" else above


def test_every_folder_is_a_known_layer() -> None:
    assert {module.layer for module in MODULES} <= {*LAYERS, *SHARED, *FACADES}


@pytest.mark.parametrize("module", INSIDE, ids=lambda module: module.name)
def test_a_module_imports_only_its_own_layer_and_layers_above(module: Module) -> None:
    assert layers_imported(module) - allowed(module.layer) == set()


@pytest.mark.parametrize("module", INSIDE, ids=lambda module: module.name)
def test_a_module_imports_other_folders_through_their_facades(module: Module) -> None:
    private = [
        f"{each.source}.{each.name}"
        for each in module.imports()
        if any(part.startswith("_") for part in each.source.split(".")[1:])  # a private module
        and not module.folder.startswith(
            each.source.rpartition(".")[0]
        )  # of a folder other than its own and its parents
        and not (
            module.is_package and each.source.startswith(f"{module.folder}.")
        )  # a facade may import its sub-folders
    ]

    assert private == []


def test_modules_do_not_import_one_another_in_a_circle_at_run_time() -> None:
    graph = {module.dotted: imports_of_package(module, at_run_time=True) for module in MODULES if not module.is_package}

    assert circles(graph) == []


def test_circles_of_imports_for_annotations_stay_inside_one_folder() -> None:
    folders = {module.dotted: module.folder for module in MODULES}
    graph = {
        module.dotted: imports_of_package(module, at_run_time=False)
        for module in MODULES
        if not module.is_package and module.layer != "_capabilities"  # methods of the core name classes of capabilities
    }

    assert [circle for circle in circles(graph) if len({folders[name] for name in circle}) > 1] == []


def test_the_interfaces_import_the_package_only_for_annotations() -> None:
    (interfaces,) = (module for module in MODULES if module.name == "abc.py")

    assert [each.name for each in interfaces.imports() if not each.is_for_types] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_only_transports_and_auth_import_an_http_library(module: Module) -> None:
    assert module.layer in HTTP_LAYERS or not module.libraries() & HTTP_LIBRARIES


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_schema_types_and_wire_do_not_import_trio(module: Module) -> None:
    assert module.layer not in TRIO_FREE_LAYERS or not module.libraries() & {"trio", "outcome", "sniffio"}


@pytest.mark.parametrize("module", INSIDE, ids=lambda module: module.name)
def test_only_the_command_line_prints_with_rich(module: Module) -> None:
    assert module.layer == "cli" or "rich" not in module.libraries()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_module_has_a_docstring(module: Module) -> None:
    assert ast.get_docstring(module.tree)


@pytest.mark.parametrize("module", WRITTEN, ids=lambda module: module.name)
def test_a_module_has_at_most_500_lines_of_code(module: Module) -> None:
    assert module.lines_of_code <= LONGEST_MODULE


def test_a_module_of_less_than_100_lines_has_at_least_two_importers() -> None:
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        if not module.is_package:
            for each in module.imports():
                importers[home_of(each.source, each.name)].add(module.dotted)
    small = [
        module
        for module in WRITTEN
        if not module.is_package and module.name not in ENTRY_POINTS and module.lines_of_code < SHORTEST_MODULE
    ]

    assert {
        module.name for module in small if len(importers[module.dotted] - {module.dotted}) < 2
    } == SMALL_WITH_A_REASON.keys()


SMALL_WITH_A_REASON: dict[str, str] = {
    "_facade.py": "every facade imports it",
    "asyncio/_classes.py": "programs that name no class load neither tasks nor skills",
    "asyncio/_http.py": "clients do not load the server",
    "asyncio/_llm.py": "programs without a model do not load what is for one",
    "sync/_classes.py": "programs that name no class load neither tasks nor skills",
    "sync/_llm.py": "programs without a model do not load what is for one",
    "cli/_gateway.py": "a command of its own, which loads the gateway",
    "cluster/_changes.py": "one idea beside the requests between processes",
    "cluster/_node.py": "what is public of a process of a service",
    "cluster/_sessions.py": "one idea beside the requests between processes",
    "gateway/_status.py": "what is public of a server of a gateway",
    "cli/_inspect.py": "a command of its own, which needs neither a server nor a connected client",
    "cli/_skills.py": "commands of their own, beside those of the core",
    "cli/_progress_bar.py": "it loads rich, which most commands do not need",
    "openapi/_responses.py": "what a model is told of a response, beside the styles of requests",
    "peer/_pacing.py": "one idea beside the handler pool, which has no room for it",
    "server/asking/_legacy.py": "code for legacy revisions",
    "skills/_toolkit.py": "programs without a language model do not load it",
    "transports/http/server/_lifespan.py": "a protocol of its own, beside the application, which has no room for it",
    "tasks/_answers.py": "the check of answers, beside the tasks of a serving, which have no room for it",
    "tasks/_legacy.py": "code for legacy revisions",
}
"""Modules of less than 100 lines of code that fewer than two others import, each with the reason for its own file."""


def is_small(module: Module) -> bool:
    return not module.is_package and module.lines_of_code < SMALL_MODULE


def test_the_number_of_modules_of_the_core_is_limited() -> None:
    core = [module for module in MODULES if module.layer not in CAPABILITIES]

    assert len(core) <= MOST_MODULES
    assert len([module for module in core if is_small(module) and module in WRITTEN]) <= MOST_SMALL_MODULES


@pytest.mark.parametrize("capability", sorted(CAPABILITIES))
def test_the_number_of_modules_of_a_capability_is_limited(capability: str) -> None:
    modules = [module for module in MODULES if module.layer == capability]

    assert len(modules) <= MOST_OF_A_CAPABILITY
    assert len([module for module in modules if is_small(module) and module in WRITTEN]) <= MOST_SMALL_OF_A_CAPABILITY


NAMED_BY_THE_SPECIFICATION = {"Notification", "Request"}
"""Names that a definition of the specification, in `types`, shares with a class of this package."""


def test_no_class_name_is_defined_twice() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        if module.name in EXTENSIONS:  # which has the names of its own specification
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)

    assert {name for name, where in places.items() if len(where) > 1} == NAMED_BY_THE_SPECIFICATION


def is_legacy(name: str) -> bool:
    """Return True if the dotted name of a module marks it as legacy code."""
    return "legacy" in name.rpartition(".")[2]


LEGACY_IMPORTERS = {
    "client/_client.py": {"client._legacy_listen"},
    "client/_connection.py": {"client._legacy_listen"},
    "server/_http_app.py": {"transports.http.server._legacy_session_manager"},
    "server/_routes.py": {"server.features._legacy_subscriptions"},
    "server/_serving.py": {"server.features._legacy_subscriptions"},
    "server/asking/_asker.py": {"server.asking._legacy"},
    "tasks/_client.py": {"tasks._legacy"},
    "transports/http/_engine.py": {"wire._http_legacy"},
    "transports/http/client/_open.py": {"transports.http.client._legacy_session"},
    "transports/http/server/_app.py": {"transports.http.server._legacy_session_manager"},
    "transports/http/server/_asgi.py": {"wire._http_legacy"},
    "transports/http/server/_nodes.py": {"transports.http.server._legacy_session_manager", "wire._http_legacy"},
    "wire/_http_rules.py": {"wire._http_legacy"},
}
"""The modern modules that import legacy ones, each with those that it imports."""


def test_only_the_listed_modern_modules_import_legacy_modules() -> None:
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        if not is_legacy(module.dotted) and not module.is_package:
            for each in module.imports():
                home = home_of(each.source, each.name)
                if is_legacy(home):
                    importers[module.name].add(home.removeprefix("trio_mcp."))

    assert importers == LEGACY_IMPORTERS


PRIVATE_MODULES_OF_TESTS = {
    "": {"_errors", "_extensions", "_mirrors", "_other_sdks", "_shares", "_tracing", "_user_types", "_util"},
    "asyncio": {"_run"},
    "auth": {"_challenges", "_dpop", "_jwt", "_urls"},
    "auth.client": {
        "_authorization_code",
        "_browser",
        "_discovery",
        "_registration",
        "_source",
        "_steps",
        "_token_cache",
        "_token_endpoint",
        "_token_records",
        "_token_storage",
    },
    "auth.server": {"_introspection", "_resource_server", "_token_verifiers"},
    "cli": {
        *("_arguments", "_commands", "_connect", "_errors", "_hosts", "_jsonc", "_output", "_questions", "_stubs"),
        "_terminal",
    },
    "cli.demo": {"_run", "_server"},
    "client": {"_lists", "_many", "_mcp_json", "_supervision"},
    "cluster": {
        *("_buckets", "_changes", "_forwarding", "_keys", "_links", "_membership", "_messages", "_owner"),
        *("_service", "_sessions"),
    },
    "gateway": {"_forward", "_merged", "_mount", "_ranking", "_results", "_tasks", "_turns", "_upstream"},
    "schema": {"_cost", "_count", "_validate", "_work"},
    "server": {
        *("_collection", "_process_worker", "_processes", "_progress", "_routes", "_serve_http"),
        *("_serving", "_stopping", "_threads"),
    },
    "server.asking": {"_asker", "_forms"},
    "server.features": {"_catalog"},
    "sync": {"_run"},
    "tasks": {"_exchange", "_shared"},
    "testing": {"_contract"},
    "testing.authorization_server": {"_options"},
    "transports": {"_connection_bound", "_memory", "_stream"},
    "transports.http": {"_engine", "_fetch", "_http1_engine", "_httpx_engine"},
    "transports.http.client": {"_kept_connections", "_legacy_session", "_sender", "_transport", "_websocket"},
    "transports.http.hypercorn": {"_application", "_connection", "_sockets", "_tls", "_workers"},
    "transports.http.server": {
        "_asgi",
        "_event_store",
        "_legacy_session",
        "_legacy_session_manager",
        "_legacy_streams",
        "_lifespan",
        "_modern",
        "_websocket",
    },
    "transports.http.ws": {"_stream"},
    "transports.stdio": {"_client", "_descendants", "_pipes", "_stderr"},
    "types": {"_faults", "_model", "_structure_hooks"},
    "wire": {"_jsonrpc", "_uri_template"},
}
"""The private modules that tests import, by folder: they test behaviour that the public names cannot show."""


def test_tests_import_facades_and_only_the_listed_private_modules() -> None:
    private: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "trio_mcp":
                for alias in node.names:
                    parts = [*str(node.module).split(".")[1:], alias.name]
                    last = next((at for at, part in enumerate(parts) if part.startswith("_")), None)
                    if last is not None:
                        private[".".join(parts[:last])].add(parts[last])

    assert private == PRIVATE_MODULES_OF_TESTS
