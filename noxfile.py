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

# Processes that share the tests of a session: as many as the machines that must be fast enough have cores. More would
# disturb the tests that measure.
IN_PARALLEL = ("-n", "2")

# Tests that put no message on a wire, as far as they take long.
SILENT = (
    *("codegen", "types", "wire", "test_schema.py", "test_schema_cost.py", "test_wire_validity.py"),
    *("server/test_abandoned.py", "server/test_form_properties.py", "server/test_signature_properties.py"),
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
    """The README does what it says: its first command in a fresh copy, and every program in it."""
    session.install(".", *group("readme"))
    session.run("pytest", "tests/readme", *session.posargs)


@nox.session
def peers(session: nox.Session) -> None:
    """Our client against other people's servers, and the official client against ours, each peer in its own home."""
    node = has_node(session)
    session.install(".", *group("runner"))
    homes = Path(session.create_tmp())
    for name, requirements in {"official": (OFFICIAL_SDK,), "sqlite": SQLITE_SERVER}.items():
        session.run("python", "-m", "venv", "--clear", str(homes / name))
        session.run(str(homes / name / "bin" / "pip"), "install", "--quiet", *requirements, external=True)
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
