"""The data portrait of a study: where it lies, when it fits, and from which passages it is built.

A portrait lies in `<indexes>/portrait/<fingerprint>`. The fingerprint covers the passages' content, the study's keys
and the code. A gram never reaches from one passage to the next.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longtail.errors import LakeError, StudyError
from longtail.grounding.portrait import (
    NORMALISATION,
    WIDTH,
    Portrait,
    Texts,
    build,
    count_grams,
    open_portrait,
    plan_portrait,
    read_plan,
)
from longtail.storage.files import STAGING, remove_leftovers
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Lake
from longtail.study.prompts import Grounding
from longtail.study.study import Study

_ROWS = 4_096
"""Passages that are read at once."""


@dataclass(frozen=True)
class PortraitReport:
    fingerprint: str
    path: Path
    portrait: Portrait
    was_current: bool


def build_portrait(study: Study, lake: Lake, log: logging.Logger) -> PortraitReport:
    """Build the portrait of the study's corpus, unless it is there already; a killed build goes on.

    Errors: `StudyError` where the study has no grounding; `LakeError` without passages, or where a file cannot be
    written.
    """
    grounding, stamp = grounding_of(study), portrait_fingerprint(study, lake)
    folder = _folder(study, stamp)
    remove_leftovers(folder.parent / STAGING)
    try:
        portrait, was_current = open_portrait(folder), True
    except LakeError:
        portrait, was_current = _build(folder, grounding, lake, study.seed, log), False
    log.info("portrait: %.1f MB, false-positive rate %g", portrait.plan.n_bytes / 1e6, portrait.plan.rate)
    return PortraitReport(stamp, folder, portrait, was_current)


def _build(folder: Path, grounding: Grounding, lake: Lake, seed: int, log: logging.Logger) -> Portrait:
    """Write the files that are missing or damaged, by the plan of the first one; portraits of others are removed."""

    def corpus() -> Iterator[Texts]:
        return (Texts.of_arrow(batch["text"]) for batch in corpus_passages(grounding, lake, ["text"]))

    plan = read_plan(folder)
    if plan is None:
        n_all, n_grams = count_grams(corpus(), seed)
        log.info("portrait: %d distinct 25-grams, %d in all", n_grams, n_all)
        plan = plan_portrait(n_grams, grounding.portrait.false_positive_rate, seed)
    build(folder, plan, corpus, log)
    for other in folder.parent.iterdir():
        if other.name not in (folder.name, STAGING):
            shutil.rmtree(other, ignore_errors=True)
    return open_portrait(folder)


def open_of(study: Study, lake: Lake) -> Portrait:
    """The portrait that fits the lake's passages. Errors: `LakeError` where it must be built first."""
    return open_portrait(_folder(study, portrait_fingerprint(study, lake)))


def portrait_fingerprint(study: Study, lake: Lake) -> str:
    grounding = grounding_of(study)
    code = code_version(__name__)
    settings = (grounding.portrait.collections, grounding.portrait.false_positive_rate, WIDTH, NORMALISATION)
    return fingerprint(lake.content("passages"), *settings, study.seed, code)


def grounding_of(study: Study) -> Grounding:
    """The study's key `grounding`. Errors: `StudyError` without it."""
    if study.grounding is None:
        raise StudyError(f"{study.path}: grounding is missing: no portrait is built without it")
    return study.grounding


def corpus_passages(grounding: Grounding, lake: Lake, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """`columns` of the passages in the corpus, in the order of the lake, batch by batch."""
    chosen = list(grounding.portrait.collections)
    with pq.ParquetFile(lake.path("passages")) as file:
        for batch in file.iter_batches(_ROWS, columns=[*columns, "collection"]):
            yield batch.filter(pc.is_in(batch["collection"], pc.cast(chosen, "string"))) if chosen else batch


def _folder(study: Study, stamp: str) -> Path:
    return study.home.indexes / "portrait" / stamp
