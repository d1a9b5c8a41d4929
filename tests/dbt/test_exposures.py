"""The exposures list the tables that the code reads, no more and no fewer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from longtail.storage.home import PROJECT_ROOT

MARTS = {file.stem for file in (PROJECT_ROOT / "dbt" / "models" / "marts").rglob("*.sql")}
CORE = PROJECT_ROOT / "longtail"


def named_in(files: Iterable[Path]) -> set[str]:
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return set(re.findall(r"\b(?:fct|dim)_[a-z_]+", text)) & MARTS


@pytest.mark.parametrize(
    ("exposure", "files"),
    [
        ("report", sorted((CORE / "report").rglob("*.py"))),
        ("headline", [CORE / "warehouse" / "headline.py"]),
        ("router", sorted((CORE / "router").rglob("*.py"))),
    ],
)
def test_an_exposure_lists_what_its_code_reads(exposure: str, files: list[Path]) -> None:
    (declared,) = [
        one
        for one in yaml.safe_load((PROJECT_ROOT / "dbt/models/exposures.yml").read_text(encoding="utf-8"))[
            "exposures"
        ]
        if one["name"] == exposure
    ]
    refs = {re.fullmatch(r"ref\('(\w+)'\)", ref)[1] for ref in declared["depends_on"]}  # type: ignore[index]
    assert refs == named_in(files)
