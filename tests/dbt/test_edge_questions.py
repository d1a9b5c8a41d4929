"""Questions without a subject, a relation or popularity go through all models: hand-computed rows."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest

from longtail.study.study import Study
from tests.edge_lakes import ODD_RELATION, UNRELATED, UNSUBJECTED, open_folder
from tests.warehouses import mart, study_in

MAY_LACK_A_RELATION = {
    "dim_questions",
    "fct_answers",
    "fct_paraphrase_answers",
    "fct_sampled_answers",
    "fct_question_consistency",
    "fct_passage_effects",
    "fct_question_predictions",
}
"""Marts of one row per question or answer; the others by relation leave questions without one to `all`."""


@pytest.fixture
def open_study(monkeypatch: pytest.MonkeyPatch) -> Study:
    return study_in(open_folder(), monkeypatch)


def of_right(study: Study, name: str, method: str = "closed_book") -> pd.DataFrame:
    """Rows of the model that is always right."""
    return (
        mart(study, name).query("model == 'right' and method == @method").set_index(["dataset", "relation"])
    )


def test_datasets_count_the_questions_that_lack_something(open_study: Study) -> None:
    counts = ["n_questions", "n_questions_with_popularity", "n_questions_without_subject"]
    found = mart(open_study, "dim_datasets").set_index("dataset")
    assert found.loc["popqa", [*counts, "n_questions_without_relation"]].tolist() == [8, 7, 1, 1]
    assert found.loc["open", [*counts, "n_questions_without_relation"]].tolist() == [8, 0, 8, 4]
    assert found.loc["popqa"].relation_set == "popqa"
    assert pd.isna(found.loc["open"].relation_set)


def test_relations_of_no_set_are_listed_without_property_and_template(open_study: Study) -> None:
    found = mart(open_study, "dim_relations").set_index("relation")
    counts = ["n_questions", "n_questions_with_popularity", "n_paraphrases"]
    assert found.loc["occupation", counts].tolist() == [3, 2, 2]
    assert found.loc["place of birth", counts].tolist() == [4, 4, 2]
    assert found.loc[ODD_RELATION, counts].tolist() == [4, 0, 2]
    assert found.loc[ODD_RELATION, ["property_id", "template", "statement"]].isna().all()
    assert found.loc["occupation"].template == "What is [subj]'s occupation?"
    assert len(found) == 3


def test_relations_and_all_count_right_answers(open_study: Study) -> None:
    counted = of_right(open_study, "fct_accuracy")
    assert counted.n.to_dict() == {
        ("popqa", "occupation"): 3,
        ("popqa", "place of birth"): 4,
        ("popqa", "all"): 8,
        ("open", ODD_RELATION): 4,
        ("open", "all"): 8,
    }
    assert (counted.accuracy == 1).all()


def test_guesses_are_shares_of_the_questions_that_can_be_guessed(open_study: Study) -> None:
    columns = ["n", "n_with_subject", "n_with_relation", "n_correct_majority"]
    found = mart(open_study, "fct_guessing_baselines").set_index(["dataset", "relation"])
    assert found.loc[("open", "all"), columns].tolist() == [8, 4, 4, 4]
    assert found.loc[("popqa", "all"), columns].tolist() == [8, 7, 7, 7]
    assert found.loc[("open", ODD_RELATION)].majority_answer == "Gold"
    assert set(found.accuracy_majority) == {1.0}


def test_analyses_of_popularity_count_what_they_leave_out(open_study: Study) -> None:
    relative = of_right(open_study, "fct_accuracy_by_relative_popularity")
    assert set(relative.loc[[("open", "all")]].undefined) == {"popularity is missing"}
    popqa = relative.loc[[("popqa", "all")]]
    assert (popqa.n_without_relation == 1).all()
    assert (popqa.n_missing_popularity == 1).all()
    assert popqa.n.sum() == 6
    missing = of_right(open_study, "fct_popularity_correlation").n_missing_popularity
    assert missing[("open", "all")] == 8
    assert missing[("popqa", "all")] == 1
    binned = of_right(open_study, "fct_accuracy_by_popularity").groupby(level=[0, 1]).n.sum()
    assert binned.to_dict() == {
        ("popqa", "occupation"): 2,
        ("popqa", "place of birth"): 4,
        ("popqa", "all"): 7,
    }


def test_thresholds_per_relation_leave_questions_without_one_to_the_threshold_for_all(
    open_study: Study,
) -> None:
    thresholds = mart(open_study, "fct_adaptive_thresholds").query(
        "model == 'right' and retrieval_method == 'bm25' and search == 'exact'"
    )
    assert thresholds.set_index(["dataset", "relation"]).n.to_dict() == {
        ("popqa", "occupation"): 2,
        ("popqa", "place of birth"): 4,
        ("popqa", "all"): 7,
    }
    accuracy = mart(open_study, "fct_adaptive_accuracy").query(
        "retrieval_method == 'bm25' and model == 'right'"
    )
    assert accuracy.groupby("dataset")[["n_questions", "n_missing_popularity"]].first().to_dict("index") == {
        "open": {"n_questions": 0, "n_missing_popularity": 8},
        "popqa": {"n_questions": 7, "n_missing_popularity": 1},
    }
    of_popqa = accuracy.query("dataset == 'popqa'")
    assert (of_popqa.accuracy_adaptive == 1).all()
    assert (of_popqa.gain_in_sample == 0).all()


def test_a_question_without_templates_has_one_wording_and_no_consistency(open_study: Study) -> None:
    found = mart(open_study, "fct_question_consistency").query("model == 'some'")
    lacking = found[found.question_id.isin([UNSUBJECTED]) & (found.dataset == "popqa")]
    nameless = found[found.relation.isna() & (found.dataset == "open")]
    for rows, n in ((lacking, 1), (nameless, 4)):
        assert len(rows) == n
        assert (rows.n_paraphrases == 1).all()
        assert (rows.n_answers == 1).all()
        assert rows.scons.isna().all()
    unrelated = found[(found.dataset == "popqa") & (found.question_id == UNRELATED)]
    assert unrelated.n_paraphrases.tolist() == [3]
    assert set(mart(open_study, "fct_semantic_consistency").query("dataset == 'open'").relation) == {
        ODD_RELATION,
        "all",
    }


def test_the_oracle_finds_nothing_without_a_subject_and_nobody_says_whose_passage_was_read(
    open_study: Study,
) -> None:
    answers = mart(open_study, "fct_answers")
    assert set(answers[answers.subject_id.isna()].method) == {"closed_book", "bm25"}
    coverage = mart(open_study, "fct_answer_coverage").query("table_name == 'answers'")
    assert set(coverage.state) == {"complete"}
    effects = mart(open_study, "fct_passage_effects").query("dataset == 'open'")
    assert len(effects) > 0
    assert effects.passage_of.isna().all()


def test_every_prompt_is_rebuilt_exactly_where_demonstrations_have_no_objects(open_study: Study) -> None:
    prompts = mart(open_study, "fct_prompts")
    assert set(prompts.dataset) == {"popqa", "open"}
    assert set(prompts.is_exact) == {True}
    assert (
        prompts.query("dataset == 'open' and table_name == 'answers'")
        .prompt_text.str.contains("A: Gold")
        .all()
    )


def test_marts_by_relation_have_no_relation_that_is_null(open_study: Study) -> None:
    with duckdb.connect(str(open_study.home.build_warehouse), read_only=True) as connection:
        tables = connection.execute(
            "select table_name from duckdb_columns() where schema_name = 'marts' and column_name = 'relation'"
        ).fetchall()
        with_null = {
            name
            for (name,) in tables
            if connection.execute(f"select count_if(relation is null) from marts.{name}").fetchone()[0]
        }
    assert with_null == MAY_LACK_A_RELATION
    assert len(tables) > 15
