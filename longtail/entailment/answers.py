"""Mean bidirectional entailment between the answers to a question (SPEC §7, the variant for longer answers).

The value of n answers is the mean over their n(n - 1) ordered pairs of the probability that one entails the other.
Answers that are the same text entail each other with 1, without a classifier.

Each pair of texts is classified once in a home, for all models and studies. The key of a probability is the classifier's
stamp and a hash of the pair. Each call's are stored at once, so a killed run computes little again. Its last digits
depend on the batch, so all readers take it from the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from operator import methodcaller
from pathlib import Path

import numpy as np

from longtail.embedding.lake_tables import tables_to_compare
from longtail.entailment.classifier import Classifier, Pair, model_of, open_classifier
from longtail.models.weights import find_weights
from longtail.models.workers import Call, Loader, workers
from longtail.progress import Progress
from longtail.storage.blob_store import BlobStore
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.models import Nli
from longtail.study.study import Study

_TABLE = "answer_entailments"
_ASKED = {"paraphrase_answers": "paraphrases", "sampled_answers": "samples"}
_PAIRS_AT_A_TIME = 65_536
Key = tuple[str, str, str, str]
"""What was asked (paraphrases or samples), dataset, question_id, prompt."""
Answers = Mapping[str, int]
"""Distinct texts, and how often each occurs."""
_FILE = "entailments.sqlite"
_CALL_PAIRS = 512


def compare_answers(study: Study, lake: Lake, model: str, log: logging.Logger) -> Outcome:
    """Write a model's partition of `answer_entailments`; empty where the study names no classifier.

    A set whose classifier gives no finite number gets no row and is counted. Errors: `LakeError` if answers that the
    study asks of the model are missing; `BackendError` where the classifier is missing or cannot be loaded.
    """
    if study.nli is None:
        return lake.materialise(_TABLE, fingerprint(_TABLE, "none asked"), lambda: Computed([]), model)
    tables = tables_to_compare(study, study.model(model))
    with Entailments(study.home.cache, study.nli, log) as entailments:
        stamp = fingerprint(
            [(table, lake.content(table, model)) for table in tables],
            entailments.stamp,
            code_version(__name__),
        )
        return lake.materialise(_TABLE, stamp, lambda: _compute(lake, tables, model, entailments), model)


def _compute(lake: Lake, tables: Sequence[str], model: str, entailments: Entailments) -> Computed:
    sets = {key: answers for key, answers in _sets(lake, tables, model).items() if answers.total() >= 2}
    rows = []
    for part in _parts(sets):
        pairs = dict.fromkeys(pair for answers in part.values() for pair in permutations(answers, 2))
        known = entailments.of(list(pairs))
        for key, answers in part.items():
            value = mean_entailment(answers, known)
            if value is not None:
                rows.append({
                    **dict(zip(("asked", "dataset", "question_id", "prompt"), key, strict=True)),
                    "model": model,
                    "mean_entailment": value,
                    "n_pairs": answers.total() * (answers.total() - 1) // 2,
                    "classifier": entailments.stamp,
                })  # fmt: skip
    return Computed(rows, notes={"computed_now": entailments.n_new, "without_value": len(sets) - len(rows)})


def mean_entailment(answers: Answers, known: Mapping[Pair, float]) -> float | None:
    """The mean over ordered pairs of at least two answers; None where the probability of a pair is not known."""
    n = sum(answers.values())
    total = float(sum(count * (count - 1) for count in answers.values()))
    for premise, hypothesis in permutations(answers, 2):
        if (premise, hypothesis) not in known:
            return None
        total += answers[premise] * answers[hypothesis] * known[premise, hypothesis]
    return total / (n * (n - 1))


def _sets(lake: Lake, tables: Sequence[str], model: str) -> dict[Key, Counter[str]]:
    columns = ["dataset", "question_id", "prompt", "prediction"]
    sets: dict[Key, Counter[str]] = defaultdict(Counter)
    for table in tables:
        for batch in lake.read(table, model, columns=columns).to_batches(max_chunksize=8_192):
            for row in batch.to_pylist():
                key = (_ASKED[table], row["dataset"], row["question_id"], row["prompt"])
                sets[key][row["prediction"]] += 1
    return dict(sorted(sets.items()))


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


class Entailments:
    """The probabilities of one home; `cache` is its cache folder.

    Errors: `BackendError` where the classifier is missing.
    """

    def __init__(self, cache: Path, nli: Nli, log: logging.Logger) -> None:
        model = model_of(nli)
        self._loader = Loader(
            "nli", partial(open_classifier, model), lambda _: {"weights": find_weights(model).revision}
        )
        self._weights = self._loader.describe(None)
        code = code_version(Classifier.__module__)
        self.stamp = f"{Path(nli.path).name}@{self._weights['weights'][:12]}-{code[:12]}"
        """What computes the probabilities; those of equal stamps are comparable."""
        self.n_new = 0
        """How many probabilities were computed since the construction."""
        self._store, self._log = BlobStore(cache / _FILE), log
        self._held = contextlib.ExitStack()
        self._answers: Callable[[Iterable[Call]], Iterator[tuple[int, np.ndarray]]] | None = None

    def __enter__(self) -> Entailments:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()
        self._held.close()

    def of(self, pairs: Sequence[Pair]) -> dict[Pair, float]:
        """The probability that each premise entails its hypothesis; a pair whose value is not finite is left out.

        `pairs` are distinct. What the store does not have is computed. Errors: `BackendError` where the classifier
        cannot be loaded; `LakeError` where the disk is full.
        """
        keys = [self._key(pair) for pair in pairs]
        stored = self._store.get_many(keys)
        missing = [pair for pair, key in zip(pairs, keys, strict=True) if key not in stored]
        if missing:
            self._compute(missing)
            stored |= self._store.get_many([self._key(pair) for pair in missing])
        return {
            pair: float(np.frombuffer(stored[key], dtype=np.float32)[0])
            for pair, key in zip(pairs, keys, strict=True)
            if key in stored
        }

    def _compute(self, pairs: Sequence[Pair]) -> None:
        if self._answers is None:
            self._answers = self._held.enter_context(workers(self._loader, self._weights, self._log))
        by_length = sorted(pairs, key=lambda pair: sum(map(len, pair)))
        parts = [by_length[at : at + _CALL_PAIRS] for at in range(0, len(pairs), _CALL_PAIRS)]
        with Progress(self._log, "entailment: pairs", len(pairs)) as progress:
            for place, values in self._answers(methodcaller("probabilities", part) for part in parts):
                probabilities = zip(parts[place], values, strict=True)
                entries = {
                    self._key(pair): value.tobytes() for pair, value in probabilities if np.isfinite(value)
                }
                self._store.put_many(entries)
                self.n_new += len(entries)
                progress.add(len(parts[place]))

    def _key(self, pair: Pair) -> str:
        premise, hypothesis = (text.encode("utf-8", "surrogatepass") for text in pair)
        together = len(premise).to_bytes(8, "big") + premise + hypothesis
        return f"{self.stamp}/{hashlib.sha256(together).hexdigest()[:32]}"
