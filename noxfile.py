"""What the project can do, as an index: ``nox`` runs every gate, ``nox -l`` lists the sessions.

A session whose name is not in the default set is run with ``nox -s NAME``; what follows ``--`` goes to the tool
that the session is about. Sessions need the network to fill their environments, and nothing else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import nox

ROOT = Path(__file__).parent
GROUPS = nox.project.dependency_groups
PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

OLDEST = "3.11"
NEWEST = "3.14"
LATER = ("3.12", "3.13", "3.14")

# Peers are pinned: a new release of one of them must not turn this project red overnight.
OFFICIAL_SDK = "mcp==2.3.0"
SQLITE_SERVER = ("mcp-server-sqlite==2025.4.25", "mcp<2")
EVERYTHING_SERVER = "@modelcontextprotocol/server-everything@2026.8.31"
INSPECTOR = ("@modelcontextprotocol/inspector@2.12.0", "node@24.21.0")
# The Inspector and the conformance suite need a newer Node than most machines have, so they bring their own.
CONFORMANCE_SUITE = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@24.21.0")
# What the benchmarks compare with, too. FastMCP wants the newest certifi, which not every index has, and needs it for
# nothing that is measured: so it comes without its requirements, and these by name.
FASTMCP = ("fastmcp==4.1.6", "fastmcp-slim==4.1.6")
FASTMCP_NEEDS = (
    *(OFFICIAL_SDK, "authlib>=1.6.11", "certifi", "cyclopts>=4", "exceptiongroup>=1.2.2", "griffelib>=2"),
    *("joserfc>=1.5", "jsonref>=1.1", "jsonschema-path>=0.3.4", "openapi-pydantic>=0.6", "packaging"),
    *("platformdirs>=4", "py-key-value-aio[filetree,memory]>=0.4.4,<0.5", "pydantic-settings>=2"),
    *("pydantic[email]>=2.12", "pyperclip>=1.9", "python-dotenv>=1.1", "pyyaml>=6,<7", "rich>=13.9.4"),
    *("uncalled-for>=0.4", "watchfiles>=1", "websockets>=15.0.1"),
)
TYPESCRIPT_SDK = ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/server@2.4.0")
# Looks for input that breaks things, and sees which branches it takes.
ATHERIS = "atheris==3.0.0"

# Processes that share the tests of a session: as many as the machines that must be fast enough have cores. More would
# disturb the tests that measure.
IN_PARALLEL = ("-n", "2")

# Tests that put no message on a wire, as far as they take long, and those whose messages are made up.
SILENT = (
    *("benchmarks", "fuzz", "model", "soak"),
    *("codegen", "schema", "types", "wire", "test_wire_validity.py"),
    *("server/asking/test_form_properties.py", "server/signature/test_signature_properties.py"),
    "server/test_abandoned.py",
    *("transports/test_child_process.py", "transports/test_stdio_descriptors.py"),
)

nox.needs_version = ">=2025.2.9"
nox.options.error_on_external_run = True


def group(*names: str) -> tuple[str, ...]:
    """The requirements of these dependency groups of pyproject.toml."""
    return GROUPS(PYPROJECT, *names)


def starts(version: str) -> bool:
    """Whether this machine has a Python of that version which runs and can make environments.

    A name on the path is not enough: version managers leave stand-ins there that only print an error.
    """
    program = shutil.which(f"python{version}")
    if program is None:
        return False
    needed = "import ensurepip, sqlite3, ssl, venv"
    probe = subprocess.run([program, "-c", needed], capture_output=True, check=False)  # noqa: S603  # found on the path
    return probe.returncode == 0


def has_node(session: nox.Session) -> bool:
    """Whether Node is here; where it is not, say so loudly, and fail in CI, where nothing may be left out."""
    if shutil.which("node") and shutil.which("npm"):
        return True
    message = "Node is not installed: what needs it is LEFT OUT of this session"
    if IN_CI:
        session.error(message)
    session.warn(message)
    return False


def has_browser(session: nox.Session) -> bool:
    """Whether Chromium and its driver are here, as Debian's packages have them.

    CI installs them where they are missing, and fails where it cannot; elsewhere it is said loudly.
    """
    programs = ("chromium", "chromedriver")
    if IN_CI and not all(map(shutil.which, programs)) and shutil.which("apt-get"):
        packages = ("chromium", "chromium-driver")
        for arguments in (("update",), ("install", "--yes", "--no-install-recommends", *packages)):
            command = ("apt-get", "--quiet", *arguments)
            session.run(*command, env={"DEBIAN_FRONTEND": "noninteractive"}, external=True, silent=True)
    missing = [name for name in programs if shutil.which(name) is None]
    if not missing:
        return True
    message = f"{' and '.join(missing)} not installed: the sign-in with a real browser is LEFT OUT"
    if IN_CI:
        session.error(message)
    session.warn(message)
    return False


def install_python_peer(session: nox.Session, home: Path, *requirements: str) -> None:
    """Make an environment for somebody else's package, so that its requirements do not meet ours."""
    session.run("python", "-m", "venv", "--clear", str(home))
    session.run(str(home / "bin" / "pip"), "install", "--quiet", *requirements, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: every rule with the exemptions of pyproject.toml, and its formatting."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def typing(session: nox.Session) -> None:
    """Mypy and pyright, both strict, as Python 3.11 and as 3.14 would read the code."""
    session.install("-e", ".", *group("typing"))
    for version in (OLDEST, NEWEST):
        session.run("mypy", "--python-version", version)
    if not has_node(session):
        session.skip("mypy passed; pyright needs Node")
    for version in (OLDEST, NEWEST):
        session.run("pyright", "--pythonversion", version)


@nox.session(python=[OLDEST, *filter(starts, LATER)])
def tests(session: nox.Session) -> None:
    """The test suite on every Python that starts here; on 3.11 with every branch of the package covered."""
    session.install("-e", ".", *group("tests"))
    if session.python != OLDEST or session.posargs:
        session.run("pytest", *(session.posargs or IN_PARALLEL))
        return
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *IN_PARALLEL)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session
def codegen_check(session: nox.Session) -> None:
    """The generated types are what `schema/` generates, and `schema/` is what its pins say. Needs no upstream file."""
    session.install("-e", ".", *group("codegen"))
    session.run("python", "-m", "codegen", "--check")


