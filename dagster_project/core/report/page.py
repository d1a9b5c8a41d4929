"""The report as one HTML file. It needs no network and no eval, and no data can act as markup.

What belongs here: assembling the file. What does not: the figures (`figures`), the scripts of the page (`page/*.js`),
its look (`page/page.css`, `palette`).

The data are in a JSON block in which `<`, `>` and `&` are escaped, so that no label can end the block. Scripts put the
data on the page as text. The policy allows only the two scripts and the style of this file, by their hashes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster_project.core.report.palette import variables
from dagster_project.core.report.rows import FigureRows

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("data", "chart", "table", "examples", "quotes", "controls", "figures", "story", "main")
_LONGEST_DICTIONARY = 0.5


def render(payload: Mapping[str, Any]) -> str:
    """The whole file for a `payload` (see `report.payload`)."""
    style, charting, script = _style(), charting_library(), _script()
    policy = "; ".join((
        "default-src 'none'",
        f"script-src {_hash(charting)} {_hash(script)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ))  # fmt: skip
    parts = {
        "policy": policy,
        "style": style,
        "data": embedded(payload),
        "charting": charting,
        "script": script,
    }
    head, *rest = (_PAGE / "page.html").read_text(encoding="utf-8").split("{")
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
        "columns": {name: _coded([row[name] for row in read.rows]) for name in read.names},
    }


def _coded(values: Sequence[Any]) -> Any:
    if not values or not all(value is None or isinstance(value, str) for value in values):
        return values
    words = list(dict.fromkeys(value for value in values if value is not None))
    if len(words) > _LONGEST_DICTIONARY * len(values):
        return values
    place = {word: at for at, word in enumerate(words)}
    return {"words": words, "codes": [-1 if value is None else place[value] for value in values]}


@functools.cache
def charting_library() -> str:
    """Vega-Lite, Vega and their embedding, as vl-convert carries them: one script that sets `window.vegaEmbed`."""
    import vl_convert

    return _inline(f"(()=>{{{vl_convert.javascript_bundle('window.vegaEmbed=vegaEmbed;')}}})();")


def _script() -> str:
    sources = (f"{(_PAGE / name).with_suffix('.js').read_text(encoding='utf-8')}\n" for name in _SCRIPTS)
    return _inline(f'"use strict";(()=>{{\n{"".join(sources)}}})();')


def _style() -> str:
    light, dark = variables("light"), variables("dark")
    themes = (
        f":root{{{light}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}"
        f"@media print{{:root,:root[data-theme],:root:not([data-theme=light]){{{light}color-scheme:light}}}}"
    )
    return themes + (_PAGE / "page.css").read_text(encoding="utf-8")


def _inline(script: str) -> str:
    """A script that an HTML parser reads unchanged."""
    return script.replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
