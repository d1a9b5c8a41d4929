"""The rows of synthetic lakes, drawn from a seed: memory helps for known subjects, passages help for rare ones."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from longtail.generation.prompts.build import block, text_as_read
from longtail.methods import METHODS
from longtail.prompt_formats import BACKGROUND_TEMPLATE, FORMATS
from longtail.relations.relation import relation_set
from longtail.storage.fingerprints import prompt_hash
from longtail.tables import TABLES

if TYPE_CHECKING:
    from tests.lakes import LakePlan

DIMENSIONS = 384
OBJECT_ID = "Q900000000"
SHOTS = 3
SAMPLE_TEMPERATURE = 0.5
N_TIMED = 20
_FALLBACK = {pa.string(): "", pa.bool_(): False, pa.int32(): 1, pa.int64(): 0, pa.float64(): 0.0}


def fill(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """`row` with its missing columns of `table` added: null where allowed, else an empty value."""
    blank = {
        column.name: None if column.nullable else _FALLBACK.get(column.type, [])
        for column in TABLES[table].columns
    }
    return {**blank, **row}


def embedding(text: str) -> list[float]:
    """A unit vector that depends only on the text; those of the two base metals are near each other."""

    def drawn(word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).normal(size=DIMENSIONS) + 1.0

    vector = drawn("Lead") + 0.2 * drawn("Iron") if text == "Iron" else drawn(text)
    return list((vector / np.linalg.norm(vector)).astype(np.float32))


def fame(subject_id: str) -> float:
    """How well known a subject is, in [0, 1): popularity and memory both depend on it."""
    return int(hashlib.sha256(subject_id.encode()).hexdigest()[:8], 16) / 16**8


def finds(retriever: str, subject_id: str) -> bool:
    """Whether a retriever finds a passage about a subject: true in nine of ten cases."""
    return fame(f"{retriever} {subject_id}") < 0.9


def relation_names(plan: LakePlan) -> list[str]:
    return [relation.name for relation in relation_set("popqa")[: plan.n_relations]]


def question_rows(plan: LakePlan) -> list[dict[str, Any]]:
    rows = []
    for dataset in plan.datasets:
        for number, relation in enumerate(relation_set("popqa")[: plan.n_relations]):
            last = number == plan.n_relations - 1
            more = None if dataset == plan.datasets[0] else plan.n_questions_of_others
            n = 1 if last and plan.one_question_relation else more or plan.n_questions_per_relation
            for i in range(n):
                subject_id = f"Q{number * 100_000 + i + 1}"
                rows.append(
                    fill(
                        "questions",
                        {
                            "dataset": dataset,
                            "question_id": f"{subject_id}-{relation.property_id}",
                            "relation": relation.name,
                            "property_id": relation.property_id,
                            "subject_id": subject_id,
                            "subject": f"Subject {subject_id}",
                            "question": relation.question(f"Subject {subject_id}"),
                            "object_ids": [OBJECT_ID],
                            "objects": ["Gold"],
                            "gold_answers": ["Gold", 'it\'s "gold"'],
                        },
                    )
                )
    return rows


def passage_row(subject_id: str) -> dict[str, Any]:
    """Every second passage is verbalised; the others end in the middle of a sentence, half of them in a collection."""
    number = int(subject_id[1:])
    credit = {
        "source": "collection", "collection": "leads", "collection_source": "Leads", "collection_date": None,
        "licence": "CC BY-SA 4.0",
    }  # fmt: skip
    return fill(
        "passages",
        {
            "passage_id": f"{subject_id}-0",
            "entity_id": subject_id,
            "title": subject_id,
            "text": f"{subject_id} is a subject. It has an object. And th",
            **(credit if number % 4 == 2 else {"source": "verbalised" if number % 2 else "sandbox"}),
        },
    )


def paraphrase_rows(plan: LakePlan, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "dataset": q["dataset"],
            "question_id": q["question_id"],
            "paraphrase_id": i,
            "template": f"{i}: [subj]?",
            "paraphrase": f"{i}: {q['subject']}?",
        }
        for q in questions
        for i in range(plan.n_paraphrases + 1)
    ]


def mean_views(plan: LakePlan, subject: str, rng: np.random.Generator) -> float | None:
    """The subject's monthly views, over six decades; None = missing; some have 0."""
    state = rng.uniform()
    if state < plan.share_missing:
        return None
    if state < plan.share_missing + plan.share_zero:
        return 0.0
    known, steps = fame(subject), plan.n_popularities
    return float(round(10 ** (6 * (int(known * steps) / steps if steps else known))))


