# ruff: noqa: E501 (sentences of the page)
"""docs/paper_comparison.md, from `paper_comparison` of several studies' published warehouses.

    python -m tools.pages.paper_comparison <home>/<study>/published/warehouse.duckdb …

Numbers of studies that are not named stay as docs/paper_comparison.csv has them. A cell takes real data before the
sandbox, then the whole dataset before a part where no model is asked, then the largest model, the first method by name,
and the most questions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

from longtail.storage.home import PROJECT_ROOT
from tools.pages.real_models import rows_of, wrap

PLACE, RESULTS = "docs/paper_comparison.md", PROJECT_ROOT / "docs/paper_comparison.csv"
CELLS = PROJECT_ROOT / "longtail/study/paper_cells.csv"
_KEY = ["work", "item", "cell"]
_COUNTS = {"n_questions", "n_wordings", "wordings_added"}
_OURS = f"""
select {", ".join(_KEY)}, ours, ci_low, ci_high, n, accuracy_attempted, accuracy_attempted_ci_low,
    accuracy_attempted_ci_high, study, is_real, model, n_parameters, share_declined, has_declines, prompt, dataset, is_part,
    method, passages
from paper_comparison left join dim_models using (model)
"""
_WORKS = {
    "PopQA": "When Not to Trust Language Models (Mallen et al., 2023)",
    "PopQA-TP": "Predicting Question-Answering Performance through Semantic Consistency (Rabinovich et al., 2023)",
    "According to": "“According to …”: Prompting Language Models Improves Quoting (Weller et al., 2023)",
    "Atlas on ParaRel": "Evaluating Atlas for factual consistency (README of lovhag/atlas)",
}
_HEADER = ("where", "number", "paper", "ours", "n", "declined", "prompt", "passages", "note")
Cell = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """What a work claims: it holds for a cell of `item` if `holds` says so of our number and that of the cell `base`.

    `base` is an item and what replaces the part of the cell's name before ": ". `untested`: why no run here can say.
    """

    work: str
    says: str
    item: str
    cells: tuple[str, ...] = ()
    holds: Callable[[Cell, Cell], bool] = lambda cell, base: bool(cell["ours"] > base["ours"])
    base: tuple[str, str] | None = None
    untested: str = ""


def _above_zero(cell: Cell, _: Cell) -> bool:
    return bool(cell["ci_low"] > 0)


_DATASETS = ("TriviaQA", "NQ", "HotpotQA")
_CLAIMS = (
    Claim("PopQA", "The popularity of a subject predicts what a model remembers", "Figure 4",
          ("GPT-3 davinci-003: correlation with popularity",), _above_zero),
    Claim("PopQA", "Even the largest model is wrong about most subjects", "section 4.2",
          ("GPT-3 davinci-003: accuracy",), lambda cell, _: cell["ci_high"] < 0.5),
    Claim("PopQA", "Even the largest model knows few answers about the least popular subjects", "Figure 5",
          ("GPT-3 davinci-003: accuracy on the 4,000 least popular",), lambda cell, _: cell["ci_low"] <= cell["paper"]),
    Claim("PopQA", "Retrieval raises the accuracy even of the largest model", "section 5.2",
          ("GPT-3 davinci-003: gain of always retrieving",), lambda cell, _: cell["ours"] > 0),
    Claim("PopQA", "Where a passage destroys a right answer, recall@1 is far below that of all questions", "Table 1",
          ("memory alone right: recall@1",), lambda cell, base: cell["ci_high"] < base["ci_low"], ("Table 1", "all questions")),
    Claim("PopQA", "Adaptive retrieval is better than always and than never retrieving", "Figure 9",
          ("GPT-3 davinci-003: gain of adaptive retrieval",), _above_zero),
    Claim("PopQA", "Adaptive retrieval saves time and money", "Figures 11, 12",
          untested="no study here bills a service, and times differ between machines"),
    Claim("PopQA-TP", "The published wordings are 118,643", "Table 1",
          ("total: all wordings",), lambda cell, _: cell["ours"] == cell["paper"]),
    Claim("PopQA-TP", "A regression predicts better than the majority which answers are right", "Table 5",
          ("Flan-UL2: accuracy, all relations",), lambda cell, base: cell["ci_low"] > base["ours"],
          ("Table 5", "Flan-UL2: majority, all relations")),
    Claim("PopQA-TP", "So do consistency and certainty alone", "Table 6",
          ("SCons, Cert: accuracy, all relations",), lambda cell, base: cell["ci_low"] > base["ours"],
          ("Table 5", "Flan-UL2: majority, all relations")),
    Claim("According to", "Prompts that ask for Wikipedia raise the share that is quoted from it", "Table 2",
          tuple(f"FLAN-T5 XXL: {dataset} gain in QUIP" for dataset in _DATASETS), _above_zero),
    Claim("According to", "Prompts that ask for something else do not", "Table 1",
          tuple(f"without using any information from Wikipedia: {dataset} QUIP" for dataset in _DATASETS),
          lambda cell, base: cell["ours"] <= base["ours"], ("Table 1", "no addition")),
    Claim("According to", "The answers themselves become better, or stay as good", "Table 2",
          untested="the model is asked in two steps, and answers before it reads the grounding prompt"),
    Claim("According to", "Quoting grows with size, with instruction tuning and with popularity", "Figures 2 to 4",
          untested="one model of one size was asked"),
    Claim("Atlas on ParaRel", "Fine-tuned and with passages, it is right for most facts", "README, results",
          tuple(f"{relation}: accuracy of run 12" for relation in ("P17", "P101", "P264", "P449")),
          untested="the model here is not tuned, and answers from memory"),
)  # fmt: skip


def ours_of(marts: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """A study's numbers. `marts`: its published warehouse, with its marts in the search path."""
    return marts.sql(_OURS).df()


