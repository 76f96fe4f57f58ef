"""Fixtures: a browser for each test, and a certificate for `localhost`."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.transports.http.hypercorn.test_tls import Certificate, make_certificate
from tests.web.webdriver import Browser, open_browser

EXT_APPS = "TRIO_MCP_EXT_APPS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", type=Path, help="a folder for new pictures of the documentation")


@pytest.fixture
def screenshots(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder for pictures; those of a usual run are not kept."""
    folder: Path = request.config.getoption("--screenshots") or tmp_path
    return folder


@pytest.fixture
def ext_apps() -> str:
    """The library for views that the authors of the extension publish, as one module of JavaScript."""
    if EXT_APPS not in os.environ:
        pytest.fail(f"{EXT_APPS} is not set: run these tests with `nox -s web`, which installs the library")
    package = Path(os.environ[EXT_APPS], "node_modules", "@modelcontextprotocol", "ext-apps")
    return (package / "dist" / "src" / "app-with-deps.js").read_text(encoding="utf-8")


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncGenerator[Browser]:
    async with open_browser(tmp_path / "profile") as opened:
        yield opened


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))
