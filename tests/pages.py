"""The pieces of code in the pages that readers type from, and a study to try them with."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from longtail.storage.home import PROJECT_ROOT

PAGES = [
    *(PROJECT_ROOT / name for name in ("README.md", "CONTRIBUTING.md", "dbt/README.md")),
    *sorted((PROJECT_ROOT / "docs").glob("*.md")),
]

TINY_STUDY = """\
name: tiny
description: A small world and the smallest reference model
source: {kind: sandbox, seed: 3, facts_per_relation: 8, snapshot: "2026-10"}
datasets: [{name: tiny}]
prompts: [{name: zero_shot, format: qa}]
models: [{name: reference_s, path: "sandbox:s"}]
methods: [closed_book, bm25]
popularity: {measure: page_views, n_months: 2, last_month: "2026-10"}
seed: 0
"""


def blocks(page: Path) -> list[str]:
    """The indented pieces of code of a page."""
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [textwrap.dedent(block) for block in found]
