"""Files of others, one line of study.yaml each: hand-made PopQA, PopQA-TP, results and logs, to the marts."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.imported_files import (
    log_lines,
    popqa_rows,
    popqa_tp_rows,
    result_name,
    result_rows,
    write_entity_questions,
    write_log,
    write_popqa,
    write_popqa_tp,
    write_results,
)
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import run_up_to_the_warehouse
from tests.warehouses import build_marts

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("imports")]

STUDY = """\
name: imported
description: Hand-made files in the formats of others
datasets:
  - name: popqa
    import: {format: popqa, path_env: POPQA_TSV}
    paraphrases: {format: popqa_tp, path: popqa_tp.csv}
  - name: entity_questions
    import: {format: entity_questions, path: .}
prompts:
  - {name: zero_shot, format: qa}
  - {name: popqa_tp, format: question_answer, generations: [paraphrases]}
models:
  - {name: scripted, path: "fake:passage", backend: fake}
  - name: published
    backend: imported
    family: others
    results: [{format: adaptive_retrieval, path: results, dataset: popqa}]
  - name: logged
    backend: imported
    results: [{format: lm_eval, path: samples_popqa_1.jsonl, dataset: popqa}]
methods: [closed_book, bm25, genread]
popularity: {measure: imported}
embeddings: {least_paraphrase_cosine: -1}  # the wordings below have no meaning
"""
Finished = tuple[Path, str]
ROWS = popqa_rows()
N = len(ROWS)
MARTS = (
    "dim_datasets", "dim_relations", "fct_adaptive_thresholds", "fct_answers", "fct_rule_agreement",
    "fct_paraphrase_answers", "fct_popularity_history", "fct_prompts", "fct_quarantine", "fct_retrieval_quadrants",
)  # fmt: skip
RIGHT = [i % 3 == 0 for i in range(N)]


def write_files(folder: Path) -> Path:
    """All files of the study, some with a row that cannot be used; returns the study file."""
    missing = [{**row, "s_pop": "-1"} if i == 5 else row for i, row in enumerate(ROWS)]
    broken = {
        **ROWS[0],
        "id": "1",
        "possible_answers": "['not JSON']",
        "s_uri": "http://www.wikidata.org/entity/Q1",
        "subj_id": "1",
    }
    write_popqa(folder / "popqa.tsv", [*missing, broken])
    write_popqa_tp(
        folder / "popqa_tp.csv", [*popqa_tp_rows(ROWS), {**popqa_tp_rows(ROWS[:1])[0], "id": "77"}]
    )
    born = [{"question": f"Where was Subject {i} born?", "answers": ["Oslo"]} for i in (0, 1, 99)]
    write_entity_questions(folder, "test", {"P19": born})
    judged = [
        {**row, "is_correct": "True"} if i == 1 else row for i, row in enumerate(result_rows(ROWS, RIGHT))
    ]
    write_results(folder / "results", result_name("org_m-1.3B", "vanilla", N), judged)
    halves = [result_rows(ROWS, RIGHT)[i::2] for i in range(2)]
    for i, half in enumerate(halves):
        write_results(
            folder / "results", result_name("org_m-1.3B", "BM25", len(half), 0, f"-worker={i}.2"), half
        )
    write_results(folder / "results", result_name("org_m-1.3B", "genread", N), result_rows(ROWS, RIGHT))
    write_log(folder / "samples_popqa_1.jsonl", log_lines(ROWS, RIGHT))
    study = folder / "imported.yaml"
    study.write_text(STUDY, encoding="utf-8")
    return study


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The home of a run that filled its lake, whose marts are built, and what it printed."""
    folder = tmp_path_factory.mktemp("imports")
    study = write_files(folder)
    put_parsed(folder / "home", study)
    said = run_up_to_the_warehouse(folder / "home", study, POPQA_TSV=str(folder / "popqa.tsv"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POPQA_TSV", str(folder / "popqa.tsv"))
        build_marts(folder / "home", study, *MARTS)
    return folder / "home", said


def marts(home: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(home / "imported/build/warehouse.duckdb"), read_only=True)


def test_questions_entities_and_popularity_are_the_files(finished: Finished) -> None:
    with marts(finished[0]) as warehouse:
        datasets = warehouse.sql(
            "select dataset, source, snapshot, n_questions, n_questions_with_popularity from marts.dim_datasets"
            " order by 1"
        ).fetchall()
        history = warehouse.sql(
            "select entity_id, popularity, month from marts.fct_popularity_history where measure = 'imported'"
            " order by 1 limit 2"
        ).fetchall()
        relations = warehouse.sql("select distinct relation from marts.dim_relations order by 1").fetchall()
    assert datasets == [
        ("entity_questions", "entity_questions", None, 3, 2),
        ("popqa", "popqa", None, N, N - 1),
    ]
    assert history == [("Q50000", 10.0, None), ("Q50001", 101.0, None)]
    assert [name for (name,) in relations] == ["author", "capital", "occupation", "place of birth"]


def test_what_could_not_be_used_is_put_aside_and_told(finished: Finished) -> None:
    with marts(finished[0]) as warehouse:
        rejected = dict(
            warehouse.sql(
                "select reason, n from marts.fct_quarantine where table_name in ('questions', 'paraphrases')"
            ).fetchall()
        )
    assert rejected == {
        "column possible_answers: a JSON list of texts was expected": 1,
        "column id: no question of the dataset has it: '77'": 1,
    }
    assert "entity_questions: 66.7 % of the questions linked to an entity" in finished[1]


def test_answers_of_others_are_scored_anew_beside_generated_ones(finished: Finished) -> None:
    with marts(finished[0]) as warehouse:
        counts = {
            (model, method): (engine, n, right)
            for model, method, engine, n, right in warehouse.sql(
                "select model, method, any_value(engine), count(*), count(*) filter (where is_correct)"
                " from marts.fct_answers group by all"
            ).fetchall()
        }
        unknown = warehouse.sql(
            "select count(*) from marts.fct_answers where model = 'published'"
            " and (prompt_tokens is not null or latency_ms is not null or seed is not null)"
        ).fetchone()
        disagreement = warehouse.sql(
            "select method, n, n_verdict_only, n_rule_only from marts.fct_rule_agreement"
            " where model = 'published' and rule = 'is_correct' order by method"
        ).fetchall()
    n_right = sum(RIGHT)
    for method in ("closed_book", "bm25", "genread"):
        assert counts["published", method] == ("imported", N, n_right)
        assert counts["scripted", method][1] == N + 3
    assert counts["logged", "closed_book"] == ("imported", N, n_right)
    assert ("logged", "bm25") not in counts
    assert unknown == (0,)
    assert disagreement == [("bm25", N, 0, 0), ("closed_book", N, 1, 0), ("genread", N, 0, 0)]


def test_analyses_run_on_imported_answers(finished: Finished) -> None:
    with marts(finished[0]) as warehouse:
        recall = warehouse.sql(
            "select sum(n), avg(recall_at_1) from marts.fct_retrieval_quadrants where model = 'published'"
            " and parametric_method = 'closed_book' and retrieval_method = 'bm25'"
        ).fetchone()
        thresholds = warehouse.sql(
            "select count(*), sum(n) filter (where relation = 'all' and search = 'exact')"
            " from marts.fct_adaptive_thresholds where model = 'published' and parametric_method = 'closed_book'"
        ).fetchone()
        wordings = warehouse.sql(
            "select count(*) from marts.fct_paraphrase_answers where dataset = 'popqa'"
        ).fetchone()
        prompts = warehouse.sql(
            "select distinct model from marts.fct_prompts where table_name = 'answers'"
        ).fetchall()
    assert recall == (N, 1.0)
    assert thresholds[0] > 0
    assert thresholds[1] == N - 1
    assert wordings == (3 * N,)
    assert prompts == [("scripted",)]
