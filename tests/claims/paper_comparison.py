"""docs/paper_comparison.md, from `paper_comparison` of several studies' published warehouses.

    python -m tests.claims.paper_comparison <home>/<study>/published/warehouse.duckdb …

Name studies with the best comparison first: a cell takes real data before the sandbox, then the whole dataset before a
part where no model is asked, then the first warehouse that has it, its largest model, and the first method by name.
"""

from __future__ import annotations

import csv
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb

from dagster_project.core.storage.home import PROJECT_ROOT
from tests.claims.real_models import _filled, _table

PLACE = "docs/paper_comparison.md"
CELLS = PROJECT_ROOT / "dagster_project/core/study/paper_cells.csv"
_KEY = ("work", "item", "cell")
_CELLS = """
select work, item, cell, paper, ours, ci_low, ci_high, n, study, is_real, dataset, model, method, reason, prompt, measure
from paper_comparison as cells left join dim_models using (model)
order by is_real desc, model is null and reason like '%a part of%', n_parameters desc, method, n desc, dataset, prompt
"""
_WORKS = {
    "PopQA": "When Not to Trust Language Models (Mallen et al., 2023)",
    "PopQA-TP": "Predicting Question-Answering Performance through Semantic Consistency (Rabinovich et al., 2023)",
    "According to": "“According to …”: Prompting Language Models Improves Quoting (Weller et al., 2023)",
    "Atlas on ParaRel": "Evaluating Atlas for factual consistency (README of lovhag/atlas)",
}
Cell = dict[str, Any]


def chosen(warehouses: Sequence[duckdb.DuckDBPyConnection]) -> list[Cell]:
    """One row for each of the papers' cells that a study fills. `warehouses`: the studies' marts."""
    found: dict[tuple[str, ...], Cell] = {}
    ranks: dict[tuple[str, ...], tuple[bool, bool]] = {}
    for marts in warehouses:
        result = marts.execute(_CELLS)
        names = [column[0] for column in result.description or ()]
        for row in result.fetchall():
            cell = dict(zip(names, row, strict=True))
            key = tuple(cell[name] for name in _KEY)
            rank = (not cell["is_real"], cell["model"] is None and "a part of" in cell["reason"])
            if key not in found or rank < ranks[key]:
                found[key], ranks[key] = cell, rank
    return list(found.values())


def page(cells: Sequence[Cell]) -> str:
    """The whole page."""
    n_real = sum(cell["is_real"] for cell in cells)
    lines = [
        "# The papers' numbers and ours",
        "",
        *_filled(
            f"{len(cells)} numbers of the four works, each beside that of the nearest study here: {n_real} of real",
            f"questions, models or files, {len(cells) - n_real} of the sandbox, whose synthetic world says nothing about",
            "real models. A paper's number without anything comparable here is left out. The papers' numbers are in",
            "`dagster_project/core/study/paper_cells.csv`; every study's mart `paper_comparison` has those that it",
            "can set beside its own. `python -m tests.claims.paper_comparison` with published warehouses writes",
            "this page. Intervals are 95 % intervals of their marts; n is the number of questions, answers or",
            "texts. Percentages are written as shares.",
            "`popqa_tp` was cut to answers to the questions as PopQA asks them.",
            "[paper_claims.md](paper_claims.md) compares what the papers claim with the sandbox.",
        ),
    ]
    for work, title in _WORKS.items():
        own = _in_order([cell for cell in cells if cell["work"] == work])
        if not own:
            lines += ["", f"## {title}", "", "Nothing comparable was run."]
            continue
        lines += [
            "",
            f"## {title}",
            "",
            *_table(("where", "number", "paper", "ours", "study", "why they differ"), [*_rows(own)]),
        ]
    return "\n".join([*lines, ""])


def _in_order(cells: Sequence[Cell]) -> list[Cell]:
    """The cells as the papers have them, of one table those together that one study fills for one reason."""
    with CELLS.open(encoding="utf-8") as lines:
        places = [tuple(row[name] for name in _KEY) for row in csv.DictReader(lines)]
    tables = {key[:2]: at for at, key in reversed(list(enumerate(places)))}

    def order(cell: Cell) -> tuple[Any, ...]:
        key = tuple(cell[name] for name in _KEY)
        return tables[key[:2]], str(_from(cell)), places.index(key)

    return sorted(cells, key=order)


def _from(cell: Cell) -> tuple[Any, ...]:
    return tuple(cell[name] for name in ("study", "model", "method", "is_real"))


def _rows(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    """A line for each table of a paper and what it is compared with; its numbers stand below one another."""
    for (item, *_), group in itertools.groupby(cells, lambda cell: (cell["item"], *_from(cell))):
        own = list(group)
        world = "real" if own[0]["is_real"] else "sandbox"
        asked = dict.fromkeys(
            f"`{cell[name]}`" for name in ("dataset", "model", "method") for cell in own if cell[name]
        )
        reasons = dict.fromkeys(part for cell in own for part in cell["reason"].split("; ") if part)
        yield (
            item,
            _below(cell["cell"] for cell in own),
            _below(_number(cell, "paper") for cell in own),
            _below(map(_ours, own)),
            f"`{own[0]['study']}` ({world}): {', '.join(asked)}",
            "; ".join(reasons) or "–",
        )


def _below(texts: Iterable[str]) -> str:
    """Texts below one another; without breaks inside, so that the numbers of a line of the page stand side by side."""
    return "<br>".join(text.replace(" ", "\u00a0") for text in texts)


def _ours(cell: Cell) -> str:
    between = (
        f" ({_number(cell, 'ci_low')} to {_number(cell, 'ci_high')})" if cell["ci_low"] is not None else ""
    )
    is_count = cell["measure"] in ("n_questions", "n_wordings", "wordings_added")
    return f"{_number(cell, 'ours')}{between}" + ("" if is_count else f", n {cell['n']:,}")


def _number(cell: Cell, name: str) -> str:
    """Counts whole, shares with three digits."""
    if cell["measure"] in ("n_questions", "n_wordings", "wordings_added"):
        return f"{cell[name]:,.0f}"
    return f"{cell[name]:.3f}".replace("0.", ".", 1).replace("-", "−")


def shown(text: str) -> Iterator[tuple[str, ...]]:
    """Item, cell, paper's number, ours, and the study of each cell of a page."""
    for place, *cells, study in re.findall(
        r"^\| ([^|]+) \| (.+?) \| (.+?) \| (.+?) \| (`\w+` \(\w+\))",
        text.replace("\u00a0", " "),
        re.MULTILINE,
    ):
        yield from (
            (place, *cell, study) for cell in zip(*(part.split("<br>") for part in cells), strict=True)
        )


def main(paths: Sequence[str]) -> None:
    """Write the page."""
    found = []
    for path in paths:
        marts = duckdb.connect(path, read_only=True)
        marts.execute("set search_path = 'marts'")
        found.append(marts)
    (PROJECT_ROOT / PLACE).write_text(page(chosen(found)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
