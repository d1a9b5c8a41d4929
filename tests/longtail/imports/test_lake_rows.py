"""From files to lake rows without Dagster: facts beside the source's, questions, wordings, rescored answers."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from longtail.errors import SourceError
from longtail.generation.engine.partition import generate
from longtail.generation.engine.session import ModelSession
from longtail.generation.tasks.questions import answer_columns
from longtail.generation.tasks.registry import TASKS
from longtail.imports.answers import import_answers
from longtail.imports.datasets import import_entities, import_popularity, import_triples
from longtail.questions.build import build_paraphrases, build_questions
from longtail.retrieval.indexes import needs_of_retrievers
from longtail.scoring.match import score_answer
from longtail.storage.fingerprints import prompt_hash
from longtail.storage.lake import Lake, Outcome
from longtail.study.file import load_study
from longtail.study.study import Study
from tests.imported_files import (
    log_lines,
    popqa_rows,
    popqa_tp_rows,
    result_name,
    result_rows,
    study_of_files,
    write_log,
    write_popqa,
    write_popqa_tp,
    write_results,
)

LOG = logging.getLogger("test")
ROWS = popqa_rows(("occupation", "capital"), 4)
RIGHT = [True, False] * 4


def make(folder: Path, rows: list[dict[str, str]] = ROWS, **more: Any) -> tuple[Study, Lake]:
    """A study of one PopQA file, its source's tables empty."""
    write_popqa(folder / "popqa.tsv", rows)
    datasets = [{"name": "popqa", "import": {"format": "popqa", "path": "popqa.tsv"}}]
    return study_of_files(folder, **{"datasets": datasets, "methods": ["closed_book", "genread"], **more})


def imported(folder: Path, rows: list[dict[str, str]] = ROWS, **more: Any) -> tuple[Study, Lake]:
    study, lake = make(folder, rows, **more)
    import_triples(study, lake, LOG)
    import_entities(study, lake, LOG)
    import_popularity(study, lake, LOG)
    build_questions(study, lake, LOG)
    return study, lake


def test_facts_stand_beside_those_of_the_source(tmp_path: Path) -> None:
    study, lake = make(tmp_path)
    known = {
        "entity_id": "Q50000", "label": "Of the source", "aliases": [], "description": None, "article_title": None,
        "sitelinks": 3, "source": "rdf_file",
    }  # fmt: skip
    lake.write("entities", [known], fingerprint="one")
    import_triples(study, lake, LOG)
    import_entities(study, lake, LOG)
    labels = {row["entity_id"]: row["label"] for row in lake.read_all("entities").to_pylist()}
    assert labels["Q50000"] == "Of the source"
    assert lake.read_all("entities").num_rows == len(labels)
    assert lake.read("entities", "imported").num_rows == len(labels) - 1
    assert lake.read("triples", "imported").num_rows == 8


def test_a_study_without_imports_writes_no_partition_and_empties_a_left_one(tmp_path: Path) -> None:
    study, lake = imported(tmp_path)
    raw = yaml.safe_load((tmp_path / "study.yaml").read_text())
    raw |= {
        "datasets": [{"name": "people"}], "popularity": {"measure": "sitelinks"},
        "source": {"kind": "rdf_file", "snapshot": "2026-10"},
    }  # fmt: skip
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(raw))
    (emptied,) = import_triples(load_study(tmp_path / "study.yaml"), lake, LOG)
    assert emptied.stamp.n_rows == 0
    fresh = Lake(tmp_path / "fresh")
    fresh.ensure_schemas()
    fresh.write("triples", [], fingerprint="none")
    assert import_triples(load_study(tmp_path / "study.yaml"), fresh, LOG) == []
    assert study.source.kind == "none"


def test_wordings_are_the_files_or_ours(tmp_path: Path) -> None:
    study, lake = imported(tmp_path)
    build_paraphrases(study, lake, LOG)
    ours = lake.read("paraphrases").to_pylist()
    assert len(ours) == 4 * (1 + 5) + 4 * (1 + 6)
    assert ours[0]["template"] == "What is [subj]'s occupation?"
    datasets = [
        {"name": "popqa", "import": {"format": "popqa", "path": "popqa.tsv"},
         "paraphrases": {"format": "popqa_tp", "path": "tp.csv"}},
    ]  # fmt: skip
    write_popqa_tp(tmp_path / "tp.csv", popqa_tp_rows(ROWS[1:]))
    study, lake = imported(tmp_path, datasets=datasets)
    outcome = build_paraphrases(study, lake, LOG)
    theirs = {
        (row["question_id"], row["paraphrase_id"]): row["paraphrase"]
        for row in lake.read("paraphrases").to_pylist()
    }
    assert theirs["400001", 2] == "Wording 2 about Subject 1?"
    assert theirs["400000", 0] == "What is Subject 0's occupation?"
    assert len(theirs) == 7 * 3 + 1
    assert outcome.notes["popqa"]["questions_without_paraphrases"] == 1


