"""Claims of docs/paper_claims.md: what the sandbox shows."""

from __future__ import annotations

from longtail.generation.latency import N_QUESTIONS
from tests.claims.form import Claim, by_model, constant, dbt_variable, row_of

PLACE = "docs/paper_claims.md"
_PAIR = (
    "parametric_method = 'closed_book' and retrieval_method = 'bm25' and search = 'exact' and threshold_scope"
)
_GAIN = f"select model, gain, gain_ci_low, gain_ci_high from fct_adaptive_accuracy where {_PAIR}"
_REGRESSION = "from fct_prediction_models where setting = 'all_relations'"
_CORRELATION = "from fct_popularity_correlation where method = 'closed_book' and relation"
_LEVEL = """from fct_accuracy_by_popularity_level as smaller
    join fct_accuracy_by_popularity_level as larger using (dataset, prompt, method, level)
    where method = 'closed_book'"""
_GROWING = "model in ('reference_s', 'reference_m', 'reference_l')"
_WRONG = f"""with relations as (
    select model, relation, avg(scons) as scons, avg(scons) filter (not is_correct) as wrong
    from fct_question_consistency where {_GROWING} group by all
), models as (select model, corr(scons, wrong) as r from relations group by model)
select min(r) as low, max(r) as high from models"""


def _step(small: str, large: str) -> str:
    """How much accuracy rises by level between two models: columns l1 … l5 for [1,2) … [5,∞)."""
    rises = ", ".join(
        f"sum(larger.accuracy - smaller.accuracy) filter (starts_with(level, '[{at},')) as l{at}"
        for at in range(1, 6)
    )
    return f"select {rises} {_LEVEL} and smaller.model = 'reference_{small}' and larger.model = 'reference_{large}'"


_GAIN_PER_RELATION = by_model(f"{_GAIN} = 'per_relation'")
_EXPLAINED = by_model(f"select model, mcfadden_r2 {_REGRESSION} and predictors = 'all' and fit = 'all_rows'")
_HELD_OUT = by_model(
    f"select model, accuracy, baseline {_REGRESSION} and predictors = 'all' and fit = 'held_out'"
)
_CONSISTENCY = by_model("select model, scons, cert from fct_semantic_consistency where relation = 'all'")
_WITH_ACCURACY = by_model(
    "select model, max(pearson) filter (measure = 'scons'), max(pearson) filter (measure = 'cert'), "
    "max(n_relations) from fct_consistency_correlation group by model"
)

