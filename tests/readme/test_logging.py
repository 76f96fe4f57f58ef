"""The page about logging: its table has the loggers of the package, and no others."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logging-and-errors.md").read_text(encoding="utf-8")


def test_the_page_names_each_logger_of_the_package() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r'getLogger\("(trio_mcp\.\w+)"\)', sources))
    own = {"trio_mcp.shared"} if "getLogger(__name__)" in sources else set[str]()
    rows = re.findall(r"^\| (`trio_mcp\..+) \| ", PAGE, re.MULTILINE)

    assert set(re.findall(r"trio_mcp\.\w+", " ".join(rows))) == named | own


def test_only_shared_backends_log_under_the_names_of_their_modules() -> None:
    files = [path for path in (ROOT / "src").rglob("*.py") if "getLogger(__name__)" in path.read_text(encoding="utf-8")]

    assert {path.parent.name for path in files} == {"shared"}