def month_row(
    subject: str, month: str, level: float | None, plan: LakePlan, rng: np.random.Generator
) -> dict[str, Any] | None:
    """One month of a subject. Ties need constant views; other views vary, and some months have no row."""
    draw = float(rng.uniform())
    title = f"Subject {subject}"  # as in table entities
    known = {"entity_id": subject, "article_title": title, "month": month, "source": "sandbox"}
    if level is None:
        return None if draw < 0.5 else fill("page_views", known)
    if plan.n_popularities is None and draw < 0.05:
        return None
    views = level if plan.n_popularities else round(level * (0.8 + 0.4 * draw))
    return fill("page_views", {**known, "views": int(views)})


def retrieved_rows(
    questions: Sequence[dict[str, Any]], retriever: str, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    for question in questions:
        if not finds(retriever, question["subject_id"]):
            continue
        for rank in (1, 2):
            has_answer = bool(retriever == "oracle" or rng.uniform() < 0.6)
            passage_id = f"{question['subject_id']}-0" if rank == 1 else "Q1-0"
            yield fill(
                "retrieved_passages",
                {
                    "dataset": question["dataset"],
                    "question_id": question["question_id"],
                    "paraphrase_id": 0,
                    "retriever": retriever,
                    "rank": rank,
                    "passage_id": passage_id,
                    "has_answer": has_answer or passage_id == "Q1-0",
                    "has_answer_popqa": has_answer,
                },
            )


def retrieved_for_paraphrases(
    plan: LakePlan, questions: Sequence[dict[str, Any]], retriever: str
) -> Iterator[dict[str, Any]]:
    """What a retriever with an index finds for paraphrases: up to two passages of the dataset's subjects, by a hash."""
    if METHODS[retriever].index is None:
        return
    for i, question in enumerate(questions):
        for paraphrase_id in range(1, plan.n_paraphrases + 1):
            drawn = int(fame(f"{question['question_id']} {paraphrase_id}") * 9)
            near = {question["subject_id"], "Q1", questions[(i + drawn) % len(questions)]["subject_id"]}
            for rank, subject_id in enumerate(sorted(near)[: drawn % 3], start=1):
                text = f"{paraphrase_id}: {question['subject']}?"
                row = {
                    "dataset": question["dataset"], "question_id": question["question_id"],
                    "paraphrase_id": paraphrase_id, "retriever": retriever, "rank": rank,
                    "passage_id": f"{subject_id}-0", "has_answer": False, "has_answer_popqa": False,
                    "query_embedding": embedding(text) if rank == 1 else None,
                }  # fmt: skip
                yield fill("retrieved_passages", row)


def answer_rows(
    plan: LakePlan,
    questions: Sequence[dict[str, Any]],
    model: str,
    size: int,
    method: str,
    prompt: str,
    rng: np.random.Generator,
) -> Iterator[dict[str, Any]]:
    parametric = method in ("closed_book", "genread")
    for i, question in enumerate(questions):
        passage_id, text = passage_before(method, model, question)
        if method in ("oracle", "genread") and passage_id is None:
            continue
        known = fame(question["subject_id"]) * (size + 1) / len(plan.models)
        chance = 0.1 + 0.8 * known if parametric else 0.55
        correct = model in plan.always_right or bool(rng.uniform() < chance)
        same = [other for other in questions if other["dataset"] == question["dataset"]]
        shown = (
            [same[(i * 7 + 13 * k) % len(same)] for k in range(1, SHOTS + 1)] if prompt == "few_shot" else []
        )
        before = [passage_before(method, model, other) for other in shown]
        blocks = [
            block(FORMATS["qa"], other["question"], passage, other["objects"][0])
            for other, (_, passage) in zip(shown, before, strict=True)
        ]
        prompt_text = "\n\n".join([*blocks, block(FORMATS["qa"], question["question"], text)])
        yield fill(
            "answers",
            {
                "dataset": question["dataset"],
                "question_id": question["question_id"],
                "model": model,
                "method": method,
                "prompt": prompt,
                "passage_id": passage_id,
                "passage_ids": None if passage_id is None else [passage_id],
                "demonstration_ids": [other["question_id"] for other in shown],
                "demonstration_passage_ids": [found for found, _ in before],
                **_scored("Gold" if correct else "Lead", correct, rng),
                **_accounts(plan, model, prompt_text, rng),
            },
        )


def passage_before(method: str, model: str, question: dict[str, Any]) -> tuple[str | None, str]:
    """Id and text of the passage before a question, as read; for genread the background text, which is sometimes
    empty."""
    subject_id = question["subject_id"]
    if method == "closed_book" or not finds(method, subject_id):
        return None, ""
    if method == "genread":
        return f"genread:{model}:{question['question_id']}", "" if fame(
            subject_id
        ) < 0.1 else f"{model} says so. A"
    passage = passage_row(subject_id)
    return passage["passage_id"], text_as_read(passage["text"], passage["source"], METHODS[method])


def generated_passage_rows(
    plan: LakePlan, questions: Sequence[dict[str, Any]], model: str, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    for question in questions:
        passage_id, text = passage_before("genread", model, question)
        if passage_id is None:
            continue
        asked = BACKGROUND_TEMPLATE.replace("{question}", question["question"])
        yield fill(
            "generated_passages",
            {
                "dataset": question["dataset"],
                "question_id": question["question_id"],
                "model": model,
                "passage_id": passage_id,
                "text": text,
                "has_answer": bool(rng.uniform() < 0.3),
                "raw_text": f"{text}\nmore",
                **_accounts(plan, model, asked, rng),
            },
        )


def paraphrase_answer_rows(
    plan: LakePlan, questions: Sequence[dict[str, Any]], model: str, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    for i, question in enumerate(questions):
        for paraphrase_id in range(plan.n_paraphrases + 1):
            if i == 0 and paraphrase_id == 1:
                continue
            text = str(rng.choice(["Gold", "Lead", "Iron", ""]))
            yield fill(
                "paraphrase_answers",
                {
                    "dataset": question["dataset"],
                    "question_id": question["question_id"],
                    "model": model,
                    "paraphrase_id": paraphrase_id,
                    "prompt": "popqa_tp",
                    "demonstration_ids": [],
                    **_scored(text, text == "Gold", rng),
                    **_accounts(plan, model, _bare(f"{paraphrase_id}: {question['subject']}?"), rng),
                },
            )


def sampled_answer_rows(
    plan: LakePlan, questions: Sequence[dict[str, Any]], model: str, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Samples of answers: the first question lacks a sample, the second has none."""
    for i, question in enumerate(questions):
        for sample in range(plan.n_samples):
            if (i == 0 and sample == 1) or i == 1:
                continue
            text = str(rng.choice(["Gold", "Lead", "Iron", ""]))
            yield fill(
                "sampled_answers",
                {
                    "dataset": question["dataset"],
                    "question_id": question["question_id"],
                    "model": model,
                    "sample": sample,
                    "prompt": "popqa_tp",
                    "demonstration_ids": [],
                    "temperature": SAMPLE_TEMPERATURE,
                    **_scored(text, text == "Gold", rng),
                    **_accounts(plan, model, _bare(question["question"]), rng),
                },
            )


def _bare(question: str) -> str:
    return FORMATS["question_answer"].replace("{question}", question)


def _scored(text: str, correct: bool, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "prediction": text,
        "raw_text": text,
        "is_declined": text == "Lead" and bool(copy.deepcopy(rng).uniform() < 0.25),
        "is_correct": correct,
        "is_correct_normalized": correct,
        "is_correct_case_sensitive": correct and bool(rng.uniform() < 0.9),
        "is_exact_match": correct,
        "token_f1": float(correct),
        "rouge_l": float(correct),
        **_confidence(text, correct, copy.deepcopy(rng)),
    }


def _confidence(text: str, correct: bool, rng: np.random.Generator) -> dict[str, Any]:
    """Right answers are surer; unknown for one answer in ten and for empty ones. Other columns draw as without it."""
    if not text or rng.uniform() < 0.1:
        return {}
    logs = np.log(rng.uniform(0.5 if correct else 0.1, 1.0, len(text) - 1))
    return {
        "confidence_tokens": len(logs),
        "sum_log_probability": float(logs.sum()),
        "least_probability": float(np.exp(logs.min())),
        "first_probability": float(np.exp(logs[0])),
        "first_margin": float(np.exp(logs[0]) / 2),
        "mean_entropy": float(-logs.mean() * 2),
    }


def _accounts(plan: LakePlan, model: str, prompt_text: str, rng: np.random.Generator) -> dict[str, Any]:
    """Every model's tokens and latency; device seconds for local models; a cost for priced models and services."""
    tokens = len(prompt_text.split())
    seconds = None if model in plan.services else float(rng.uniform(0.001, 0.009))
    cost = 1e-6 * tokens if model in plan.services else 0.001 * (seconds or 0)
    return {
        "prompt_hash": prompt_hash(prompt_text),
        "prompt_tokens": tokens,
        "shared_tokens": int(rng.integers(0, tokens)),
        "new_tokens": int(rng.integers(0, 5)),
        "device_seconds": seconds,
        "cost_usd": cost if model in plan.services or model in plan.priced else None,
        "n_truncated_tokens": 0,
        "batch_size": 1,
        "seed": 0,
        "engine": "fake",
        "revision": "r1",
        "dtype": "float32",
        "quantisation": "none",
        "is_reused": bool(rng.uniform() < 0.2),
        "run_id": "run",
        "latency_ms": float(rng.uniform(1, 9)),
    }


def single_latency_rows(
    model: str, methods: Sequence[str], prompts: Sequence[str], questions: Sequence[dict[str, Any]], seed: int
) -> Iterator[dict[str, Any]]:
    """Questions asked in turn with all methods. The machine's speed varies, and a passage adds about 5 ms.

    The last prompt is the paraphrases' one, which closed_book answers.
    """
    rng = np.random.default_rng([seed, len(model)])
    for number, question in enumerate(questions[:N_TIMED]):
        level = rng.uniform(20, 90)
        for turn, method in enumerate(methods):
            for prompt in prompts if method == "closed_book" else prompts[:-1]:
                more = rng.normal(0 if method == "closed_book" else 5, 2)
                yield {
                    "dataset": question["dataset"],
                    "question_id": question["question_id"],
                    "model": model,
                    "method": method,
                    "prompt": prompt,
                    "single_latency_ms": level + more,
                    "round_number": number,
                    "turn": turn,
                }


def with_reused(rows: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; a row whose prompt partition `before` also has takes over that partition's generation.

    As in a real lake, the rows of each partition share the cost of the generation equally.
    """
    made: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in before:
        made[row["prompt_hash"]].append(row)
    copies = Counter(row["prompt_hash"] for row in rows)
    found = []
    for row in rows:
        same = made.get(row["prompt_hash"])
        if same:
            parts = {
                name: None
                if same[0][name] is None
                else sum(one[name] for one in same) / copies[row["prompt_hash"]]
                for name in ("device_seconds", "cost_usd")
            }
            row = {**row, **parts, "generated_for": same[0]["generated_for"], "is_reused": True}
        found.append(row)
    return found
