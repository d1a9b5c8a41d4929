"""Figures of the questions (popularity, sampling, linking), and tables for the audit: what happened to every row."""

from __future__ import annotations

from longtail.report.figure import Figure, bounds
from longtail.report.marks import (
    MODELS,
    categories,
    curves_in_panels,
    difference_x,
    panels,
    popularity_x,
    quantity,
    rows_of_points,
    single,
)

DATASETS = Figure(
    key="datasets",
    title="What the questions lack",
    shows="Questions by dataset, whatever is picked above. Those without popularity are left out of every analysis of "
    "popularity. Those without a relation count under `all` alone. An upper bound finds no passage for those without a "
    "subject.",
    source="SPEC §1",
    sql="""select dataset as questions_of, source, n_questions,
    n_questions - n_questions_with_popularity as n_without_popularity,
    n_questions_without_subject, n_questions_without_relation
from marts.dim_datasets
order by dataset""",
)

DISTRIBUTION = Figure(
    key="popularity_distribution",
    title="How popular the subjects are",
    shows="Share of questions by the popularity of their subject, in half decades, for every dataset of the study and "
    "its reference questions (such as NQ-open), whatever is selected above. Questions with missing or zero popularity "
    "are not on the axis; the table of quantiles counts them.",
    source="PopQA, Figure 3",
    sql="""select dataset as questions_of, bin_low, bin_high, pow(10, bin_center_log10) as popularity,
    n, n_above_zero, share, cumulative_share
from marts.fct_popularity_distribution
where relation = 'all'
order by dataset, bin""",
    spec=panels(
        "questions_of",
        {
            "mark": {"type": "rect", "color": "var(--series-1)", "stroke": "var(--surface)"},
            "encoding": {
                "x": popularity_x("bin_low"),
                "x2": {"field": "bin_high"},
                "y": quantity("share", "share of questions", {"format": "%", "tickCount": 5}),
                "y2": {"datum": 0},
            },
        },
        least=260,
        ratio=0.6,
    ),
)

QUANTILES = Figure(
    key="popularity_quantiles",
    title="Popularity by relation, in quantiles",
    shows="Half of the questions of a relation are between its quartiles. Missing popularity is not zero: every "
    "analysis of popularity leaves out questions without it, and this table counts them.",
    source="PopQA, Figure 3",
    sql="""select dataset as questions_of, relation, n_questions, n_missing, n_zero,
    minimum, p25, median, p75, p95, maximum
from marts.fct_popularity_quantiles
order by dataset, relation <> 'all', relation""",
    labels={"n_missing": "without popularity"},
)

_OUTCOMES = ["kept", "too rare in text", "above the cap", "no frequency", "no label"]
SAMPLING = Figure(
    key="sampling",
    title="How the questions were sampled",
    shows="Candidate facts by the decade of their subject's popularity: kept, dropped by the draw on frequency, "
    "dropped because the relation had enough, or without the frequency or label that the draw needs.",
    source="PopQA, appendix A",
    sql="""select coalesce(decade_low::varchar, without) as decade, decade_low, outcome, n, candidates
from (
    unpivot (
        select *, kept as "kept", dropped_frequency as "too rare in text", dropped_cap as "above the cap",
            dropped_no_frequency as "no frequency", dropped_no_label as "no label"
        from (
            select decade_low, if(decade_low is null, popularity_decade, null) as without,
                sum(candidates) as candidates, sum(kept) as kept,
                sum(dropped_frequency) as dropped_frequency, sum(dropped_cap) as dropped_cap,
                sum(dropped_no_frequency) as dropped_no_frequency, sum(dropped_no_label) as dropped_no_label
            from marts.fct_sampling
            group by decade_low, without
        )
    ) on "kept", "too rare in text", "above the cap", "no frequency", "no label" into name outcome value n
)
order by decade_low nulls first, decade, outcome""",
    labels={"decade": "popularity from", "n": "facts"},
    spec=single(
        {
            "mark": {"type": "bar"},
            "encoding": {
                "x": {
                    "field": "decade",
                    "type": "ordinal",
                    "title": "popularity of the subject, from",
                    "scale": {"domain": {"$present": "decade"}},
                    "axis": {"labelAngle": 0},
                },
                "y": quantity("n", "candidate facts", {"format": "~s"}),
                "color": categories("outcome", "outcome", _OUTCOMES),
            },
        },
        height=260,
    ),
)

LINKING = Figure(
    key="entity_linking",
    title="Questions linked to their entity",
    shows="Imported questions name no entity. Only questions that were linked to an entity have popularity. "
    "Several: the name belongs to more than one; by popularity: the most popular of these was taken. The interval is "
    "Wilson's, 95 %.",
    source="PopQA, section 3 and appendix A",
    sql="""select dataset as questions_of, relation, linker, n_questions, n_linked, n_no_entity, n_several_entities,
    n_put_aside, n_most_popular, share_linked, ci_low, ci_high
from marts.fct_entity_linking
order by dataset, relation <> 'all', relation, linker""",
    labels={"share_linked": "share linked"},
)

