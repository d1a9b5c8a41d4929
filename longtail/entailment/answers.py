"""Mean bidirectional entailment between the answers to a question (SPEC §7, the variant for longer answers).

The value of n answers is the mean over their n(n - 1) ordered pairs of the probability that one entails the other.
Answers that are the same text entail each other with 1, without a classifier.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from longtail.embedding.answers import compared_tables
from longtail.entailment.classifier import Pair
from longtail.entailment.scores import Entailments
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.study import Study

_TABLE = "answer_entailments"
_ASKED = {"paraphrase_answers": "paraphrases", "sampled_answers": "samples"}
_PAIRS_AT_A_TIME = 65_536
Key = tuple[str, str, str, str]
"""What was asked (paraphrases or samples), dataset, question_id, prompt."""
Answers = Mapping[str, int]
"""Distinct texts, and how often each occurs."""


def compare_answers(study: Study, lake: Lake, model: str, log: logging.Logger) -> Outcome:
    """Write a model's partition of `answer_entailments`; empty where the study names no classifier.

    A set whose classifier gives no finite number gets no row and is counted. Errors: `LakeError` if answers that the
    study asks of the model are missing; `BackendError` where the classifier is missing or cannot be loaded.
    """
    if study.nli is None:
        return lake.materialise(_TABLE, fingerprint(_TABLE, "none asked"), lambda: Computed([]), model)
    tables = compared_tables(study, study.model(model))
    with Entailments(study.home.cache, study.nli, log) as entailments:
        stamp = fingerprint(
            [(table, lake.content(table, model)) for table in tables],
            entailments.stamp,
            code_version(__name__),
        )
        return lake.materialise(_TABLE, stamp, lambda: _compute(lake, tables, model, entailments), model)


def _compute(lake: Lake, tables: Sequence[str], model: str, entailments: Entailments) -> Computed:
    sets = {key: answers for key, answers in _sets(lake, tables, model).items() if answers.total() >= 2}
    rows = [
        {
            **dict(zip(("asked", "dataset", "question_id", "prompt"), key, strict=True)),
            "model": model,
            "mean_entailment": value,
            "n_pairs": sets[key].total() * (sets[key].total() - 1) // 2,
            "classifier": entailments.stamp,
        }
        for part in _parts(sets)
        for key, value in _values(part, entailments)
    ]
    return Computed(rows, notes={"computed_now": entailments.n_new, "without_value": len(sets) - len(rows)})


def _values(sets: Mapping[Key, Answers], entailments: Entailments) -> Iterator[tuple[Key, float]]:
    known = entailments.of(list({pair: None for answers in sets.values() for pair in _pairs(answers)}))
    for key, answers in sets.items():
        value = mean_entailment(answers, known)
        if value is not None:
            yield key, value


def mean_entailment(answers: Answers, known: Mapping[Pair, float]) -> float | None:
    """The mean over ordered pairs of at least two answers; None where the probability of a pair is not known."""
    n = sum(answers.values())
    total = float(sum(count * (count - 1) for count in answers.values()))
    for premise, hypothesis in _pairs(answers):
        if (premise, hypothesis) not in known:
            return None
        total += answers[premise] * answers[hypothesis] * known[premise, hypothesis]
    return total / (n * (n - 1))


def _pairs(answers: Answers) -> Iterator[Pair]:
    return permutations(answers, 2)


def _sets(lake: Lake, tables: Sequence[str], model: str) -> dict[Key, Counter[str]]:
    columns = ["dataset", "question_id", "prompt", "prediction"]
    found: dict[Key, Counter[str]] = defaultdict(Counter)
    for table in tables:
        for batch in lake.read(table, model, columns=columns).to_batches(max_chunksize=8_192):
            for row in batch.to_pylist():
                key = (_ASKED[table], row["dataset"], row["question_id"], row["prompt"])
                found[key][row["prediction"]] += 1
    return dict(sorted(found.items()))


def _parts(sets: Mapping[Key, Counter[str]]) -> Iterator[dict[Key, Counter[str]]]:
    """The sets in parts of about `_PAIRS_AT_A_TIME` pairs."""
    part: dict[Key, Counter[str]] = {}
    n_pairs = 0
    for key, answers in sets.items():
        part[key] = answers
        n_pairs += len(answers) * (len(answers) - 1)
        if n_pairs >= _PAIRS_AT_A_TIME:
            yield part
            part, n_pairs = {}, 0
    if part:
        yield part
