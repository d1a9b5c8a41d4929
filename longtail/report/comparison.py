"""Two published warehouses, A and B, compared: the rows of each topic, and `compare.html` with the table beside it.

A question is the same if dataset and question_id are. Popularity is compared where both sides have the same measure of
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from longtail.report.figure import Dimensions, Figure, Section, bounds, columns_of
from longtail.report.marks import difference_x, names, points, series, single
from longtail.report.page import render
from longtail.report.published import FigureRows, banner, in_order, legible, read_dimensions, select, study
from longtail.report.report import figures_payload
from longtail.statistics.paired_comparisons import difference_interval, kinds_of_subjects
from longtail.statistics.resampling import seed_of
from longtail.storage.files import atomic_file
from longtail.warehouse.publication import open_publication

_KINDS = ("dataset", "prompt", "grounding_prompt", "model", "method", "relation")
_SETTINGS = """from (unpivot (
    select '{0}' as kind, {0} as name, 'yes' as published,
        columns(c -> not regexp_matches(c, '^({0}|position_in_study|asks|n_answers|n_questions.*)$'))::varchar
    from marts.dim_{0}s
) on columns(* exclude (kind, name)) into name setting value value)
union all """
_READ = {
    "answers": """select dataset, prompt, model, method, question_id, is_correct::int as is_correct,
    coalesce(subject_id, 'question ' || min(question_id) over (partition by dataset, question)) as cluster_id
from marts.fct_answers""",
    "questions": """select dataset, question_id, coalesce(subject, question) as subject, question,
    list_sort(gold_answers) as golds, subject_popularity as popularity, popularity_measure as measure
from marts.dim_questions""",
    "thresholds": """select * replace (if(decision = 'below', threshold_popularity, null) as threshold_popularity),
    n as n_questions
from marts.fct_adaptive_thresholds where search = 'exact'""",
    "gains": "from marts.fct_adaptive_accuracy where search = 'exact'",
    "settings": "".join(_SETTINGS.format(kind) for kind in _KINDS)  # noqa: S608
    + """select distinct 'answers of', concat_ws(', ', dataset, prompt, model, method), 'published', 'yes'
from marts.fct_answers
union all
select 'study', study, unnest(['description', 'code', 'dbt', 'DuckDB', 'seeds']), unnest([description, code_version,
    dbt_version, duckdb_version, (select string_agg(distinct seed, ', ' order by seed) from marts.fct_answers)])
from marts.publication""",
}


def _beside(table: str, key: str, columns: str, more: str, order: str = "all") -> str:
    """The query for columns of both sides, side by side, in the rows that both have."""
    pairs = ", ".join(f"a.{name} as {name}_a, b.{name} as {name}_b" for name in columns.split())
    key = f"dataset, prompt, model, parametric_method, retrieval_method, {key}"
    joined = f"a_{table} as a join b_{table} as b using ({key})"
    return f"select {more} {key}, {pairs} from {joined} order by {order}"  # noqa: S608


_TOPICS = {
    "accuracy": """with by_subject as (
    select dataset, prompt, model, method, cluster_id, count(*) as n_questions, sum(a.is_correct) as right_a,
        sum(b.is_correct) as right_b, count(*) filter (a.is_correct < b.is_correct) as now_right,
        count(*) filter (a.is_correct > b.is_correct) as now_wrong
    from a_answers as a join (from b_answers select * exclude (cluster_id)) as b
        using (dataset, prompt, model, method, question_id)
    group by all
),
by_kind as (
    select dataset, prompt, model, method, now_right - now_wrong as difference, n_questions,
        count(*) as n_subjects, sum(right_a) as right_a, sum(right_b) as right_b,
        sum(now_right) as now_right, sum(now_wrong) as now_wrong
    from by_subject group by all
)
select dataset, prompt, model, method, sum(n_questions * n_subjects)::bigint as n_shared,
    any_value(a.n) - n_shared as n_only_a, any_value(b.n) - n_shared as n_only_b, sum(right_a) / n_shared as accuracy_a,
    sum(right_b) / n_shared as accuracy_b, sum(now_right)::bigint as n_now_right, sum(now_wrong)::bigint as n_now_wrong,
    (n_now_right - n_now_wrong) / n_shared as difference,
    list(struct_pack(difference := by_kind.difference, n_questions, n_subjects)
        order by by_kind.difference, n_questions) as subjects
