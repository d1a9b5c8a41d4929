"""Checkpoints of a setting whose inputs have changed since: they are removed, unless the study names one."""

from __future__ import annotations

import logging
from pathlib import Path

from longtail.embedding.settings import EncoderSettings
from longtail.storage.files import remove
from longtail.study.model_paths import place_of
from longtail.study.study import Study


def remove_stale_checkpoints(study: Study, setting: str, current: Path, log: logging.Logger) -> None:
    """Remove the setting's folders beside `current`; one stays if a model or a retriever of the study lies in it."""
    named = _named(study)
    for other in sorted(current.parent.glob("*")):
        if other == current:
            continue
        names = [name for path, name in named.items() if path.is_relative_to(other.resolve())]
        what = (
            f"setting {setting} is trained again, as its facts, models, passages, seed or code have changed"
        )
        if names:
            log.warning(
                "%s; the stale checkpoints in %s are kept, because %s uses one", what, other, names[0]
            )
        else:
            log.warning("%s; the stale checkpoints in %s are removed", what, other)
            remove(other)


def _named(study: Study) -> dict[Path, str]:
    """The folders that models and retrievers of the study are loaded from, each with what names it."""
    found = {model.path: f"model {model.name}" for model in study.models}
    for one in study.retrievers:
        if isinstance(one.settings, EncoderSettings):
            found |= {
                path: f"retriever {one.name}" for path in (one.settings.path, one.settings.query_path) if path
            }
    return {place_of(path, study.path.parent): name for path, name in found.items()}
