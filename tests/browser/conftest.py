"""A fixture that starts a browser for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.browser.webdriver import Browser, open_browser


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncGenerator[Browser]:
    async with open_browser(tmp_path / "profile") as opened:
        yield opened