from by_kind
    join (from a_answers select dataset, prompt, model, method, count(*) as n group by all) as a
        using (dataset, prompt, model, method)
    join (from b_answers select dataset, prompt, model, method, count(*) as n group by all) as b
        using (dataset, prompt, model, method)
group by all order by all""",
    "thresholds": _beside(
        "thresholds", "relation", "n_questions decision threshold_popularity",
        "a.decision <> b.decision or a.threshold_popularity is distinct from b.threshold_popularity as is_moved,",
        "is_moved desc, relation <> 'all', dataset, prompt, model, retrieval_method, relation",
    ),
    "gains": _beside("gains", "threshold_scope", "n_questions gain gain_ci_low gain_ci_high", ""),
    "popularity": """with paired as (
    select dataset, a.popularity as a, b.popularity as b, a.question <> b.question as is_reworded,
        a.golds <> b.golds as has_other_golds,
        a.measure = b.measure and a.popularity + b.popularity is not null as is_known
    from a_questions as a join b_questions as b using (dataset, question_id)
),
ranked as (
    select *, rank() over of_a + count(*) over (partition by dataset, is_known, a) / 2 as rank_a,
        rank() over of_b + count(*) over (partition by dataset, is_known, b) / 2 as rank_b
    from paired
    window of_a as (partition by dataset, is_known order by a), of_b as (partition by dataset, is_known order by b)
)
select dataset, count(*) as n_shared, count(*) filter (is_reworded) as n_reworded,
    count(*) filter (has_other_golds) as n_other_gold_answers, count(*) filter (is_known) as n_with_popularity,
    median(b / a) filter (is_known and a > 0) as median_ratio, corr(rank_a, rank_b) filter (is_known) as rank_correlation,
    count(*) filter (is_known and b > 2 * a) as n_more_than_doubled,
    count(*) filter (is_known and a > 2 * b) as n_less_than_halved
from ranked group by all order by all""",
    "movers": """select distinct dataset, a.subject, a.popularity as popularity_a, b.popularity as popularity_b,
    (popularity_b + 1) / (popularity_a + 1) as ratio
from a_questions as a join b_questions as b using (dataset, question_id)
where a.measure = b.measure and a.popularity <> b.popularity
qualify dense_rank() over (partition by dataset order by greatest(ratio, 1 / ratio) desc, a.subject) <= 20
order by dataset, greatest(ratio, 1 / ratio) desc, a.subject""",
    "settings": """select kind, name, setting, a.value as value_a, b.value as value_b
