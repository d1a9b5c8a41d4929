"""Candidates are scored behind the prefix of every pattern that ends in [Y]; the first of the likeliest wins."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest
from scipy.special import softmax
from small_study import made, small_study, with_model

from longtail.errors import BackendError
from longtail.generation.backends.base import CandidateScore, Decoding
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import ModelInput, Scope
from longtail.generation.tasks.candidate_answers import is_mismatch, rank_candidates
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake, Outcome
from longtail.study.prompts import Prompt
from longtail.study.study import Study

PATTERNS = ("[X] is in [Y] .", "[Y] has [X].", "[X], which lies in [Y]")
CANDIDATES = ("Chile", "Peru", "Peru of old", "Spain")
CLOZE = Prompt("cloze", format="cloze_prefix", generations=("candidates",))
LOG = logging.getLogger("test")


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Facts f0 and f1 have the same subject; f5 is right in no candidate; f6 has a relation without candidates."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    made_ = small_study(tmp_path, f"fake:digest?ledger={tmp_path / 'ledger'}", batch_tokens=16)
    found = dataclasses.replace(made_, prompts=(CLOZE,), methods=("closed_book",))
    lake = Lake(found.home.lake)
    questions, paraphrases = [], []
    for i in range(7):
        subject, gold = f"Town {max(i, 1)}", "Nowhere" if i == 5 else CANDIDATES[i % 4]
        key = {"dataset": "sandbox", "question_id": f"f{i}"}
        questions.append({
            **key, "relation": "other" if i == 6 else "country", "subject": subject, "subject_aliases": [],
            "question": PATTERNS[0].replace("[X]", subject), "object_ids": [], "objects": [gold],
            "gold_answers": [gold],
        })  # fmt: skip
        for number, pattern in enumerate(PATTERNS):
            text = pattern.replace("[X]", subject)
            paraphrases.append({**key, "paraphrase_id": number, "template": pattern, "paraphrase": text})
    lake.write("questions", questions, fingerprint="f")
    lake.write("paraphrases", paraphrases, fingerprint="f")
    key = {"dataset": "sandbox", "relation": "country"}
    lake.write("candidates", [{**key, "candidate": one} for one in CANDIDATES], fingerprint="f")
    return found


def score(study: Study, method: str = "closed_book") -> Outcome:
    return made(study, TASKS["candidate_answers"], method)


def rows_of(study: Study, method: str = "closed_book") -> list[dict[str, Any]]:
    return Lake(study.home.lake).read("candidate_answers", f"tiny|{method}").to_pylist()


def test_each_asked_pattern_has_the_candidate_that_the_backend_finds_likeliest(study: Study) -> None:
    outcome = score(study)
    rows = rows_of(study)
    assert [(row["question_id"], row["paraphrase_id"]) for row in rows] == [
        (f"f{i}", number) for i in range(6) for number in (0, 2)
    ]
    assert outcome.notes["distinct_prompts"] == 10  # f0 and f1 read the same
    with ModelSession(LOG) as session:
        backend = session.backend(study.models[0])
        for row in rows:
            subject = f"Town {max(int(row['question_id'][1:]), 1)}"
            prompt = (f"{subject} is in", "", f"{subject}, which lies in")[row["paraphrase_id"]]
            (scored,) = backend.score([prompt], [[f" {one}" for one in CANDIDATES]])
            sums = [one.log_likelihood for one in scored.scores]  # type: ignore[union-attr]
            at = sums.index(max(sums))
            assert (row["prediction"], row["log_likelihood"]) == (CANDIDATES[at], sums[at])
            assert row["mean_log_likelihood"] == pytest.approx(sums[at] / row["prediction_tokens"])
            assert row["margin"] == pytest.approx(sums[at] - sorted(sums)[-2])
            golds = {0: "Chile", 1: "Peru", 2: "Peru of old", 3: "Spain", 4: "Chile"}
            gold = golds.get(int(row["question_id"][1:]))
            rank = None if gold is None else 1 + sum(one > sums[CANDIDATES.index(gold)] for one in sums)
            assert (row["gold_rank"], row["is_correct"]) == (rank, rank == 1)
            assert (row["method"], row["n_candidates"]) == ("closed_book", 4)
    assert score(study).was_current


def retrieve(study: Study) -> Study:
    """Facts f0 to f5 get passages: bm25 finds others for each pattern but one, random has them for the fact."""
    lake = Lake(study.home.lake)
    passages = [
        {"passage_id": f"P{n}", "entity_id": None, "title": f"T{n}", "position": 0, "text": f"Text {n}. End",
         "source": "sandbox"}
        for n in range(6)
    ]  # fmt: skip
    for table in ("passages", "cited_passages"):
        lake.write(table, passages, fingerprint="f")
    for method in ("bm25", "random"):
        rows = [
            {"dataset": "sandbox", "question_id": f"f{i}", "retriever": method, "paraphrase_id": number,
             "rank": rank, "passage_id": f"P{(i + number + rank) % 6}", "score": 1.0, "has_answer": False,
             "has_answer_popqa": False}
            for i in range(6) for number in range(3) for rank in (2, 1)
            if (number == 0 or method == "bm25") and not (i == 4 and number == 2)
        ]  # fmt: skip
        lake.write("retrieved_passages", rows, fingerprint="f", partition=method)
    return dataclasses.replace(study, methods=("closed_book", "bm25", "random"), retrieve_paraphrases=True)


def asked(study: Study, method: str) -> dict[tuple[str, int], Any]:
    """The queries by question and pattern."""
    scope = Scope(study, Lake(study.home.lake), study.models[0], method)
    items = TASKS["candidate_answers"].plan(scope).items
    return {(item.question.question_id, item.paraphrase_id): item for item in items}


def test_a_retriever_has_passages_for_each_pattern_and_a_fixed_method_for_the_fact(study: Study) -> None:
    study = retrieve(study)
    own, fixed = asked(study, "bm25"), asked(study, "random")
    assert own["f1", 0].prompt().text == "Text 2. End\n\nTown 1 is in"
    assert own["f1", 2].prompt().text == "Text 4. End\n\nTown 1, which lies in"
    assert fixed["f1", 2].prompt().text == "Text 2. End\n\nTown 1, which lies in"
    assert ("f4", 2) not in own
    assert ("f4", 2) in fixed
    for method, n in (("bm25", 11), ("random", 12), ("closed_book", 12)):
        outcome = score(study, method)
        rows = rows_of(study, method)
        assert len(rows) == n == len(asked(study, method))
        assert outcome.notes["without_passage"] == 12 - n
        assert {row["method"] for row in rows} == {method}
    by_key = {(row["question_id"], row["paraphrase_id"]): row for row in rows_of(study, "random")}
    assert by_key["f1", 0]["passage_ids"] == by_key["f1", 2]["passage_ids"] == ["P2"]
    assert {row["passage_ids"] for row in rows_of(study)} == {None}


def test_a_model_that_reads_passages_apart_reads_several(study: Study) -> None:
    study = with_model(retrieve(study), passages=2)
    prompt = asked(study, "bm25")["f1", 0].prompt()
    assert prompt == ModelInput(
        "Town 1 is in", ("title: T2 context: Text 2. End", "title: T3 context: Text 3. End")
    )
    score(study, "bm25")
    rows = {(row["question_id"], row["paraphrase_id"]): row for row in rows_of(study, "bm25")}
    assert rows["f1", 0]["passage_ids"] == ["P2", "P3"]
    assert rows["f1", 0]["prompt_hash"] == prompt.hash()
    # from memory it reads as any other model
    assert asked(study, "closed_book")["f1", 0].prompt() == ModelInput("Town 1 is in")


def test_the_free_text_is_kept_beside_the_scores(study: Study) -> None:
    """It is what the model writes behind the same prompt."""
    score(study)
    with ModelSession(LOG) as session:
        backend = session.backend(study.models[0])
        for (question_id, number), item in asked(study, "closed_book").items():
            (written,) = backend.generate([item.prompt().text], Decoding(study.max_new_tokens))
            (row,) = [
                row
                for row in rows_of(study)
                if (row["question_id"], row["paraphrase_id"]) == (question_id, number)
            ]
            assert row["free_generation"] == written.text.strip()  # type: ignore[union-attr]
            assert row["decoding"] == "v1 score, and v1 greedy first_line max_new_tokens=15"


@pytest.mark.parametrize(
    ("text", "chosen", "expected"),
    [
        ("peru.", "Chile", True),
        ("The Peru", "Peru", False),
        ("Peru of old, surely", "Chile", False),
        ("", "Chile", False),
        ("spain", "Spain", False),
    ],
)
def test_a_mismatch_is_another_candidate_after_normalisation(text: str, chosen: str, expected: bool) -> None:
    assert is_mismatch(text, chosen, CANDIDATES) is expected


def test_equal_scores_keep_the_order_of_the_candidates() -> None:
    assert rank_candidates([CandidateScore(one, 1) for one in (-2.0, -1.0, -3.0, -1.0)], 4) == [1, 3, 0, 2]


def test_a_candidate_counts_by_the_better_of_its_two_targets() -> None:
    scores = [CandidateScore(one, 1) for one in (-2.0, -1.0, -3.0, -2.5, -1.0, -0.5)]
    assert rank_candidates(scores, 3) == [5, 1, 0]


def test_an_encoder_decoder_reads_every_pattern_and_writes_sentinel_and_candidate(study: Study) -> None:
    """The scores are those of the plain targets, in two lists; decoder-only models are not asked in this format."""
    asked = dataclasses.replace(
        study, prompts=(dataclasses.replace(CLOZE, name="t5", format="cloze_t5"), CLOZE)
    )
    both = with_model(asked, encoder_decoder=True)
    score(both)
    rows = rows_of(both)
    assert len(rows) == 6 * len(PATTERNS)
    assert {row["prompt"] for row in rows} == {"t5"}
    targets = [f"<extra_id_0>{start} {one}" for start in ("", "\u2581") for one in CANDIDATES]
    with ModelSession(LOG) as session:
        backend = session.backend(both.models[0])
        for row in rows[:6]:
            subject = f"Town {max(int(row['question_id'][1:]), 1)}"
            read = (f"{subject} is in<extra_id_0> .", f"<extra_id_0> has {subject}.",
                    f"{subject}, which lies in<extra_id_0>")[row["paraphrase_id"]]  # fmt: skip
            (scored,) = backend.score([read], [targets])
            sums = [one.log_likelihood for one in scored.scores]  # type: ignore[union-attr]
            assert row["log_likelihood"] == max(sums)
            assert row["prediction"] == CANDIDATES[sums.index(max(sums)) % 4]
            best = [max(pair) for pair in zip(sums[:4], sums[4:], strict=True)]
            assert row["confidence"] == pytest.approx(softmax(best).max(), rel=1e-12)
            assert row["n_candidates"] == 4
    score(asked)
    assert {row["prompt"] for row in rows_of(asked)} == {"cloze"}


def test_other_candidates_are_scored_anew(study: Study) -> None:
    score(study)
    lake = Lake(study.home.lake)
    rows = lake.read("candidates").to_pylist()
    lake.write("candidates", rows[:1], fingerprint="fewer")
    assert score(study).notes["reused"] == 0
    found = {
        (row["prediction"], row["margin"], row["confidence"], row["n_candidates"]) for row in rows_of(study)
    }
    assert found == {("Chile", None, 1, 1)}


def test_runs_that_each_end_before_their_second_batch_repeat_nothing_and_end_the_same(
    study: Study, tmp_path: Path
) -> None:
    """A batch is two calls: scores, then free texts."""
    study = with_model(retrieve(study), passages=2)
    score(study, "bm25")
    varying = ("run_id", "latency_ms", "device_seconds", "shared_tokens", "generated_for", "is_reused")
    whole = [{k: v for k, v in row.items() if k not in varying} for row in rows_of(study, "bm25")]
    Lake(study.home.lake).discard("candidate_answers", "tiny|bm25")
    for cache in study.home.row_cache.glob("*"):
        cache.unlink()
    ledger = tmp_path / "ledger"
    ledger.unlink()
    failing, n_stops = with_model(study, path=f"{study.models[0].path}&fail_on_call=3"), 0
    while not Lake(study.home.lake).partitions("candidate_answers"):
        with contextlib.suppress(BackendError):
            score(failing, "bm25")
            break
        n_stops += 1
    lines = ledger.read_text().splitlines()
    assert n_stops > 1
    assert len(lines) == len(set(lines)) == 2 * len({row["prompt_hash"] for row in whole})
    assert [{k: v for k, v in row.items() if k not in varying} for row in rows_of(study, "bm25")] == whole