@nox.session
def readme(session: nox.Session) -> None:
    """Run every program of the README and of the pages in docs, and the README's first command in a fresh copy."""
    session.install(".", *group("readme"))
    session.run("pytest", "tests/readme", *session.posargs)


@nox.session
def peers(session: nox.Session) -> None:
    """Our client against other people's servers, and the official client against ours, each peer in its own home."""
    node = has_node(session)
    session.install(".", *group("runner"))
    homes = Path(session.create_tmp())
    for name, requirements in {"official": (OFFICIAL_SDK,), "sqlite": SQLITE_SERVER}.items():
        install_python_peer(session, homes / name, *requirements)
    selection = ["tests/peers"]
    if node:
        for name, packages in {"everything": (EVERYTHING_SERVER,), "inspector": INSPECTOR}.items():
            session.run("npm", "install", "--prefix", str(homes / name), *packages, external=True)
    else:
        selection += [f"--ignore=tests/peers/test_{name}.py" for name in ("everything_server", "inspector")]
    session.run("pytest", *selection, *session.posargs, env={"TRIO_MCP_PEERS": str(homes)})
    if not node:
        session.skip("the Python peers passed; server-everything and the Inspector need Node")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Look for input that breaks a parser or a state machine; `-- --seconds N [--target NAME]` looks so long at each.

    Without arguments it tries a few thousand inputs for each target, the same each time: a session of its own and not
    a test, because it needs atheris and processes, and because it sees each branch of what the tests only replay.
    """
    session.install("-e", ".", *group("tests"))
    # There are no wheels for some systems and Pythons; hypothesis looks there, without seeing branches.
    session.install("--only-binary=:all:", ATHERIS, success_codes=(0, 1), silent=True)
    session.run("python", "-m", "fuzz", "--work", session.create_tmp(), *session.posargs)
    if "--seconds" in session.posargs and "--target" not in session.posargs:
        session.run("pytest", "tests/model", "tests/fuzz", "--hypothesis-profile=long")


@nox.session
def bench_smoke(session: nox.Session) -> None:
    """The benchmarks still run: our cells, the floors', some of the official SDK, with hardly any repetitions.

    It proves that every adapter does the work and gets right results, and that tables are made of the figures. It says
    nothing about speed, and no figure can fail it.
    """
    session.install(".")
    homes = Path(session.create_tmp()) / "peers"
    install_python_peer(session, homes / "official", OFFICIAL_SDK)
    session.run("python", "-m", "benchmarks.run", "--smoke", "--peers", str(homes))


@nox.session
def conformance(session: nox.Session) -> None:
    """The protocol's own conformance suite against our server and our client; `-- --only NAME` runs one scenario."""
    if not has_node(session):
        session.skip("the suite needs npm")
    session.install(".")
    suite = str(Path(session.create_tmp()) / "suite")
    session.run("npm", "install", "--no-audit", "--no-fund", "--prefix", suite, *CONFORMANCE_SUITE, external=True)
    session.run("python", "-m", "tests.conformance.run", "--suite", suite, *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """A person's sign-in with a real browser: the consent page, the way back, and what the tokens are good for."""
    if not has_browser(session):
        session.skip("Chromium is not installed")
    session.install(".", *group("runner"))
    session.run("pytest", "tests/browser", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build the sdist and, from it, the wheel; install the wheel and use it where the sources are out of reach."""
    session.install("build", *group("runner"))
    dist = Path(session.create_tmp()) / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(dist))
    session.install(str(next(dist.glob("*.whl"))))
    # Outside the checkout, so that neither the sources nor the settings of pytest can be found from there.
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
    session.install(".")
    homes = Path(session.create_tmp()) / "peers"
    install_python_peer(session, homes / "official", OFFICIAL_SDK)
    install_python_peer(session, homes / "fastmcp", *FASTMCP_NEEDS)
    pip = str(homes / "fastmcp" / "bin" / "pip")
    session.run(pip, "install", "--quiet", "--no-deps", *FASTMCP, external=True)
    if node:
        packages = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(homes / "typescript"), *TYPESCRIPT_SDK)
        session.run(*packages, external=True, silent=True)
    session.run("python", "-m", "benchmarks.run", "--peers", str(homes), *session.posargs)


@nox.session(default=False)
def codegen(session: nox.Session) -> None:
    """Regenerate the types; `-- --check` fails on drift, `-- --from DIR` takes in new upstream schema files."""
    session.install("-e", ".", *group("codegen"))
    session.run("python", "-m", "codegen", *session.posargs)


@nox.session(default=False)
def spec(session: nox.Session) -> None:
    """Hold our types, and all messages of our tests, against upstream's own files: `nox -s spec -- --from DIR`.

    The second part runs every test that puts messages on a wire; what is left out puts none there, and takes long.
    """
    session.install("-e", ".", *group("tests"))
    session.run("python", "-m", "codegen", "spec", *session.posargs)
    left_out = [f"--ignore=tests/{each}" for each in SILENT]
    # By `python -m`, because the plugin is loaded before pytest has read `pythonpath`. The settings are named, because
    # pytest looks for them near what it takes for paths, and DIR may be anywhere.
    plugin = ("-c", "pyproject.toml", "-p", "tests.wire_validity.plugin")
    session.run("python", "-m", "pytest", *plugin, *left_out, *IN_PARALLEL, *session.posargs)


@nox.session(default=False)
def soak(session: nox.Session) -> None:
    """A long mixed load with faults, over real processes and sockets: `-- --minutes N [--over stdio|http|both]`.

    Fails on growth, on an answer that is lost or there twice, and on a process that uses CPU time at rest.
    `-- --idle-seconds 30` measures that for as long as the promise is: under 10 ms in 30 seconds.
    """
    session.install(".")
    session.run("python", "-m", "soak", *session.posargs)
