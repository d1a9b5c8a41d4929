"""Tables for the audit: what happened to every row, and how much the rules of correctness disagree."""

from __future__ import annotations

from longtail.report.figure import Column, Figure
from longtail.report.figures.memory import KEY, N

RECONCILIATION = Figure(
    key="reconciliation",
    section="audit",
    title="Every row accounted for",
    shows="Rows in the lake table, rows in the mart made from it, and rows quarantined because they could not be read. "
    "Rows outside the study belong to models or datasets that the study no longer has.",
    source="Longtail's own",
    tables=("fct_lake_reconciliation",),
    sql="""select table_name, mart, n_lake, n_outside_study, n_mart, n_quarantined
from marts.fct_lake_reconciliation
order by table_name""",
    columns=(
        Column("table_name", "lake table"),
        Column("mart", "mart"),
        Column("n_lake", "rows in the lake", "count"),
        Column("n_outside_study", "outside the study", "count"),
        Column("n_mart", "rows in the mart", "count"),
        Column("n_quarantined", "quarantined", "count"),
    ),
    kind="table",
)
QUARANTINE = Figure(
    key="quarantine",
    section="audit",
    title="Quarantined rows",
    shows="Rows that could not be read or did not fit the table, by reason, with one example each.",
    source="Longtail's own",
    tables=("fct_quarantine",),
    sql="""select table_name, partition, reason, n, example_row_key
from marts.fct_quarantine
order by n desc, table_name, partition, reason
limit 500""",
    columns=(
        Column("table_name", "lake table"),
        Column("partition", "partition"),
        Column("reason", "reason"),
        N,
        Column("example_row_key", "for example"),
    ),
    kind="table",
)
DISAGREEMENT = Figure(
    key="rules_of_correctness",
    section="audit",
    title="Do the rules of correctness agree?",
    shows="Four rules judge every answer. All other figures use `popqa` (the prediction contains a gold answer, in "
    "upper or lower case). Rows with different verdicts show how much depends on that choice.",
    source="SPEC §5",
    tables=("fct_correctness_disagreement",),
    sql="""select dataset, prompt, model, method, is_correct, is_correct_case_sensitive, is_correct_normalized,
    is_exact_match, n, share
from marts.fct_correctness_disagreement
order by dataset, prompt, model, method, n desc""",
    columns=(
        *KEY,
        Column("is_correct", "popqa", "flag"),
        Column("is_correct_case_sensitive", "case-sensitive", "flag"),
        Column("is_correct_normalized", "normalised", "flag"),
        Column("is_exact_match", "exact match", "flag"),
        N,
        Column("share", "share", "share"),
    ),
    kind="table",
)

COVERAGE = Figure(
    key="answer_coverage",
    section="audit",
    title="Expected and missing rows",
    shows="Rows that the study asks for, by table, model and method, and how many of them are missing or quarantined.",
    source="Longtail's own",
    tables=("fct_answer_coverage",),
    sql="""select dataset, prompt, model, method, table_name, n_expected, n_missing, n_quarantined, state
from marts.fct_answer_coverage
order by table_name, dataset, prompt, model, method""",
    columns=(
        Column("table_name", "lake table"),
        *KEY,
        Column("n_expected", "asked for", "count"),
        Column("n_missing", "missing", "count"),
        Column("n_quarantined", "quarantined", "count"),
        Column("state", "state"),
    ),
    kind="table",
)

FAILED = Figure(
    key="failed_answers",
    section="audit",
    title="Answers that failed",
    shows="Questions to which no answer came back, by reason, beside the answers of the same model and method (n). They "
    "are in no rate.",
    source="SPEC §12",
    tables=("fct_failed_answers",),
    sql="""select table_name, dataset, prompt, model, method, reason, n_failed, n, share_failed, example_row_key
from marts.fct_failed_answers
order by n_failed desc, table_name, dataset, prompt, model, method, reason
limit 500""",
    columns=(
        Column("table_name", "lake table"),
        *KEY,
        Column("reason", "reason"),
        Column("n_failed", "failed", "count"),
        N,
        Column("share_failed", "share", "share"),
        Column("example_row_key", "for example"),
    ),
    kind="table",
)

FIGURES = (RECONCILIATION, COVERAGE, FAILED, QUARANTINE, DISAGREEMENT)
