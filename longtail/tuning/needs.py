"""What a sweep needs of its study: a model that can be trained, and cloze queries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from longtail.errors import BackendError, SourceError
from longtail.needs import Need
from longtail.study.models import Model
from longtail.study.study import Study


def needs_of_sweep(study: Study) -> Iterator[Need]:
    """None without a sweep."""
    if study.sweep is not None:
        yield Need("sweep.model", partial(check_trainable, study.model(study.sweep.model)))
        yield Need("sweep.dataset", partial(_check_cloze, study, study.sweep.dataset))


def _check_cloze(study: Study, name: str) -> None:
    if name not in [dataset.name for dataset in study.cloze_datasets]:
        raise SourceError(f"dataset {name} has no cloze queries; the sweep trains on those of format pararel")


def check_trainable(model: Model) -> None:
    """Errors: `BackendError` where a model's weights are not trained as the study loads them."""
    if (model.dtype, model.quantisation, model.device_map) != ("float32", "none", None):
        raise BackendError(
            f"model {model.name}: the sweep trains weights in dtype float32, without quantisation and device_map"
        )