DRIFT = Figure(
    key="popularity_drift",
    title="Would another month change the decisions?",
    shows="Share of questions for which adaptive retrieval would decide differently (retrieve or not) if popularity "
    "were that one month's views instead of the window's mean. There is one threshold for all relations, fitted again "
    "on the month. The table has the thresholds, and shows how much popularity itself moved.",
    source="Longtail's own; PopQA, limitations",
    sql="""select dataset, prompt, model, parametric_method, retrieval_method, month, n, share_decision_changed,
    threshold_month, threshold_window, share_retrieved_month, share_retrieved_window,
    share_bin_changed, median_ratio, rank_correlation
from marts.fct_popularity_drift
order by dataset, prompt, model, retrieval_method, month""",
    spec=curves_in_panels(
        "retrieval_method",
        {
            "field": "month",
            "type": "ordinal",
            "title": None,
            "axis": {"labelAngle": -45, "labelOverlap": True},
        },
        quantity("share_decision_changed", "decisions changed", {"format": "%", "tickCount": 4}),
        MODELS,
        interval=None,
        least=260,
    ),
    choose=("parametric_method",),
)

QUARANTINE = Figure(
    key="quarantine",
    title="Quarantined rows",
    shows="Rows that could not be read or did not fit the table, by reason, with one example each.",
    source="Longtail's own",
    sql="""select table_name, partition, reason, n, example_row_key
from marts.fct_quarantine
order by n desc, table_name, partition, reason
limit 500""",
)
DISAGREEMENT = Figure(
    key="rules_of_correctness",
    title="Do the rules of correctness agree?",
    shows="Four rules judge every answer. All other figures use `popqa` (the prediction contains a gold answer, in "
    "upper or lower case). Rows with different verdicts show how much depends on that choice.",
    source="SPEC §5",
    sql="""select dataset, prompt, model, method, is_correct, is_correct_case_sensitive, is_correct_normalized,
    is_exact_match, n, share
from marts.fct_correctness_disagreement
order by dataset, prompt, model, method, n desc""",
)

_RULES = ["popqa", "case-sensitive", "normalised", "exact match"]
RULES = Figure(
    key="rules_beside_verdicts",
    title="By how much do the rules of correctness err?",
    shows="Accuracy by each rule minus accuracy by the verdicts that came with the answers, on the same answers. "
    "The file of the answers says whose verdicts they are: humans', a judge's, or another rule's. To the left "
    "of the dashed line a rule calls right answers wrong, as containment does where a long answer says the "
    "same in other words. Systems in the order of the verdicts; the data set on which a rule errs most comes "
    "first. Bars are 95 % intervals of whole subjects.",
    source="SPEC §12, verdicts of humans or of a judge",
    sql=f"""select dataset as questions_of, prompt, model, method, model || chr(10) || method as system,
    map(['is_correct', 'is_correct_case_sensitive', 'is_correct_normalized', 'is_exact_match'], {_RULES})[rule]
        as rule,
    n, difference, difference_ci_low, difference_ci_high, accuracy_by_rule, accuracy_by_rule_ci_low,
    accuracy_by_rule_ci_high, accuracy_by_verdict, accuracy_by_verdict_ci_low, accuracy_by_verdict_ci_high,
    agreement, n_rule_only, n_verdict_only, kappa
from marts.fct_rule_agreement
order by max(abs(difference)) over (partition by dataset) desc, dataset, accuracy_by_verdict desc, prompt, model,
    method""",  # noqa: S608
    labels={"difference": "error of the rule"},
    spec=rows_of_points(
        difference_x("difference", "accuracy by the rule minus accuracy by the verdicts", 8),
        "system",
        categories("rule", "rule", _RULES),
        interval=bounds("difference"),
        side_by_side=True,
        mark_at=0,
        step=52,
    ),
    choose=("questions_of",),
)

COVERAGE = Figure(
    key="answer_coverage",
    title="Expected and missing rows",
    shows="Rows that the study asks for, by table, model and method, and how many of them are missing or quarantined.",
    source="Longtail's own",
    sql="""select dataset, prompt, model, method, table_name, n_expected, n_missing, n_quarantined, state
from marts.fct_answer_coverage
order by table_name, dataset, prompt, model, method""",
)

FAILED = Figure(
    key="failed_answers",
    title="Answers that failed",
    shows="Questions to which no answer came back, by reason, beside the answers of the same model and method (n). They "
    "are in no rate.",
    source="SPEC §12",
    sql="""select table_name, dataset, prompt, model, method, reason, n_failed, n, share_failed, example_row_key
from marts.fct_failed_answers
order by n_failed desc, table_name, dataset, prompt, model, method, reason
limit 500""",
)
