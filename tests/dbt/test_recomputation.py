"""The marts equal an independent recomputation from fct_answers, to 1e-9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import jinja2
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.report.figures.memory import HEADLINE
from longtail.scoring.match import matches_popqa
from longtail.storage.home import PROJECT_ROOT
from longtail.study.study import Study
from tests.dbt import recomputation_marts as again
from tests.dbt.recomputation import (
    GENERATED,
    GROUP,
    PAIR,
    SPENT,
    accuracy_by_popularity,
    adaptive,
    as_told_by_the_lake,
    assert_equal,
    certainty,
    clusters_of,
    correlations,
    costs,
    latencies,
    savings,
    spent,
    thresholds,
    with_backgrounds,
)
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import AWKWARD, copied_study, lake_of, mart

Recompute = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]
CASES: list[tuple[str, Recompute, list[str]]] = [
    ("fct_accuracy_by_popularity", lambda answers, _: accuracy_by_popularity(answers), [*GROUP, "relation", "bin"]),
    ("fct_popularity_correlation", lambda answers, _: correlations(answers), [*GROUP, "relation"]),
    ("fct_adaptive_thresholds", lambda answers, _: thresholds(answers), [*PAIR, "relation", "search"]),
    ("fct_accuracy", again.variants, [*GROUP, "relation"]),
    ("fct_guessing_baselines", lambda _, questions: again.guessing(questions), ["dataset", "relation"]),
    ("fct_retrieval_quadrants", lambda answers, _: again.quadrant_intervals(answers),
     [*PAIR, "parametric_correct", "retrieval_correct"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "recompute", "key"), CASES, ids=[case[0] for case in CASES])
def test_mart_equals_its_recomputation(
    awkward: Study, name: str, recompute: Recompute, key: list[str]
) -> None:
    expected = recompute(mart(awkward, "fct_answers"), mart(awkward, "dim_questions"))
    assert_equal(mart(awkward, name), expected, key)


@pytest.mark.parametrize("name", ["fct_answers", "fct_paraphrase_answers", "fct_sampled_answers"])
def test_confidence_is_the_geometric_mean_of_the_probabilities(awkward: Study, name: str) -> None:
    answers = mart(awkward, name)
    known = answers[answers.confidence_tokens.notna()]
    assert 0 < len(known) < len(answers)
    assert answers.confidence.notna().equals(answers.confidence_tokens.notna())
    roots = np.exp(known.sum_log_probability) ** (1 / known.confidence_tokens.astype(float))
    np.testing.assert_allclose(known.confidence.astype(float), roots, rtol=1e-12)
    np.testing.assert_allclose(np.exp(known.mean_log_probability.astype(float)), roots, rtol=1e-12)


def test_a_decision_says_what_the_threshold_comes_to(awkward: Study) -> None:
    """Never is the least popularity, whatever it is, not 0."""
    actual = mart(awkward, "fct_adaptive_thresholds")
    expected = thresholds(mart(awkward, "fct_answers"))
    both = expected.merge(actual, on=[*PAIR, "relation", "search"], suffixes=("_expected", ""))
    words = both.share_retrieved_expected.map({0.0: "never", 1.0: "always"}).fillna("below")
    assert both.decision.tolist() == words.tolist()
    assert set(words) == {"always", "never", "below"}
    assert (both.threshold_popularity[words == "never"] > 0).any()


def test_the_gain_in_sample_is_that_of_the_thresholds(awkward: Study) -> None:
    fitted = mart(awkward, "fct_adaptive_thresholds")
    fitted["right"] = fitted.accuracy * fitted.n
    fitted["threshold_scope"] = fitted.relation.map({"all": "all"}).fillna("per_relation")
    overall = fitted[fitted.relation == "all"].set_index([*PAIR, "search"])
    better = overall[["accuracy_always", "accuracy_never"]].max(axis=1)
    key = [*PAIR, "search", "threshold_scope"]
    sums = fitted.groupby(key)[["right", "n"]].sum().reset_index(level="threshold_scope")
    expected = (sums.right / sums.n - better.reindex(sums.index)).to_frame("expected")
    expected = expected.set_index(sums.threshold_scope, append=True).reset_index()
    both = expected.merge(mart(awkward, "fct_adaptive_accuracy"), on=key)
    assert len(both) == len(expected) > 0
    assert both.gain_in_sample.to_numpy() == pytest.approx(both.expected.to_numpy(), abs=1e-9)
    assert (both.gain_in_sample >= 0).all()


def test_adaptive_accuracy_and_costs_over_100_splits_equal_their_recomputation(awkward: Study) -> None:
    def chosen(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[(frame.prompt == "zero_shot") & (frame.model == "large") & (frame.dataset == "popqa")]

    answers = as_told_by_the_lake(chosen(mart(awkward, "fct_answers")), lake_of(awkward))
    answers = with_backgrounds(answers, mart(awkward, "fct_generated_passages"))
    expected = adaptive(answers)
    assert set(expected.parametric_method) == {"closed_book", "genread"}
    key = [*PAIR, "search", "threshold_scope"]
    for name in ("fct_adaptive_accuracy", "fct_adaptive_costs"):
        actual = chosen(mart(awkward, name))
        assert_equal(actual, expected[[*key, *(c for c in expected if c in actual and c not in key)]], key)
    assert expected.filter(like="_per_1000_").notna().all(axis=None)


MEASURES = ["cert", "identical_samples", "n_clusters", "semantic_entropy"]


def test_measures_of_samples_equal_scikit_learn_and_scipy(awkward: Study) -> None:
    embeddings = lake_of(awkward).read_all("answer_embeddings").to_pylist()
    vectors = {(row["model"], row["text"]): np.array(row["embedding"], dtype=float) for row in embeddings}
    expected = certainty(mart(awkward, "fct_sampled_answers"), vectors, n_samples=3, threshold=0.8)
    actual = mart(awkward, "fct_question_consistency")
    assert expected.cert.isna().sum() == 4  # a sample is missing of one question of every model
    assert (actual.n_samples == 0).sum() == 4  # all samples of another
    assert set(expected.n_clusters.dropna()) == {1, 2, 3}  # of up to three texts, two of which mean the same
    assert (expected.identical_samples.dropna() < 1).any()
    key = ["dataset", "prompt", "question_id", "model"]
    both = expected.merge(actual, on=key, suffixes=("_expected", ""))
    assert len(both) == len(expected)
    assert both.n_samples.tolist() == both.n_samples_expected.tolist()
    assert both.n_empty_samples.tolist() == both.n_empty_samples_expected.tolist()
    for name in MEASURES:  # cosines of single-precision vectors
        np.testing.assert_allclose(
            both[name], both[f"{name}_expected"].astype(float), atol=1e-6, err_msg=name
        )


def test_means_of_consistency_have_student_intervals(awkward: Study) -> None:
    questions = mart(awkward, "fct_question_consistency")
    asked = mart(awkward, "dim_questions")[["dataset", "question_id", "subject_id"]]
    questions = questions.merge(asked, on=["dataset", "question_id"], how="left", suffixes=("", "_of"))
    clusters = clusters_of(questions)
    semantic = mart(awkward, "fct_semantic_consistency")
    assert semantic.n_cert.min() < 5  # the relation with one question
    for row in semantic.itertuples():
        same = (questions.dataset == row.dataset) & (questions.model == row.model)
        own = questions[same & ((row.relation == "all") | (questions.relation == row.relation))]
        for name, low, high in (("scons", -1, 1), ("cert", -1, 1), ("semantic_entropy", 0, np.inf)):
            values = own[name].dropna()
            assert getattr(row, name) == pytest.approx(values.mean(), abs=1e-12, nan_ok=True)
            ends = (getattr(row, f"{name}_ci_low"), getattr(row, f"{name}_ci_high"))
            subjects = clusters.loc[values.index]
            k = subjects.nunique()
            if k < 5:
                assert np.isnan(ends).all()
                continue
            fit = sm.OLS(values.to_numpy(), np.ones(len(values))).fit(
                cov_type="cluster", cov_kwds={"groups": subjects.astype("category").cat.codes.to_numpy()}
            )
            half = scipy.stats.t.ppf(0.975, k - 1) * fit.bse[0]
            if half < 1e-9:  # all values are equal
                assert np.isnan(ends).all()
                continue
            assert ends == pytest.approx(
                np.clip([values.mean() - half, values.mean() + half], low, high), abs=1e-6
            )
        assert row.n_scons == own.scons.count() == own.identical_answers.count()
        assert row.n_cert == own.cert.count() == own.semantic_entropy.count()
        assert row.identical_answers == pytest.approx(own.identical_answers.mean(), nan_ok=True)
        assert row.identical_samples == pytest.approx(own.identical_samples.mean(), nan_ok=True)


def test_the_lake_holds_what_makes_it_awkward(awkward: Study) -> None:
    answers = mart(awkward, "fct_answers")
    questions = answers.drop_duplicates(["dataset", "question_id"])
    assert questions.subject_popularity.isna().any()
    assert (questions.subject_popularity == 0).any()
    assert questions.subject_popularity.duplicated().sum() > 20
    assert questions.groupby(["dataset", "relation"]).size().min() == 1
    assert answers[answers.model == "perfect"].is_correct.all()
    assert mart(awkward, "fct_adaptive_thresholds").threshold_popularity.isin([np.inf]).any()
    assert "memory_only" not in set(mart(awkward, "fct_retrieval_quadrants").model)


def test_costs_equal_their_recomputation(awkward: Study) -> None:
    actual = mart(awkward, "fct_costs")
    answers = as_told_by_the_lake(mart(awkward, "fct_answers"), lake_of(awkward))
    expected = costs(answers, mart(awkward, "fct_generated_passages"))
    assert_equal(actual, expected, GROUP)
    by_model = actual.groupby("model")
    assert by_model.cost_usd_per_1000.count().to_dict() == {
        "large": 16,
        "memory_only": 0,
        "perfect": 16,
        "small": 0,
    }
    assert by_model.device_seconds_per_1000.count()["perfect"] == 0
    assert (actual[actual.method == "genread"].n_background_texts > 0).all()


@pytest.mark.parametrize("model", ["small", "large", "perfect", "memory_only"])
def test_sums_of_seconds_and_dollars_are_what_was_spent(awkward: Study, model: str) -> None:
    marts = [_of(model, mart(awkward, f"fct_{name}")) for name in GENERATED]
    expected = spent(lake_of(awkward), GENERATED, model)
    told = _of(model, lake_of(awkward).read_all("answers").to_pandas())
    for name in SPENT:
        assert sum(table[name].sum(skipna=False) for table in marts) == pytest.approx(
            expected[name], rel=1e-12, nan_ok=True
        )
        # Most of oracle's prompts are bm25's: what the rows of the lake tell counts them twice.
        if model != "memory_only" and told[name].notna().all():
            assert told[name].sum() > 1.1 * marts[0][name].sum()
    summed = _of(model, mart(awkward, "fct_costs"))[SPENT].sum(skipna=False)
    of_questions = spent(lake_of(awkward), ("answers", "generated_passages"), model)
    assert summed.to_dict() == pytest.approx(of_questions, rel=1e-12, nan_ok=True)


def test_what_oracle_has_of_bm25_is_counted_as_reused(awkward: Study) -> None:
    lake = lake_of(awkward).read_all("answers").to_pandas()
    oracle = mart(awkward, "fct_costs").query("method == 'oracle' and model == 'small'")
    told = (
        lake.query("method == 'oracle' and model == 'small'").groupby(["dataset", "prompt"]).is_reused.sum()
    )
    assert oracle.set_index(["dataset", "prompt"]).n_reused.to_dict() == told.to_dict()
    assert (oracle.n_reused > 0.5 * oracle.n).all()
    assert (oracle.device_seconds < 0.9 * oracle.device_seconds_per_1000 * oracle.n / 1000).all()


def test_latencies_have_the_intervals_of_scipy(awkward: Study) -> None:
    actual = mart(awkward, "fct_latency")
    assert_equal(actual, latencies(lake_of(awkward)), ["model", "method", "prompt", "device"])
    assert actual.is_interleaved.all()
    assert set(actual.model) == {"small", "large"}


def test_savings_are_claimed_where_the_interval_of_the_difference_excludes_zero(awkward: Study) -> None:
    adaptive = mart(awkward, "fct_adaptive_costs")
    expected = savings(lake_of(awkward), adaptive)
    key = [*PAIR, "search", "threshold_scope"]
    timed = adaptive[adaptive.n_timed.notna()]
    assert_equal(timed, expected.drop(columns="latency_claim"), key)
    claims = timed.merge(expected, on=key, suffixes=("", "_expected"))
    assert claims.latency_claim.tolist() == claims.latency_claim_expected.tolist()
    assert set(claims.query("parametric_method == 'closed_book'").latency_claim) == {"saves"}
    assert "undecided" in set(claims.query("parametric_method == 'genread'").latency_claim)
    assert adaptive[adaptive.n_timed.isna()].latency_claim.isna().all()
    for name in ("device_seconds", "cost_usd"):
        saved = adaptive[f"{name}_per_1000_saved"]
        difference = adaptive[f"{name}_per_1000_always"] - adaptive[f"{name}_per_1000_adaptive"]
        sign = adaptive.latency_claim.map({"saves": 1, "takes_longer": -1})
        of_service = pd.Series(name == "cost_usd", adaptive.index) & (adaptive.model == "perfect")
        expected_saved = difference.where(of_service | (sign * difference > 0))
        pd.testing.assert_series_equal(saved, expected_saved, check_names=False)
        assert saved.notna().any()


def _of(model: str, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows.model == model]


def test_leaderboard_equals_its_recomputation(awkward: Study) -> None:
    expected = again.leaderboard(mart(awkward, "fct_answers"), mart(awkward, "fct_adaptive_accuracy"))
    names = ["parametric_method", "retrieval_method", "search"]
    actual = mart(awkward, "fct_leaderboard")
    assert_equal(
        actual.assign(**{name: actual[name].fillna("") for name in names}), expected, [*GROUP, *names]
    )


def test_every_dataset_has_a_winner_and_nobody_is_left_out(awkward: Study) -> None:
    board = mart(awkward, "fct_leaderboard")
    n_methods = (mart(awkward, "fct_accuracy").relation == "all").sum()
    n_pairs = (mart(awkward, "fct_adaptive_accuracy").threshold_scope == "per_relation").sum()
    assert len(board) == n_methods + n_pairs
    assert (board.groupby(["dataset", "is_adaptive"])["rank"].min() == 1).all()
    assert board["rank"].isna().sum() == (board.undefined.notna() | board.is_bound).sum()
    assert board[board.is_bound].method.isin(["oracle", "adaptive"]).all()


def test_a_pair_and_a_method_show_one_number_wherever_they_stand(awkward: Study) -> None:
    shown = {
        (row.dataset, row.prompt, row.model, row.method, row.retrieval_method or ""): row.accuracy
        for row in mart(awkward, "fct_leaderboard")
        .fillna({"retrieval_method": "", "search": "exact"})
        .itertuples()
        if row.search == "exact" and row.parametric_method != "genread"
    }
    with duckdb.connect(str(awkward.home.build_warehouse), read_only=True) as connection:
        headline = connection.execute(HEADLINE.sql).df()
    pairs = headline[headline.accuracy_adaptive.notna()]
    assert len(pairs) > 5
    key = ["dataset", "prompt", "model", "method"]
    assert [shown[*row, ""] for row in headline[key].to_numpy()] == list(headline.accuracy)
    for *names, retrieval_method, accuracy in pairs[[*key, "accuracy_adaptive"]].to_numpy():
        assert shown[*names, "adaptive", retrieval_method] == accuracy


def test_guesses_and_namesakes_of_a_richer_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = copied_study(AWKWARD, monkeypatch, tmp_path / "copy")
    enrich(study)
    marts = ("fct_guessing_baselines", "fct_passage_effects", "dim_questions", "dim_passages", "dim_entities")
    staging = ("stg_questions__questions", "stg_wikimedia__entities", "stg_retrieval__cited_passages")
    invoke_dbt(study, "run", "--select", *staging, "int_questions", "int_answers", "int_majority_answers",
            "int_passage_entities", "int_question_passages", "int_answer_passages", "int_answer_pairs", "fct_answers",
            "fct_retrieval_quadrants", *marts)  # fmt: skip
    guesses, effects, questions, passages, entities = (mart(study, name) for name in marts)
    assert guesses.share_answer_in_subject.between(0.05, 0.95).sum() > 4
    assert guesses.accuracy_majority.between(0.05, 0.95).sum() > 4
    assert_equal(guesses, again.guessing(questions), ["dataset", "relation"])
    passages = passages.astype(object).where(passages.notna(), None)
    entities = entities.astype(object).where(entities.notna(), None)
    expected = again.passage_effects(mart(study, "fct_answers"), passages, entities)
    key = [*PAIR, "question_id"]
    assert set(effects.passage_of.dropna()) == {"subject", "namesake", "other"}
    assert effects.passage_of.isna().any()
    sides = [frame.set_index(key).sort_index()[expected.columns[6:]] for frame in (effects, expected)]
    pd.testing.assert_frame_equal(*(side.fillna("unknown") for side in sides))
    counted = again.passages_by_quadrant(mart(study, "fct_answers"), passages, entities)
    quadrants = mart(study, "fct_retrieval_quadrants").query("n > 0")
    assert_equal(quadrants, counted, [*PAIR, "parametric_correct", "retrieval_correct"])


def enrich(study: Study) -> None:
    """Questions get golds that recur, tie and stand in names; passages are of the subject, a namesake, another."""
    rng = np.random.default_rng(5)
    lake = lake_of(study)
    words = ["red", "Red", "blue", "Straße", "New York", "crimson", "Ōsaka"]
    questions = lake.read("questions").to_pylist()
    for question in questions:
        objects = [str(word) for word in rng.choice(words, size=rng.integers(1, 4), replace=False)]
        question["objects"] = objects
        question["gold_answers"] = [*objects, *rng.choice(words, size=1).tolist()]
        question["subject"] = (
            f"{rng.choice(['the RED', 'a red', 'New york', 'ōsaka', 'old'])} {rng.integers(9)}"
        )
    lake.write("questions", questions, fingerprint="richer")
    names = {question["subject_id"]: question["subject"] for question in questions}
    entities = lake.read("entities").to_pylist()
    for entity in entities:
        if entity["entity_id"] in names:
            entity["article_title"] = f"{names[entity['entity_id']]} (film)" if rng.uniform() < 0.5 else None
            entity["aliases"] = [str(rng.choice(list(names.values()))).upper()]
    lake.write("entities", entities, fingerprint="richer")
    passages = lake.read("cited_passages").to_pylist()
    for passage in passages:
        name = names.get(passage["entity_id"], "other")
        titles = [f"{name} (film)", f"{name}, Ohio", f"{name} (film) (cut)", f"Not {name}", name]
        passage["title"] = str(rng.choice(titles))
        others = [passage["entity_id"], None, "Q4", str(rng.choice(list(names)))]
        passage["entity_id"] = others[rng.integers(len(others))]
    lake.write("cited_passages", passages, fingerprint="richer")


def popqa_match_sql() -> str:
    """The macro as dbt renders it, over columns `prediction` and `gold`."""
    loader = jinja2.FileSystemLoader(PROJECT_ROOT / "dbt" / "macros")
    environment = jinja2.Environment(loader=loader)
    comparable = environment.get_template("comparable.sql").module.comparable  # type: ignore[attr-defined]
    environment.globals["comparable"] = comparable
    rule = environment.get_template("popqa_match.sql").module.popqa_match  # type: ignore[attr-defined]
    return str(rule("prediction", "gold"))


def keeps_its_length(letter: str) -> bool:
    """Cases that SQL and Python fold alike: the macro says which it does not."""
    return (
        len(letter.lower()) == len(letter.upper()) == 1
        and letter.title() == letter.upper()
        and letter not in "Σς"
    )


LETTERS = st.characters(categories=["L", "N", "P", "Zs"]).filter(keeps_its_length)
TEXTS = st.text(st.one_of(st.sampled_from("aAbBéÉ '-"), LETTERS), max_size=8)


@settings(max_examples=100, deadline=None)
@given(
    prediction=TEXTS, gold=TEXTS, around=TEXTS, change=st.sampled_from(["as_is", "lower", "upper", "title"])
)
def test_popqas_rule_in_sql_is_that_of_scoring(prediction: str, gold: str, around: str, change: str) -> None:
    changed = {"as_is": gold, "lower": gold.lower(), "upper": gold.upper(), "title": gold.title()}[change]
    for text in (prediction, around + changed + around):
        row = duckdb.execute(
            f"select {popqa_match_sql()} from (select ? as prediction, ? as gold)", [text, gold]
        )
        assert row.fetchone() == (matches_popqa(text, [gold]),)
