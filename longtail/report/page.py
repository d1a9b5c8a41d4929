"""A page of the report as one HTML file. It needs no network and no eval, and no data can act as markup.

The data are in a JSON block in which `<`, `>` and `&` are escaped, so that no label can end the block. Scripts put the
data on the page as text. The policy allows only the scripts and the style of this file, by their hashes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.report.figure import variables
from longtail.report.published import FigureRows

_FOLDER = Path(__file__).parent / "page"
_LONGEST_DICTIONARY = 0.5


@dataclass(frozen=True)
class Page:
    """A page: its scripts and styles by name, its title, and where a reader without scripts finds the same."""

    title: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    otherwise: str


REPORT = Page(
    "Longtail report",
    ("data", "chart", "links", "table", "examples", "quotes", "controls", "figures", "story", "main"),
    ("page",),
    "the same numbers in warehouse.duckdb beside this file, and the figures in the folder figures",
)
ANSWERS = Page(
    "Longtail answers",
    ("data", "links", "examples", "controls", "answer", "answers"),
    ("page", "answers"),
    "the answers in table marts.fct_answers of warehouse.duckdb beside this file",
)


def render(payload: Mapping[str, Any], page: Page = REPORT, connects: str = "") -> str:
    """The whole file of a `page`, for what its scripts read. `connects`: from where they may load more ('self')."""
    style = _style(page)
    sources = "\n".join((_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in page.scripts)
    script = _inline(f'"use strict";(()=>{{\n{sources}}})();')
    scripts = [*([charting_library()] if "chart" in page.scripts else []), script]
    policy = "; ".join((
        "default-src 'none'",
        f"script-src {' '.join(map(_hash, scripts))}",
        f"style-src {_hash(style)}",
        *([f"connect-src {connects}"] if connects else []),
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ))  # fmt: skip
    parts = {
        "policy": policy,
        "title": page.title,
        "style": style,
        "otherwise": page.otherwise,
        "data": embedded(payload),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    head, *rest = (_FOLDER / "page.html").read_text(encoding="utf-8").split("{")
    pieces = [head]
    for piece in rest:  # each slot once: inserted text is never searched for slots
        name, text = piece.split("}", 1)
        pieces += [parts[name], text]
    return "".join(pieces)


def embedded(payload: Any) -> str:
    """JSON without any character that has a meaning in HTML."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def columnar(read: FigureRows) -> dict[str, Any]:
    """The rows of a figure by column; repeated text is coded by its position among the distinct values."""
    return {
        "names": read.names,
        "columns": {name: _shorter([row[name] for row in read.rows]) for name in read.names},
    }


def _shorter(values: Sequence[Any]) -> Any:
    if not values or not all(value is None or isinstance(value, str) for value in values):
        return values
    column = encode(values)
    return values if len(column["words"]) > _LONGEST_DICTIONARY * len(values) else column


def encode(values: Sequence[str | None]) -> dict[str, list[Any]]:
    """The distinct texts, and for each value its position among them; -1 for None."""
    words = list(dict.fromkeys(value for value in values if value is not None))
    place = {word: at for at, word in enumerate(words)} | {None: -1}
    return {"words": words, "codes": [place[value] for value in values]}


@functools.cache
def charting_library() -> str:
    """Vega-Lite, Vega and their embedding, as vl-convert carries them: one script that sets `window.vegaEmbed`."""
    import vl_convert

    return _inline(f"(()=>{{{vl_convert.javascript_bundle('window.vegaEmbed=vegaEmbed;')}}})();")


def _style(page: Page) -> str:
    light, dark = variables("light"), variables("dark")
    themes = (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media print{{:root{{{light}color-scheme:light}}}}"
    )
    return themes + "".join((_FOLDER / f"{name}.css").read_text(encoding="utf-8") for name in page.styles)


def _inline(script: str) -> str:
    """A script that an HTML parser reads unchanged."""
    return script.replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
