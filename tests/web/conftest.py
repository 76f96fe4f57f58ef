"""Fixtures: a browser for each test, and a certificate for `localhost`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.transports.http.hypercorn.test_tls import Certificate, make_certificate
from tests.web.webdriver import Browser, open_browser


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncGenerator[Browser]:
    async with open_browser(tmp_path / "profile") as opened:
        yield opened


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))
