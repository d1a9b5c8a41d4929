"""The headline of a published warehouse: a few rows for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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


def headline(published: Path) -> list[dict[str, Any]]:
    """The rows of `HEADLINE_SQL` in a published file: one per (dataset, prompt, model, method).

    `pearson_binned` is the correlation of bin accuracy with log popularity. `share_declined` and the accuracy of the
    other answers, `accuracy_attempted`, are None where no answer is declined; `share_retrieved` and the accuracies
    beside it are None for methods that do not retrieve. These three accuracies are held-out: means over splits,
    thresholds per relation, against memory alone, on the questions with popularity and both answers.

    Errors: `PublishError` if the file is missing or unreadable.
    """
    with open_publication(published) as connection:
        cursor = connection.execute(HEADLINE_SQL)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


_COLUMNS = {
    "dataset": ("dataset", ""),
    "prompt": ("prompt", ""),
    "model": ("model", ""),
    "method": ("method", ""),
    "n": ("n", ","),
    "accuracy": ("accuracy", ".3f"),
    "95 % interval": ("interval", ""),
    "declined": ("share_declined", ".0%"),
    "of the rest": ("accuracy_attempted", ".3f"),
    "r(popularity)": ("pearson_binned", "+.3f"),
    "adaptive": ("accuracy_adaptive", ".3f"),
    "always": ("accuracy_always", ".3f"),
    "never": ("accuracy_never", ".3f"),
    "retrieved": ("share_retrieved", ".0%"),
}
"""By heading: the column, and how Python formats its numbers."""
_TEXTS = ("dataset", "prompt", "model", "method")


def render_headline(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table in plain text: a header, a rule, one line per row; one sentence if there are no rows.

    Columns dataset and prompt are left out if they have only one value, those of declined answers if there are none.
    """
    if not rows:
        return "The published marts have no answers to questions; table catalogue lists what they have."
    rows = [{**row, "interval": f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"} for row in rows]
    cells = {
        heading: ["" if row[column] is None else format(row[column], spec) for row in rows]
        for heading, (column, spec) in _COLUMNS.items()
    }
    left_out = {heading for heading in ("dataset", "prompt") if len({*cells[heading]}) == 1}
    left_out |= {heading for heading in ("declined", "of the rest") if not any(cells[heading])}
    aligned = [
        _align([heading, *column], left=heading in _TEXTS)
        for heading, column in cells.items()
        if heading not in left_out
    ]
    lines = ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _align(column: Sequence[str], *, left: bool) -> list[str]:
    width = max(map(len, column))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in column]