CLAIMS = tuple(
    Claim(PLACE, says, by)
    for says, by in (
        (
            "All numbers are for dataset `sandbox`, prompt `zero_shot`, {n:,} questions ({known:,} with popularity)",
            "select n_questions as n, n_questions_with_popularity as known from dim_datasets",
        ),
        (
            "closed book: S {s:d3}, M {m:d3}, L {l:d3};",
            by_model(f"select model, pearson_binned {_CORRELATION} = 'all'"),
        ),
        (
            "above .8 in {s1}, {m1} and {l1} of {s2} relations",
            by_model(
                f"select model, count(*) filter (pearson_binned > 0.8), count(*) {_CORRELATION} <> 'all' group by model"
            ),
        ),
        (
            "(point-biserial) {s:d2}, {m:d2}, {l:d2}",
            by_model(f"select model, point_biserial {_CORRELATION} = 'all'"),
        ),
        (
            "whose difficulty then plays no part, {s:d2}, {m:d2}, {l:d2}",
            by_model(f"select model, point_biserial_within {_CORRELATION} = 'all'"),
        ),
        (
            "{names:w} answer is part of a subject's name; always giving the most frequent answer is right for "
            "{colour:p0} % of colours and {whole:p0} % of all questions",
            "select sum(share_answer_in_subject * n)::int as names, "
            "max(accuracy_majority) filter (relation = 'color') as colour, "
            "max(accuracy_majority) filter (relation = 'all') as whole from fct_guessing_baselines",
        ),
        (
            "colour: {s:d2}, {m:d2}, {l:d2}",
            by_model(f"select model, pearson_binned {_CORRELATION} = 'color'"),
        ),
        ("S→M: {l1:s2} at level [1,2), {l3:s2} at [3,4), {l4:s2} at [4,5)", _step("s", "m")),
        (
            "M→L: {l1:s2} at [1,2), {l2:s2} at [2,3), {l3:s2} at [3,4), {l4:s2} at [4,5), {l5:s2} at [5,∞)",
            _step("m", "l"),
        ),
        (
            "the {least} least popular (the same share)",
            "select n_least as least from fct_accuracy_least_popular where n_least not in (100, 1000, 4000) limit 1",
        ),
        (
            "S {s1:d2}, M {m1:d2}, L {l1:d2}, against {s2:d2}, {m2:d2}, {l2:d2} with BM25's passage",
            by_model(
                "select model, max(accuracy) filter (method = 'closed_book'), max(accuracy) filter (method = 'bm25') "
                "from fct_accuracy_least_popular where n_least not in (100, 1000, 4000) group by model"
            ),
        ),
        (
            "S with bm25 {s:d3}, L from memory {l:d3}",
            "select max(accuracy) filter (model = 'reference_s' and method = 'bm25') as s, "
            "max(accuracy) filter (model = 'reference_l' and method = 'closed_book') as l "
            "from fct_accuracy where relation = 'all'",
        ),
        (
            "L: {m1:d2} against {r1:d2} at [1,2), {m5:d2} against {r5:d2} at [5,∞)",
            "select "
            + ", ".join(
                f"max(accuracy) filter (method = '{method}' and starts_with(level, '[{at},')) as {name}{at}"
                for at in (1, 5)
                for name, method in (("m", "closed_book"), ("r", "bm25"))
            )
            + " from fct_accuracy_by_popularity_level where model = 'reference_l'",
        ),
        (
            "L, bm25: {share:p0} % of the questions, recall@1 {recall:d2} there",
            "select share, recall_at_1 as recall from fct_retrieval_quadrants where model = 'reference_l' "
            "and retrieval_method = 'bm25' and parametric_correct and not retrieval_correct",
        ),
        (
            "{namesakes} of {misled} passages that mislead L are about a namesake",
            "select count(*) filter (passage_of = 'namesake') as namesakes, count(*) as misled "
            "from fct_passage_effects where model = 'reference_l' and retrieval_method = 'bm25' and effect = 'misled'",
        ),
        (
            "S {s1:s3} (95 % interval {s2:d3} to {s3:d3}), M {m1:s3} ({m2:d3} to {m3:d3}), "
            "L {l1:s3} ({l2:d3} to {l3:d3})",
            _GAIN_PER_RELATION,
        ),
        ("one threshold for all does better: L {l1:s3}", by_model(f"{_GAIN} = 'all'")),
        (
            "{train:p0} % of {n} questions is little",
            lambda marts: {
                "train": dbt_variable("training_share"),
                **row_of(
                    marts, "select mode(n) as n from fct_accuracy where relation <> 'all' and method = 'bm25'"
                ),
            },
        ),
        (
            "S {s:p0} %, M {m:p0} %, L {l:p0} % of the questions",
            by_model(
                "select model, share_retrieved from fct_adaptive_usage "
                f"where relation = 'all' and {_PAIR} = 'per_relation'"
            ),
        ),
        (
            "bm25: {s:p0} %, {m:p0} % and {l:p0} % of the passages need not be read",
            by_model(
                f"select model, 1 - share_retrieved from fct_adaptive_accuracy where {_PAIR} = 'per_relation'"
            ),
        ),
        ("both methods asked the same {n} questions in turn", constant(n=N_QUESTIONS)),
        (
            "`oracle`: adaptive loses {s:d3}, {m:d3} and {l:d3}",
            by_model(
                "select model, -gain from fct_adaptive_accuracy "
                "where retrieval_method = 'oracle' and search = 'exact' and threshold_scope = 'per_relation'"
            ),
        ),
        (
            "correlation over {s3} relations of accuracy with SCons: S {s1:d2}, M {m1:d2}, L {l1:d2}; "
            "with Cert: {s2:d2}, {m2:d2}, {l2:d2}",
            _WITH_ACCURACY,
        ),
        (
            "(standard deviation of accuracy {low:d2} to {high:d2})",
            "select min(sd) as low, max(sd) as high from (select stddev_pop(accuracy) as sd "
            f"from fct_semantic_consistency where relation <> 'all' and {_GROWING} group by model)",
        ),
        ("correlates by {low:d2} to {high:d2} with that of its wrong answers alone", _WRONG),
        (
            "of a right answer with SCons: {s1:d2}, {m1:d2}, {l1:d2}; with Cert: {s2:d2}, {m2:d2}, {l2:d2}",
            by_model(
                "select model, corr(is_correct::int, scons), corr(is_correct::int, cert) "
                "from fct_question_consistency group by model"
            ),
        ),
        ("McFadden's R²: S {s:d3}, M {m:d3}, L {l:d3}. On held-out", _EXPLAINED),
        (
            "it is right for {s1:p0} %, {m1:p0} % and {l1:p0} %; the majority is right for {s2:p0} %, {m2:p0} % and "
            "{l2:p0} %",
            _HELD_OUT,
        ),
        (
            "certainty alone, held out: {s:p0} %, {m:p0} % and {l:p0} %",
            by_model(
                f"select model, accuracy {_REGRESSION} and predictors = 'scons_cert' and fit = 'held_out'"
            ),
        ),
        (
            "AIC of the full model: S {s1:,.0f}, M {m1:,.0f}, L {l1:,.0f}; without the relation: {s2:,.0f}, {m2:,.0f}, "
            "{l2:,.0f}",
            by_model(
                "select model, min(aic) filter (predictors = 'all'), min(aic) filter (predictors = 'without_relation') "
                f"{_REGRESSION} and fit = 'all_rows' group by model"
            ),
        ),
        (
            "its interactions are {more} more coefficients",
            "select distinct max(n_coefficients) filter (predictors = 'all') "
            "- max(n_coefficients) filter (predictors = 'without_relation') as more "
            f"{_REGRESSION} group by model",
        ),
        (
            "right for {e1:d3} closed book and {e2:d3} with BM25's passage",
            by_model(
                "select model, max(accuracy) filter (method = 'closed_book'), max(accuracy) filter (method = 'bm25') "
                "from fct_accuracy where relation = 'all' group by model"
            ),
        ),
        ("adaptive retrieval gains {e1:s3} ({e2:d3} to {e3:d3})", _GAIN_PER_RELATION),
        ("Its SCons is {e1:d3} and its Cert {e2:d3}", _CONSISTENCY),
        ("accuracy correlates with SCons by {e1:d2} and with Cert by {e2:d2}", _WITH_ACCURACY),
        ("McFadden's R² of its regression is {e:d3}", _EXPLAINED),
        ("questions the regression is right for {e1:p0} %, the majority for {e2:p0} %", _HELD_OUT),
        ("here SCons is {s1:d3}, {m1:d3} and {l1:d3} for S, M and L", _CONSISTENCY),
    )
)