def models(*results: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "others", "backend": "imported", "results": list(results)}]


def scored(study: Study, lake: Lake, method: str, run_id: str = "r") -> Outcome:
    with ModelSession(LOG) as session:
        return generate(
            TASKS["answers"], study, lake, "others", method, session=session, run_id=run_id, log=LOG
        )


def test_answers_are_scored_by_our_rules(tmp_path: Path) -> None:
    rows = result_rows(ROWS, RIGHT)
    rows[0] |= {"is_correct": "False"}
    rows[1] |= {"is_correct": "True"}
    rows[2] |= {"is_correct": ""}
    rows[3] |= {"pred": ""}
    write_results(tmp_path / "results", result_name("m", "vanilla", 8), rows)
    study, lake = imported(
        tmp_path, models=models({"format": "adaptive_retrieval", "path": "results", "dataset": "popqa"})
    )
    import_answers(study, lake, "others", LOG)
    scored(study, lake, "closed_book", run_id="r")
    table = lake.read("answers", "others|closed_book").to_pylist()
    golds = {row["question_id"]: row["gold_answers"] for row in lake.read("questions").to_pylist()}
    for row in table:
        assert row["is_correct"] == score_answer(row["prediction"], golds[row["question_id"]]).is_correct
        assert (row["engine"], row["prompt_tokens"], row["demonstration_ids"]) == ("imported", None, None)
    assert [row["is_correct"] for row in table] == RIGHT
    assert scored(study, lake, "closed_book", run_id="s").was_current
    assert scored(study, lake, "genread", run_id="r").stamp.n_rows == 0


def test_phrases_decline_and_what_a_file_says_comes_before_them(tmp_path: Path) -> None:
    write_results(tmp_path / "results", result_name("m", "vanilla", 8), result_rows(ROWS, RIGHT))
    results = {"format": "adaptive_retrieval", "path": "results", "dataset": "popqa"}
    study, lake = imported(
        tmp_path, models=[models(results)[0] | {"declines": ["Something ELSE."]}], prompts=[{"name": "plain"}]
    )
    import_answers(study, lake, "others", LOG)
    scored(study, lake, "closed_book")
    table = lake.read("answers", "others|closed_book").to_pylist()
    assert [row["is_declined"] for row in table] == [not right for right in RIGHT]
    assert [row["is_correct"] for row in table] == RIGHT
    prompt = dataclasses.replace(study.prompts[0], declines=("Answer 0",))
    assert not scored(dataclasses.replace(study, prompts=(prompt,)), lake, "closed_book").was_current
    columns = answer_columns(
        "Something else", ["something"], study.models[0], ("something else",), declined=False
    )
    assert (columns["is_declined"], columns["is_correct"]) == (False, True)
    columns = answer_columns("Gold", ["Gold"], study.models[0], (), declined=True)
    assert (columns["is_declined"], columns["is_correct"], columns["token_f1"]) == (True, False, 0.0)
    assert answer_columns("!!!", ["!!!"], study.models[0], (), declined=True)["is_exact_match"] is None


def test_generated_passages_come_along(tmp_path: Path) -> None:
    write_results(tmp_path / "results", result_name("m", "genread", 8), result_rows(ROWS, RIGHT))
    study, lake = imported(
        tmp_path, models=models({"format": "adaptive_retrieval", "path": "results", "dataset": "popqa"})
    )
    import_answers(study, lake, "others", LOG)
    with ModelSession(LOG) as session:
        generate(TASKS["generated_passages"], study, lake, "others", session=session, run_id="r", log=LOG)
    scored(study, lake, "genread", run_id="r")
    passages = {row["passage_id"]: row for row in lake.read("generated_passages", "others").to_pylist()}
    for row in lake.read("answers", "others|genread").to_pylist():
        assert passages[row["passage_id"]]["question_id"] == row["question_id"]
        assert passages[row["passage_id"]]["has_answer"]