def chosen(studies: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One row for each of the papers' cells that a study fills, in the papers' order."""
    rows = pd.concat(studies).reset_index(drop=True)
    ranked = rows.assign(
        rank_real=~rows.is_real.astype(bool),
        rank_part=rows.model.isna() & rows.is_part.astype(bool),
        rank_size=-rows.n_parameters.astype(float).fillna(0),
        rank_n=-rows.n,
    ).sort_values(["rank_real", "rank_part", "rank_size", "method", "rank_n", "dataset", "prompt"])
    first = ranked.drop_duplicates(_KEY)[rows.columns]
    return _paper_cells()[_KEY].merge(first, on=_KEY)


def _paper_cells() -> pd.DataFrame:
    return pd.read_csv(CELLS, keep_default_na=False, na_values=[""])


def page(results: pd.DataFrame) -> str:
    """The whole page. `results`: rows of `chosen`."""
    merged = _paper_cells().merge(results, on=_KEY, how="left")
    cells: list[Cell] = merged.astype(object).where(merged.notna(), None).to_dict("records")
    filled = [cell for cell in cells if cell["ours"] is not None]
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in sorted(
        filled, key=lambda cell: (not cell["is_real"], bool(cell["model"]), -(cell["n_parameters"] or 0))
    ):
        groups.setdefault((cell["is_real"], cell["model"]), []).append(cell)
    real = [_counted(group, *key[1:]) for key, group in groups.items() if key[0]]
    n_real = sum(cell["is_real"] for cell in filled)
    lines = [
        "# The papers' numbers and ours",
        "",
        *wrap(
            f"**{n_real} of {len(filled)} cells are real: {'; '.join(real)}.** The other {len(filled) - n_real} are of the",
            "sandbox, whose synthetic world says nothing about real models.",
            f"{len(cells) - len(filled)} numbers of the papers have no counterpart here; the last section says why.",
        ),
        "",
        *wrap(
            "No work's prompt lets a model decline; a model here that may is marked, and a declined answer counts as wrong.",
            "`attempted` is the accuracy over the other answers. Intervals are 95 % intervals of their marts. Percentages are",
            "written as shares. In the columns n, prompt and passages the work's stand before the slash, ours after it.",
            "The papers' numbers are in `longtail/study/paper_cells.csv`, ours in",
            "[paper_comparison.csv](paper_comparison.csv). `python -m tools.pages.paper_comparison` with published warehouses",
            "renews the rows of their studies, and writes this page. `popqa_tp` was cut to answers to the questions as PopQA",
            "asks them, `pararel` to four relations. `according_to` asks in two steps, first for the answer, and its corpus is",
            "a small part of Wikipedia ([according_to.md](according_to.md)). [paper_claims.md](paper_claims.md) has more of the",
            "sandbox.",
        ),
        "",
        "## What each work claims, and whether it holds here",
    ]
    places = {(cell["work"], cell["item"], cell["cell"]): cell for cell in cells}
    for work, title in _WORKS.items():
        lines += ["", f"**{title}**", ""]
        for claim in _CLAIMS:
            if claim.work == work:
                lines += wrap(f"- {_judged(claim, places)}")
    lines += ["", "## Cells by model"]
    for (is_real, model), group in groups.items():
        studies = ", ".join(dict.fromkeys(f"`{cell['study']}`" for cell in group))
        name = f"`{model}`" if model else "no model: counts of data and of passages"
        lines += ["", f"### {'real' if is_real else 'sandbox'}, {name}: {len(group)} cells of {studies}", ""]
        lines += rows_of(_HEADER, [_row(cell) for cell in group])
    lines += ["", "## Numbers without a counterpart here", ""]
    datasets = {cell["paper_dataset"] for cell in filled}
    lines += rows_of(
        ("where", "number", "paper", "why"),
        [(f"{cell['work']}, {cell['item']}", cell["cell"], _number(cell, "paper"), _missing(cell, datasets))
         for cell in cells if cell["ours"] is None],
    )  # fmt: skip
    return "\n".join([*lines, ""])


def _counted(group: Sequence[Cell], model: str | None) -> str:
    if model is None:
        return f"{len(group)} counts of data"
    size, declined = group[0]["n_parameters"], any(cell["has_declines"] for cell in group)
    words = f"{size / 1e9:.3g} billion" if size >= 1e9 else f"{size / 1e6:.3g} million"
    return (
        f"{len(group)} of `{model}`, a model of {words} parameters{', which may decline' if declined else ''}"
    )


def _judged(claim: Claim, places: dict[tuple[str, str, str], Cell]) -> str:
    """One sentence: the claim, whether it holds, for which model, and the numbers."""
    cells = [places[claim.work, claim.item, name] for name in claim.cells]
    cells = [cell for cell in cells if cell["ours"] is not None]
    says = f"{claim.says} ({claim.item})"
    if not cells:
        return f"{says}: **not tested**, {claim.untested or 'no study here has the numbers'}."
    first, bases = cells[0], [places[_base(claim, cell)] for cell in cells]
    held = [_holds(claim, *pair) for pair in zip(cells, bases, strict=True)]
    verdicts = {0: "does not hold", len(cells): "holds"}
    verdict = verdicts.get(held.count(True), f"holds in {held.count(True)} of {len(cells)}")
    if None in held:
        verdict = "is undecided without an interval"
    where = f" for `{first['model']}`" if first["model"] else ""
    verdict += where if first["is_real"] else f" in the sandbox{where}"
    if all(held) and not all(
        _holds(claim, _attempted(cell), base) for cell, base in zip(cells, bases, strict=True)
    ):
        verdict += ", but not over the answers that it attempted"
    numbers = []
    for cell, base in zip(cells, bases, strict=True):
        declined = f"{cell['share_declined']:.0%} declined" if cell["share_declined"] else None
        beside = f"beside {_number(base, 'ours')}" if base is not cell else None
        of = [f"`{cell['dataset']}`", declined, beside, f"paper {_number(cell, 'paper')}"]
        numbers.append(f"{_ours(cell)}, n {cell['n']:,.0f} ({', '.join(filter(None, of))})")
    verdict = f"not tested**, {claim.untested}; `{first['model']}`" if claim.untested else f"{verdict}**"
    return f"{says}: **{verdict}: {'; '.join(numbers)}."


def _holds(claim: Claim, cell: Cell, base: Cell) -> bool | None:
    """None: the claim needs a number or an end of an interval that is null."""
    try:
        return claim.holds(cell, base)
    except TypeError:
        return None


def _attempted(cell: Cell) -> Cell:
    """The cell without the answers that declined, if it is an accuracy."""
    if cell["accuracy_attempted"] is None:
        return cell
    names = {
        "ours": "accuracy_attempted",
        "ci_low": "accuracy_attempted_ci_low",
        "ci_high": "accuracy_attempted_ci_high",
    }
    return {**cell, **{name: cell[other] for name, other in names.items()}}


def _base(claim: Claim, cell: Cell) -> tuple[str, str, str]:
    if claim.base is None:
        return cell["work"], cell["item"], cell["cell"]
    item, name = claim.base
    return cell["work"], item, name if ": " in name else f"{name}: {cell['cell'].split(': ')[1]}"


def _row(cell: Cell) -> tuple[str, ...]:
    declined = "–" if cell["model"] is None else "may not"
    if cell["has_declines"]:
        share = cell["share_declined"]
        declined = "may" if share is None else f"may: {share:.0%}"
    return (
        f"{cell['work']}, {cell['item']}",
        cell["cell"],
        _number(cell, "paper"),
        _ours(cell),
        f"{cell['paper_size'] or '–'} / {cell['n']:,.0f} of `{cell['dataset']}`{', a part' if cell['is_part'] else ''}",
        declined,
        _both(cell["paper_prompt"], cell["prompt"] and f"`{cell['prompt']}`"),
        _both(cell["paper_passages"], cell["passages"]),
        cell["note"] or "–",
    )


def _both(theirs: str | None, ours: str | None) -> str:
    return f"{theirs or '–'} / {ours or '–'}" if theirs or ours else "–"


def _ours(cell: Cell) -> str:
    attempted = cell["share_declined"] and cell["accuracy_attempted"] is not None
    return _estimate(cell, "ours", "ci") + (
        f"; attempted {_estimate(cell, 'accuracy_attempted', 'accuracy_attempted_ci')}" if attempted else ""
    )


def _estimate(cell: Cell, name: str, interval: str) -> str:
    low, high = f"{interval}_low", f"{interval}_high"
    between = f" ({_number(cell, low)} to {_number(cell, high)})" if cell[low] is not None else ""
    return f"{_number(cell, name)}{between}"


def _number(cell: Cell, name: str) -> str:
    """Counts whole, shares with three digits."""
    if cell[name] is None:
        return "–"
    if cell["measure"] in _COUNTS or cell[name] >= 1000:
        return f"{cell[name]:,.0f}"
    return re.sub(r"^(-?)0\.", r"\1.", f"{cell[name]:.3f}").replace("-", "−")


def _missing(cell: Cell, datasets: set[str]) -> str:
    """Why no study here has the number."""
    is_asked = not cell["measure"] or cell["paper_dataset"] in datasets
    reasons = [None if is_asked else f"no run with `{cell['paper_dataset']}` here", cell["note"]]
    return "; ".join(filter(None, reasons)) or "no run with this measure here"


def shown(text: str) -> Iterator[tuple[str, ...]]:
    """The heading of its model and the columns of each cell of a page."""
    for part in text.split("\n### ")[1:]:
        heading, rows = part.split("\n## ")[0].split("\n", 1)
        for row in re.findall(r"^\| (?!where|---)(.+) \|$", rows, re.MULTILINE):
            yield heading, *row.split(" | ")


def main(paths: Sequence[str]) -> None:
    """Write the page and the table of its results."""
    studies = []
    for path in paths:
        marts = duckdb.connect(path, read_only=True)
        marts.execute("set search_path = 'marts'")
        studies.append(ours_of(marts))
    kept = pd.read_csv(RESULTS)
    renewed = {name for rows in studies for name in rows.study}
    results = chosen([*studies, kept[~kept.study.isin(renewed)]])
    results.to_csv(RESULTS, index=False, lineterminator="\n", float_format="%.12g")
    (PROJECT_ROOT / PLACE).write_text(page(pd.read_csv(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
