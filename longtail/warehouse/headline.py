"""The headline of a published warehouse: a few rows for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from longtail.warehouse.publication import open_publication

HEADLINE_SQL = """select accuracy.dataset, accuracy.prompt, accuracy.model, accuracy.method, accuracy.n,
    accuracy.n_correct, accuracy.accuracy, accuracy.ci_low, accuracy.ci_high,
    nullif(accuracy.share_declined, 0) as share_declined,
    if(accuracy.n_declined > 0, accuracy.accuracy_attempted, null) as accuracy_attempted,
    if(accuracy.n_declined > 0, accuracy.accuracy_attempted_ci_low, null) as accuracy_attempted_ci_low,
    if(accuracy.n_declined > 0, accuracy.accuracy_attempted_ci_high, null) as accuracy_attempted_ci_high,
    correlation.pearson_binned,
    adaptive.accuracy_adaptive, adaptive.accuracy_always, adaptive.accuracy_never,
    adaptive.share_retrieved
from marts.fct_accuracy as accuracy
left join marts.fct_popularity_correlation as correlation using (dataset, prompt, model, method, relation)
left join (
    select found.* from marts.fct_adaptive_accuracy as found
    inner join marts.dim_methods as memory on found.parametric_method = memory.method
    where memory.kind = 'memory' and found.search = 'exact' and found.threshold_scope = 'per_relation'
) as adaptive
    on accuracy.dataset = adaptive.dataset and accuracy.prompt = adaptive.prompt
    and accuracy.model = adaptive.model and accuracy.method = adaptive.retrieval_method
left join marts.dim_models as models on accuracy.model = models.model
left join marts.dim_methods as methods on accuracy.method = methods.method
left join marts.dim_datasets as datasets on accuracy.dataset = datasets.dataset
left join marts.dim_prompts as prompts on accuracy.prompt = prompts.prompt
where accuracy.relation = 'all'
order by datasets.position_in_study, prompts.position_in_study, models.n_parameters, accuracy.model,
    not methods.is_parametric, accuracy.method"""
"""The query of the terminal and of the report."""


@dataclass(frozen=True)
class HeadlineRow:
    """One (dataset, prompt, model, method), in columns of `HEADLINE_SQL`. `share_declined` and the accuracy of the other
    answers, `accuracy_attempted`, are None where no answer is declined.

    `pearson_binned` is the correlation of bin accuracy with log popularity. The last four are None for methods that do
    not retrieve. The three accuracies are held-out: means over splits, thresholds per relation, against memory alone,
    on the questions with popularity and both answers.
    """

    dataset: str
    prompt: str
    model: str
    method: str
    n: int
    accuracy: float
    ci_low: float
    ci_high: float
    pearson_binned: float | None
    accuracy_adaptive: float | None
    accuracy_always: float | None
    accuracy_never: float | None
    share_retrieved: float | None
    share_declined: float | None = None
    accuracy_attempted: float | None = None


def headline(published: Path) -> list[HeadlineRow]:
    """The headline of a published file. Errors: `PublishError` if it is missing or unreadable."""
    with open_publication(published) as connection:
        cursor = connection.execute(HEADLINE_SQL)
        names = [column[0] for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [HeadlineRow(**{one.name: row[one.name] for one in fields(HeadlineRow)}) for row in rows]


_COLUMNS: tuple[tuple[str, Callable[[HeadlineRow], str]], ...] = (
    ("dataset", lambda row: row.dataset),
    ("prompt", lambda row: row.prompt),
    ("model", lambda row: row.model),
    ("method", lambda row: row.method),
    ("n", lambda row: f"{row.n:,}"),
    ("accuracy", lambda row: f"{row.accuracy:.3f}"),
    ("95 % interval", lambda row: f"{row.ci_low:.3f} to {row.ci_high:.3f}"),
    ("declined", lambda row: _share(row.share_declined)),
    ("of the rest", lambda row: _number(row.accuracy_attempted)),
    ("r(popularity)", lambda row: _number(row.pearson_binned, signed=True)),
    ("adaptive", lambda row: _number(row.accuracy_adaptive)),
    ("always", lambda row: _number(row.accuracy_always)),
    ("never", lambda row: _number(row.accuracy_never)),
    ("retrieved", lambda row: _share(row.share_retrieved)),
)
_ONLY_IF_DECLINED = ("declined", "of the rest")
_TEXTS = ("dataset", "prompt", "model", "method")


def render_headline(rows: Sequence[HeadlineRow]) -> str:
    """A table in plain text: a header, a rule, one line per row; one sentence if there are no rows.

    Columns dataset and prompt are left out if they have only one value, those of declined answers if there are none.
    """
    if not rows:
        return "The published marts have no answers to questions; table catalogue lists what they have."
    shown = [
        (name, text)
        for name, text in _COLUMNS
        if (name not in ("dataset", "prompt") or len({text(row) for row in rows}) > 1)
        and (name not in _ONLY_IF_DECLINED or any(text(row) for row in rows))
    ]
    cells = [[name, *(text(row) for row in rows)] for name, text in shown]
    aligned = [_align(column, left=name in _TEXTS) for (name, _), column in zip(shown, cells, strict=True)]
    lines = ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _align(column: Sequence[str], *, left: bool) -> list[str]:
    width = max(map(len, column))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in column]


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _number(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return ""
    return f"{value:+.3f}" if signed else f"{value:.3f}"