def test_answers_of_contriever_keep_its_name_and_never_stand_under_another_encoder(tmp_path: Path) -> None:
    write_results(tmp_path / "results", result_name("m", "contriever", 8), result_rows(ROWS, RIGHT))
    read = models({"format": "adaptive_retrieval", "path": "results", "dataset": "popqa"})
    study, lake = imported(tmp_path, models=read, methods=["closed_book", "dense"])
    with pytest.raises(SourceError, match="method 'contriever' is not one of: "):
        import_answers(study, lake, "others", LOG)
    contriever = {"name": "contriever", "kind": "dense", "path": "facebook/contriever"}
    methods = ["closed_book", "dense", "contriever"]
    study, lake = imported(tmp_path, models=read, methods=methods, retrievers=[contriever])
    assert not list(needs_of_retrievers(study)), "weights that nothing loads"
    import_answers(study, lake, "others", LOG)
    counts = {name: scored(study, lake, name, run_id="r").stamp.n_rows for name in methods}
    assert counts == {"closed_book": 0, "dense": 0, "contriever": 8}
    rows = lake.read("answers", "others|contriever").to_pylist()
    assert {row["method"] for row in rows} == {"contriever"}
    assert [row["passage_id"] for row in rows] == [f"imported:psg{i}" for i in range(8)]


def test_the_same_question_twice_keeps_the_first_and_says_so(tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", log_lines(ROWS, RIGHT))
    write_log(tmp_path / "b.jsonl", log_lines(ROWS[:1], [False]))
    entries = [{"format": "lm_eval", "path": name, "dataset": "popqa"} for name in ("a.jsonl", "b.jsonl")]
    study, lake = imported(tmp_path, models=models(*entries))
    outcome = import_answers(study, lake, "others", LOG)
    assert (outcome.stamp.n_rows, outcome.stamp.n_quarantined) == (8, 1)
    assert outcome.notes == {"popqa/plain/closed_book": "8 answers, 0 questions without"}
    (row,) = lake.read("quarantine", "imported_answers|others").to_pylist()
    assert row["reason"] == "answered already: a.jsonl line 1 has the same question; that row is kept"


def batch(question_id: str, text: str | None = None, code: int = 200, **message: Any) -> dict[str, Any]:
    """A line of a batch's output."""
    choice = {"index": 0, "message": {"content": text, **message}, "finish_reason": "stop"}
    usage = {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}}
    body = (
        {"choices": [choice], "usage": usage, "model": "gpt"} if code == 200 else {"error": {"code": "busy"}}
    )
    return {"custom_id": question_id, "response": {"status_code": code, "body": body}, "error": None}


def test_a_batch_gives_answers_declined_ones_and_failures_which_are_in_no_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [row["id"] for row in ROWS]
    asked = [{"custom_id": one, "body": {"messages": [{"role": "user", "content": one}]}} for one in ids]
    write_log(tmp_path / "in.jsonl", asked)
    failed = [batch(ids[3], code=429), batch(ids[4], code=429), batch(ids[0], code=500)]
    write_log(tmp_path / "errors.jsonl", failed)
    answered = [batch(ids[0], "Answer 0"), batch(ids[1], None, refusal="I can't"), batch(ids[2], "wrong")]
    write_log(tmp_path / "out.jsonl", [batch(ids[2], code=429), *answered, batch("x", "y")])
    entry = {"format": "openai_batch", "path": "out.jsonl", "dataset": "popqa"}
    beside = {"requests": "in.jsonl", "errors": "errors.jsonl"}
    study, lake = imported(tmp_path, models=models(entry | beside))
    outcome = import_answers(study, lake, "others", LOG)
    busy = "the request failed: status 429 (busy)"
    missing = "the request failed: the batch has no result for it"
    assert outcome.notes == {
        "popqa/plain/closed_book": "3 answers, 5 questions without",
        "failed": {missing: 3, busy: 2},
        "declined": 1,
    }
    told = f"imported answers of others: requests without an answer, counted in no rate: 3 × {missing}, 2 × {busy}"
    assert told in caplog.messages
    reasons = {
        row["row_key"]: row["reason"]
        for row in lake.read("quarantine", "imported_answers|others").to_pylist()
    }
    assert {key: reason.split(":")[0] for key, reason in reasons.items()} == {
        "out.jsonl row 5": "custom_id",
        "out.jsonl line 1": "answered already",
        "errors.jsonl line 3": "answered already",
    }
    rows = {row["question_id"]: row for row in lake.read("imported_answers", "others").to_pylist()}
    assert {row["is_declined"] for row in rows.values()} == {None, True}
    assert rows[ids[0]]["prompt_hash"] == prompt_hash(ids[0])
    stamp = scored(study, lake, "closed_book").stamp
    assert (stamp.n_rows, stamp.n_quarantined) == (3, 5)
    answers = lake.read("answers", "others|closed_book").to_pylist()
    of_rows = [
        (row["question_id"], row["prediction"], row["new_tokens"], row["is_correct"]) for row in answers
    ]
    assert of_rows == [
        (ids[0], "Answer 0", 5, True), (ids[1], "I can't", 5, False), (ids[2], "wrong", 5, False),
    ]  # fmt: skip
    quarantine = lake.read("quarantine", "answers|others|closed_book").to_pylist()
    assert {(row["row_key"], row["reason"]) for row in quarantine} == {
        (f"popqa/{one}/plain", busy if i < 2 else missing) for i, one in enumerate(ids[3:])
    }
    write_log(tmp_path / "out.jsonl", [batch(ids[2], "right")])
    assert not import_answers(study, lake, "others", LOG).was_current
    write_log(tmp_path / "in.jsonl", asked[:3])
    assert not import_answers(study, lake, "others", LOG).was_current
    assert import_answers(study, lake, "others", LOG).was_current


