"""How likely one text entails another, by a sequence-classification model of transformers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from longtail.embedding.declared import read_model
from longtail.models.limits import input_limit, plan_batches
from longtail.models.model_files import ModelFiles, find_files
from longtail.models.placement import hold_device
from longtail.models.weights import check_folder, find_weights
from longtail.study.model_files import folder_of
from longtail.study.models import Model, Nli
from longtail.threads import thread_count

Pair = tuple[str, str]
"""A premise, and a hypothesis that it may entail."""
_ENTAILMENT = re.compile(r"entail(s|ed|ment)?", re.IGNORECASE)
_BATCH_TOKENS = 4_096
_BATCH_TOKENS_GPU = 65_536


def model_of(nli: Nli) -> Model:
    """The classifier as a model: found, placed and named like those that generate."""
    return Model("nli", nli.path, revision=nli.revision, device=nli.device, study_folder=nli.study_folder)


def check(nli: Nli) -> None:
    """Look at once for the classifier; in a folder also for its label. Errors: `BackendError`, in one line."""
    model = model_of(nli)
    check_folder(model)
    folder = folder_of(model)
    if folder is not None:
        entailment_label(find_files(model.name, folder))


def entailment_label(files: ModelFiles) -> int:
    """The number of the label that means entailment, by the names in config.json. Errors: `BackendError` unless there
    is one."""
    names = files.settings("config.json").get("id2label")
    names = names if isinstance(names, dict) else {}
    labels = [int(number) for number, name in names.items() if _ENTAILMENT.fullmatch(str(name).strip())]
    if len(labels) != 1:
        listed = ", ".join(map(str, names.values())) or "it names none"
        raise files.refusal(
            f"{len(labels) or 'none'} of its labels ({listed}) are called entailment; id2label in config.json must"
            " name one"
        )
    return labels[0]


@contextlib.contextmanager
def open_classifier(model: Model) -> Iterator[Classifier]:
    """The classifier, on a device that is leased as long as it is open. Errors: `BackendError`, in one line."""
    with hold_device(model) as device:
        yield Classifier(model, device)


class Classifier:
    """A model loaded onto a torch device. Errors: `BackendError`, in one line."""

    def __init__(self, model: Model, device: Any) -> None:
        import torch

        torch.set_num_threads(thread_count())
        files = find_weights(model).files
        self._label = entailment_label(files)
        self._device = device
        kind = "AutoModelForSequenceClassification"
        self._tokenizer, loaded, missing = read_model(files, kind, torch.float32)
        if missing:
            raise files.refusal(f"it lacks weights of a classifier: {', '.join(missing[:3])}")
        if self._tokenizer.pad_token is None:
            raise files.refusal("its tokenizer has no pad token")
        self._model = loaded.eval().to(device)
        self._limit = input_limit(self._tokenizer, loaded.config)

    def probabilities(self, pairs: Sequence[Pair]) -> np.ndarray:
        """The probability (float32) that each premise entails its hypothesis, shape (len(pairs),).

        Pairs of similar length are computed together. Texts that are too long for the model lose their ends.
        """
        encoded = self._tokenizer(
            [premise for premise, _ in pairs],
            [hypothesis for _, hypothesis in pairs],
            truncation=True,
            max_length=self._limit,
        )
        most = _BATCH_TOKENS if self._device.type == "cpu" else _BATCH_TOKENS_GPU
        values = np.empty(len(pairs), dtype=np.float32)
        for rows in plan_batches(encoded["input_ids"], [0] * len(pairs), most):
            values[rows] = self._forward(
                {name: [column[row] for row in rows] for name, column in encoded.items()}
            )
        return values

    def _forward(self, encoded: dict[str, list[list[int]]]) -> np.ndarray:
        import torch

        inputs = self._tokenizer.pad(encoded, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            logits = self._model(**inputs).logits.float()
        values: np.ndarray = torch.softmax(logits, dim=1)[:, self._label].cpu().numpy()
        return values