from a_settings as a full join b_settings as b using (kind, name, setting)
where a.value is distinct from b.value and (setting = 'published' or (kind, name) in (
    select (kind, name) from a_settings intersect select (kind, name) from b_settings
))
order by setting <> 'published', kind = 'answers of', kind, name, setting""",
}  # fmt: skip
"""The rows of each topic, in the order of the page."""
_ALL_SAME = {"settings": "A and B have the same settings.", "movers": "No subject changed its popularity."}
_MUST_SHARE: dict[str, tuple[str, ...]] = {"settings": (), "popularity": ("dataset",), "movers": ("dataset",)}


Side = tuple[dict[str, str], dict[str, str] | None, Dimensions]
"""What a published file says about itself, its banner, and its dimensions."""


def compare(a: Path, b: Path) -> tuple[Side, Side, dict[str, pa.Table]]:
    """Both sides, and the rows by topic. Errors: `PublishError` if a file is missing, unreadable, or lacks a column."""
    with duckdb.connect() as memory:
        sides = _read(a, "a", memory), _read(b, "b", memory)
        rows = {topic: memory.execute(sql).to_arrow_table() for topic, sql in _TOPICS.items()}
    names = ["dataset", "prompt", "model", "method", "subjects"]
    compared = zip(*rows["accuracy"].select(names).to_pydict().values(), strict=True)
    bounds = [
        difference_interval(kinds_of_subjects(subjects), seed_of(0, key)) for *key, subjects in compared
    ]
    rows["accuracy"] = rows["accuracy"].drop_columns(["subjects"])
    for at, end in enumerate(("low", "high")):
        column = pa.array([interval[at] for interval in bounds], pa.float64())
        rows["accuracy"] = rows["accuracy"].append_column(f"difference_ci_{end}", column)
    return *sides, rows


def _read(published: Path, name: str, memory: duckdb.DuckDBPyConnection) -> Side:
    """Copy what is compared to tables `<name>_<query>` of `memory`."""
    with open_publication(published) as marts:
        for query, sql in _READ.items():
            memory.register(f"{name}_{query}", marts.execute(sql).to_arrow_table())
        return study(marts), banner(marts), read_dimensions(marts)


def explain_absence(topic: str, a: Dimensions, b: Dimensions) -> str:
    """Why a topic has no rows: what A and B do not share, by name."""
    for role in _MUST_SHARE.get(topic, ("dataset", "prompt", "model", "method")):
        if not set(a.order[role]) & set(b.order[role]):
            mine, others = (", ".join(side.order[role]) or "none" for side in (a, b))
            return f"A and B share no {role}: A has {mine}, B has {others}."
    return _ALL_SAME.get(topic, f"A and B have no row of {topic} in common.")


_CHANGE = points(
    difference_x("difference", "change in accuracy, B − A", 8), names("model"), series("method", "method"),
    interval=bounds("difference"), side_by_side=True, mark_at=0,
)  # fmt: skip
_FIGURES = {  # by topic: title of the section, title, caption
    "accuracy": (
        "Accuracy", "Accuracy on the questions that both answered",
        "Accuracy in B minus accuracy in A, with a bootstrap 95 % interval (10,000 resamples of subjects). With "
        "fewer than 20 subjects there is none. The table has how many answers are right now and were wrong, and the "
        "reverse."),
    "thresholds": (
        "Adaptive retrieval", "Where the thresholds moved",
        "Adaptive retrieval retrieves below a threshold (search `exact`), always, or never. A threshold moved if its "
        "number or the decision is another. Relation `all` has one threshold for all relations."),
    "gains": (
        "Adaptive retrieval", "What adaptive retrieval gains",
        "Held-out accuracy over the better of always and never, in each file, with its 95 % interval."),
    "popularity": (
        "Questions", "The questions that both have",
        "How many have another wording or other gold answers, and how far popularity drifted: median of B / A, rank "
        "correlation, how many more than doubled or fell to less than half."),
    "movers": (
        "Questions", "The subjects whose popularity changed most",
        "The 20 largest changes of a dataset, up or down. The ratio is (B + 1) / (A + 1), so that zero counts too."),
    "settings": (
        "The study", "What changed in the study",
        "Settings, models, methods, prompts, relations and versions, as published. What one file alone has comes first."),
}  # fmt: skip


def write_comparison(a: Path, b: Path, folder: Path) -> list[str]:
    """Write `compare.html` and `compare.parquet` to `folder`; return what was found, in lines.

    Errors: `PublishError` if a file cannot be compared, `LakeError` if one cannot be written.
    """
    (about_a, banner_a, in_a), (about_b, banner_b, in_b), by_topic = compare(a, b)
    missing = {topic: explain_absence(topic, in_a, in_b) for topic, rows in by_topic.items() if not len(rows)}
    findings = _findings({topic: rows.to_pylist() for topic, rows in by_topic.items()}, missing)
    mine, others = in_a.order, in_b.order
    shared = {role: [value for value in mine[role] if value in others[role]] for role in mine}  # stands first
    order = {role: list(dict.fromkeys([*shared[role], *mine[role], *others[role]])) for role in mine}
    dimensions = Dimensions(order, {})
    read = [
        in_order(_figure_rows(topic, rows, missing.get(topic)), dimensions)
        for topic, rows in by_topic.items()
    ]
    sections = [
        Section(title, title, "", tuple(rows.figure for rows in read if _FIGURES[rows.figure.key][0] == title),
                is_chapter=False)
        for title in dict.fromkeys(section for section, *_ in _FIGURES.values())
    ]  # fmt: skip
    about = {key: f"{about_a[key]} (A) and {about_b[key]} (B)" for key in ("name", "published")}
    page = {
        "study": {"description": "A and B, side by side", **about},
        "lead": "What A and B share is compared; differences are B minus A.",
        "banner": banner_a or banner_b,
        "provenance": {"A": str(a), "B": str(b)},
        "findings": findings,
        **figures_payload(sections, read, dimensions),
    }  # fmt: skip
    html, parquet = folder / "compare.html", folder / "compare.parquet"
    named = [rows.add_column(0, "topic", [[topic] * len(rows)]) for topic, rows in by_topic.items()]
    with atomic_file(parquet, folder) as temporary:
        pq.write_table(pa.concat_tables(named, promote_options="permissive"), temporary)
    with atomic_file(html, folder) as temporary:
        temporary.write_text(render(page), encoding="utf-8")
    return [*findings, f"page: {html}; table: {parquet}"]


def _figure_rows(topic: str, table: pa.Table, missing: str | None) -> FigureRows:
    _, title, shows = _FIGURES[topic]
    figure = Figure(
        topic, title, shows, "", f"from 'compare.parquet' where topic = '{topic}'",
        single(_CHANGE, rows="model", step=70) if topic == "accuracy" else None,
        ("threshold_scope",) if topic == "gains" else (),
    )  # fmt: skip
    with duckdb.connect() as memory:
        memory.register("rows", table)
        names, types, rows = select(memory, "from rows")
    return FigureRows(figure, columns_of(names, types, {}, ()), names, rows, missing)


def _findings(by_topic: dict[str, list[dict[str, Any]]], missing: dict[str, str]) -> list[str]:
    """A sentence on each of four topics, or why there is none."""
    said = dict(missing)
    if rows := by_topic["accuracy"]:
        judged = [row for row in rows if row["difference_ci_low"] is not None]
        n_sure = sum(row["difference_ci_low"] > 0 or row["difference_ci_high"] < 0 for row in judged)
        top = max(rows, key=lambda row: abs(row["difference"]))
        ends = "no interval"
        if top in judged:
            ends = f"{100 * top['difference_ci_low']:+.1f}, {100 * top['difference_ci_high']:+.1f}"
        said["accuracy"] = (
            f"{n_sure} of {len(rows)} differences in accuracy have an interval without 0. The largest is {top['model']}, "
            f"{top['method']}: {100 * top['difference']:+.1f} points [{ends}]; of {top['n_shared']:,} answers "
            f"{top['n_now_right']:,} are now right, {top['n_now_wrong']:,} now wrong."
        )
    if rows := by_topic["thresholds"]:
        said["thresholds"] = f"{sum(row['is_moved'] for row in rows):,} of {len(rows):,} thresholds moved."
    if rows := by_topic["popularity"]:
        said["popularity"] = " ".join(
            f"{row['dataset']}: {row['n_shared']:,} questions in both, {row['n_with_popularity']:,} with popularity; "
            f"{row['n_more_than_doubled']:,} more than doubled, {row['n_less_than_halved']:,} fell to less than half."
            for row in rows
        )
    if rows := by_topic["settings"]:
        n_lone = sum(row["setting"] == "published" for row in rows)
        said["settings"] = (
            f"Settings that differ: {len(rows) - n_lone:,}. Models, methods or other parts only in one: {n_lone:,}."
        )
    return [legible(said[topic]) for topic in ("accuracy", "thresholds", "popularity", "settings")]
