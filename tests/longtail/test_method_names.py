"""SQL, the report and its scripts read the flags of lake table `methods`: they name no method."""

from __future__ import annotations

import re

from longtail.methods import METHODS, RETRIEVAL
from longtail.storage.home import PROJECT_ROOT

ENGLISH = {
    "elsewhere",
    "http",
    "oracle",
    "random",
    "relevant",
    "swapped",
}  # words that a sentence may need: they count in quotes alone
_QUOTES = "'\"`"
FILES = [
    *(PROJECT_ROOT / "dbt").rglob("*.sql"),
    *(
        file
        for folder in ("report", "warehouse")
        for file in (PROJECT_ROOT / "longtail" / folder).rglob("*")
        if file.suffix in {".py", ".js", ".html", ".css"}
    ),
]


def names_in(text: str) -> set[str]:
    """The methods that a text names, in identifiers and comments too."""
    text = text.replace("dense_rank", "")
    return {
        name
        for name in METHODS
        if re.search(f"[{_QUOTES}]{name}[{_QUOTES}]" if name in ENGLISH else f"(?<![a-z]){name}(?![a-z])", text)
    }  # fmt: skip


def test_no_method_is_named() -> None:
    found = {
        str(file.relative_to(PROJECT_ROOT)): names_in(file.read_text(encoding="utf-8")) for file in FILES
    }
    assert len(found) > 150
    assert {file: names for file, names in found.items() if names} == {}


def test_a_name_is_found_wherever_it_stands() -> None:
    for name in set(METHODS) - ENGLISH:
        for text in (f"where method = '{name}'", f"-- {name} reads it", f"{name}_text", f"as of_{name}"):
            assert names_in(text) == {name}
    assert names_in("method in ('random')") == {"random"}
    assert names_in("a random draw, dense_rank() over ()") == set()


def test_records_agree_with_themselves() -> None:
    for name, method in METHODS.items():
        assert name == method.name
        assert (method.kind == RETRIEVAL) == (method.retriever is not None) == (not method.is_parametric)
