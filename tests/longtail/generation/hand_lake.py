"""A lake made by hand for tests of prompts: two datasets, some questions without passages, one as the reference looks up.

Question `Q5-P50` of dataset `one` is written in lower case and without a question mark, as the reference implementation
looks up the demonstration `Q4-P50`. Dataset `two` has a question id in common with `one`, with another text.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from longtail.storage.lake import Lake
from longtail.study.datasets import Dataset
from longtail.study.models import Model
from longtail.study.prompts import Prompt, Sampling
from longtail.study.source import Popularity, Source
from longtail.study.study import Study

METHODS = ("closed_book", "genread", "bm25", "dense", "oracle")
QUESTIONS = {
    "one": {
        "Q1-P36": ("capital", "What is the capital of Utopia?", ["Amaurot", "Amaurote"]),
        "Q2-P36": ("capital", "What is the capital of {question} \n?", ["Łódź \U0001f9ed"]),
        "Q3-P22": ("father", "Who is the father of Ann?", ["Bo"]),
        "Q4-P50": ("author", "Who is the author of Emma?", ["Jane Austen", "Austen"]),
        "Q5-P50": ("author", "who is the author of emma", ["J. Austen"]),
        "Q6-P50": ("author", "Who is the author of Utopia?", ["Thomas More"]),
        "Q7-P22": ("father", "Who is the father of Cy?", [""]),
    },
    "two": {
        "Q1-P36": ("capital", "What is the capital of Laputa?", ["Lagado"]),
        "Q8-P36": ("capital", "What is the capital of Laputa?", ["Lagado"]),
        "Q9-P22": ("father", "Who is the father of Di?", ["Ed"]),
    },
}
WITHOUT_PASSAGE = {("one", "Q3-P22"), ("two", "Q9-P22")}
PASSAGES = {
    "Q1-0": ("Utopia is far. Its capital is Amaurot. It was", "wikipedia"),
    "Q2-0": ("One piece only", "wikipedia"),
    "Q4-0": ("Emma is a book. By Jane Austen.", "verbalised"),
    "Q5-0": ("This one is of the lower-case question. Cut", "sandbox"),
    "Q6-0": ("Q: Is it? A: No.\n\nTwo paragraphs. More", "sandbox"),
    "Q7-0": ("", "sandbox"),
    "Q8-0": ("Laputa flies. Its", "sandbox"),
}


def hand_study(folder: Path, *prompts: Prompt, seed: int = 0) -> Study:
    """A study of both datasets and the fake model `tiny`."""
    return Study(
        name="prompts",
        description="for tests",
        source=Source(kind="sandbox", snapshot="2026-10"),
        datasets=(Dataset("two"), Dataset("one")),
        prompts=prompts,
        models=(Model("tiny", "fake:digest", backend="fake"),),
        methods=METHODS,
        popularity=Popularity(),
        path=folder / "study.yaml",
        sampling=Sampling(n=3),
        seed=seed,
    )


def fill(lake: Lake, generated: Iterable[tuple[str, str, str]] = ()) -> None:
    """All inputs of prompts; `generated` are (dataset, question_id, text) of the model's own background texts."""
    lake.write("questions", [question_row(*place) for place in _places()], fingerprint="f")
    lake.write("paraphrases", [row for place in _places() for row in _paraphrases(*place)], fingerprint="f")
    for table in ("passages", "cited_passages"):
        lake.write(table, [_passage(*item) for item in PASSAGES.items()], fingerprint="f")
    for retriever in ("bm25", "dense", "oracle"):
        rows = [
            row
            for place in _places()
            if place not in WITHOUT_PASSAGE
            for row in _retrieved(*place, retriever)
        ]
        lake.write("retrieved_passages", rows, fingerprint="f", partition=retriever)
    lake.write(
        "generated_passages", [_generated(*item) for item in generated], fingerprint="f", partition="tiny"
    )


def question_row(dataset: str, question_id: str) -> dict[str, object]:
    """The row of lake table questions."""
    relation, text, golds = QUESTIONS[dataset][question_id]
    return {
        "dataset": dataset, "question_id": question_id, "relation": relation, "property_id": question_id[3:],
        "subject_id": question_id[:2], "subject": "S", "subject_aliases": [], "question": text,
        "object_ids": ["Q99"], "objects": golds[:1], "gold_answers": golds,
    }  # fmt: skip


def _places() -> list[tuple[str, str]]:
    return [(dataset, question_id) for dataset in QUESTIONS for question_id in reversed(QUESTIONS[dataset])]


def _paraphrases(dataset: str, question_id: str) -> list[dict[str, object]]:
    text = QUESTIONS[dataset][question_id][1]
    return [
        {
            "dataset": dataset,
            "question_id": question_id,
            "paraphrase_id": i,
            "template": "t",
            "paraphrase": wording,
        }
        for i, wording in reversed(list(enumerate((text, f"Say: {text}", f"{text} Well?"))))
    ]


def _passage(passage_id: str, content: tuple[str, str]) -> dict[str, object]:
    text, source = content
    return {
        "passage_id": passage_id, "entity_id": None, "title": "T", "position": 0, "text": text, "source": source,
    }  # fmt: skip


def _retrieved(dataset: str, question_id: str, retriever: str) -> list[dict[str, object]]:
    own = f"{question_id[:2]}-0"
    return [
        {
            "dataset": dataset, "question_id": question_id, "retriever": retriever, "rank": rank,
            "paraphrase_id": 0, "passage_id": passage_id, "score": 1.0, "has_answer": True, "has_answer_popqa": True,
        }
        for rank, passage_id in ((2, "Q8-0"), (1, own))
    ]  # fmt: skip


def _generated(dataset: str, question_id: str, text: str) -> dict[str, object]:
    return {
        "dataset": dataset, "question_id": question_id, "model": "tiny", "passage_id": f"genread:tiny:{question_id}",
        "text": text, "has_answer": False, "has_answer_popqa": False, "prompt_hash": "", "raw_text": text,
        "prompt_tokens": 1, "shared_tokens": 0, "new_tokens": 1, "n_truncated_tokens": 0, "latency_ms": 1.0,
        "batch_size": 1, "device_seconds": None, "cost_usd": None, "engine": "fake", "revision": "r",
        "dtype": "float32", "quantisation": "none", "seed": 0, "is_reused": False, "generated_for": "f", "run_id": "r",
        "code_version": "c",
    }  # fmt: skip
