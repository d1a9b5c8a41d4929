"""The marts of accuracy, guessing and passages equal an independent recomputation, to 1e-9."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import jinja2
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.report.figures.memory import HEADLINE
from longtail.scoring.match import matches_popqa
from longtail.storage.home import PROJECT_ROOT
from longtail.study.study import Study
from tests.dbt import recomputation_marts as again
from tests.dbt.recomputation import GROUP, PAIR, assert_equal
from tests.in_process_dbt import invoke_dbt
from tests.warehouses import AWKWARD, copied_study, lake_of, mart

Recompute = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]
CASES: list[tuple[str, Recompute, list[str]]] = [
    ("fct_accuracy", again.variants, [*GROUP, "relation"]),
    ("fct_guessing_baselines", lambda _, questions: again.guessing(questions), ["dataset", "relation"]),
    (
        "fct_retrieval_quadrants",
        lambda answers, _: again.quadrant_intervals(answers),
        [*PAIR, "parametric_correct", "retrieval_correct"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "recompute", "key"), CASES, ids=[case[0] for case in CASES])
def test_mart_equals_its_recomputation(
    awkward: Study, name: str, recompute: Recompute, key: list[str]
) -> None:
    expected = recompute(mart(awkward, "fct_answers"), mart(awkward, "dim_questions"))
    assert_equal(mart(awkward, name), expected, key)


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
