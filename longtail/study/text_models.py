"""Keys `embeddings` and `nli` of study.yaml: the models that compare texts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from longtail.study.reader import Reader


@dataclass(frozen=True)
class Embeddings:
    """Where the sentence encoder computes (a torch device, or `auto`: a GPU if there is one), and what it checks.

    `least_paraphrase_cosine`: the run stops where the paraphrases of a relation are on average less similar to their
    questions (SPEC §1); -1 lets all pass. The default is between two groups: our paraphrases have 0.91 to 0.96 by
    relation, and questions about the same subject by other relations' templates 0.64 to 0.77.
    """

    device: str = "auto"
    least_paraphrase_cosine: float = 0.8


@dataclass(frozen=True)
class Nli:
    """A sequence-classification model that says whether one answer entails another (SPEC §7): a folder (relative to the
    study file, in `study_folder`) or hub id, its revision, and a torch device or `auto`."""

    path: str
    revision: str | None = None
    device: str = "auto"
    study_folder: Path | None = field(default=None, compare=False)


def read_embeddings(read: Reader) -> Embeddings:
    """Key `embeddings`. Errors: `StudyError`."""
    read.only(*(f.name for f in dataclasses.fields(Embeddings)))
    return Embeddings(
        device=read.text("device", Embeddings.device),
        least_paraphrase_cosine=read.real(
            "least_paraphrase_cosine", Embeddings.least_paraphrase_cosine, -1 - 1e-9, 1
        ),
    )


def read_nli(read: Reader) -> Nli:
    """Key `nli`. Errors: `StudyError`."""
    read.only(*(f.name for f in dataclasses.fields(Nli) if f.name != "study_folder"))
    revision = read.optional("revision", read.text)
    return Nli(read.text("path"), revision, read.text("device", Nli.device), read.path.parent)