def test_results_whose_requests_all_failed_say_so_by_reason(tmp_path: Path) -> None:
    write_log(
        tmp_path / "out.jsonl", [batch(row["id"], code=429 if i else 500) for i, row in enumerate(ROWS)]
    )
    entry = {"format": "openai_batch", "path": "out.jsonl", "dataset": "popqa"}
    study, lake = imported(tmp_path, models=models(entry))
    message = "no answer that can be used; of 8 requests all failed: 7 × the request failed: status 429 .busy., 1 × the"
    with pytest.raises(SourceError, match=message):
        import_answers(study, lake, "others", LOG)


def test_several_answers_to_many_questions_are_refused_and_not_decided_by_order(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(
        "id,prediction\n" + "".join(f"{r['id']},{k}\n" for k in "ab" for r in ROWS[:2])
    )
    study, lake = imported(tmp_path, models=models({"format": "table", "path": "f.csv", "dataset": "popqa"}))
    with pytest.raises(
        SourceError, match=r"several answers to 2 of 2 questions, as f.csv row 1 and f.csv row 3; keep"
    ):
        import_answers(study, lake, "others", LOG)
    (tmp_path / "f.csv").write_text(
        "id,prediction\n" + f"{ROWS[0]['id']},a\n" * 2 + f"{ROWS[1]['id']},a\n" * 2
    )
    assert import_answers(study, lake, "others", LOG).stamp.n_rows == 2, "the same answer again is none"


def test_a_changed_file_is_read_again_and_a_moved_one_is_not(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", log_lines(ROWS, RIGHT))
    entry = {"format": "lm_eval", "path": "log.jsonl", "dataset": "popqa"}
    study, lake = imported(tmp_path, models=models(entry))
    import_answers(study, lake, "others", LOG)
    (tmp_path / "unrelated.jsonl").write_text("x")
    assert import_answers(study, lake, "others", LOG).was_current
    (tmp_path / "elsewhere").mkdir()
    log.rename(tmp_path / "elsewhere/log.jsonl")
    study, lake = imported(tmp_path, models=models(entry | {"path": "elsewhere/log.jsonl"}))
    assert import_answers(study, lake, "others", LOG).was_current
    write_log(tmp_path / "elsewhere/log.jsonl", log_lines(ROWS, [not right for right in RIGHT]))
    assert not import_answers(study, lake, "others", LOG).was_current
    write_popqa(tmp_path / "popqa.tsv", ROWS[:7])
    assert not build_questions(study, lake, LOG).was_current


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (result_name("m", "BM25", 8), "methods: bm25 is missing, by which model=m-input=popQA-method=BM25"),
        (
            result_name("m", "vanilla", 8, 15),
            r"row 1 was asked with 15 shots; the study has: plain \(0 shots\); choose",
        ),
    ],
)
def test_results_that_stand_under_nothing_of_the_study(tmp_path: Path, name: str, message: str) -> None:
    write_results(tmp_path / "results", name, result_rows(ROWS, RIGHT))
    study, lake = imported(
        tmp_path, models=models({"format": "adaptive_retrieval", "path": "results", "dataset": "popqa"})
    )
    with pytest.raises(SourceError, match=message):
        import_answers(study, lake, "others", LOG)
