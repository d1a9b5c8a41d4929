"""The pieces of code in the pages that readers type from."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from dagster_project.core.storage.home import PROJECT_ROOT

PAGES = [
    *(PROJECT_ROOT / name for name in ("README.md", "CONTRIBUTING.md", "dbt/README.md")),
    *sorted((PROJECT_ROOT / "docs").glob("*.md")),
]


def blocks(page: Path) -> list[str]:
    """The indented pieces of code of a page."""
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [textwrap.dedent(block) for block in found]
