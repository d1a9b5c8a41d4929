"""QUIP-Score of every text that a model wrote: the share of its 25-grams that a portrait has, and the spans that it
quotes (SPEC §9).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from longtail.grounding.corpus import open_of, portrait_fingerprint
from longtail.grounding.portrait import Hasher, Portrait, Texts
from longtail.methods import BACKGROUND
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, Streamed
from longtail.study.study import Study

_ROOM = 1 << 22
_TABLE = "quip_scores"
_ROWS = 8_192
"""Generations that are scored together."""


@dataclass(frozen=True)
class Quotes:
    """Of n texts: `n_grams` and `n_quoted`, int64[n]; a text under 25 characters has no gram.

    Span i is the characters `starts[i]` to before `ends[i]` of text `texts[i]`, as it was before normalisation: a
    maximal run of grams that the portrait has: the text's grams from number `first_grams[i]`, as many as
    `span_grams[i]`. Spans are in the order of the texts.
    """

    n_grams: np.ndarray
    n_quoted: np.ndarray
    texts: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    first_grams: np.ndarray
    span_grams: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """QUIP of each text: float64[n], NaN where it is undefined."""
        with np.errstate(invalid="ignore"):
            return np.where(self.n_grams > 0, self.n_quoted / self.n_grams, np.nan)


class Scorer:
    """Scores texts against a portrait, in buffers that it uses again."""

    def __init__(self, portrait: Portrait, room: int = _ROOM) -> None:
        self._hasher = Hasher(portrait.plan.seed, room, has_places=True)
        self._find = portrait.finder(room)
        self._spans = np.empty((5, room), np.int64)

    def quotes(self, texts: Texts) -> Quotes:
        from longtail.grounding import kernels

        n_grams, n_quoted = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
        spans = [np.empty((5, 0), np.int64)]
        open_run = np.array([-1, -1, 0, 0])
        for piece in self._hasher.pieces(texts):
            members = self._find(piece.hashes)
            rows = slice(piece.first_text, piece.first_text + len(piece.counts))
            n_grams[rows] += piece.counts
            text_of_gram = np.repeat(np.arange(len(piece.counts)), piece.counts)
            n_quoted[rows] += np.bincount(text_of_gram[members], minlength=len(piece.counts))
            n = kernels.runs(
                members, piece.counts, piece.firsts, piece.lasts, open_run, piece.is_open, self._spans
            )
            some = self._spans[:, :n].copy()
            some[0] += piece.first_text
            spans.append(some)
        return Quotes(n_grams, n_quoted, *np.concatenate(spans, axis=1))


@dataclass(frozen=True)
class _Source:
    """A file of generations. `columns`: further ones of its key, with their names in `quip_scores`; `constants`: what all
    its rows have there. `texts`: the column of the text, and that of the one which the authors' code scores if another.
    """

    table: str
    partition: str
    columns: Mapping[str, str]
    constants: Mapping[str, str | None]
    texts: tuple[str, ...] = ("raw_text",)


def score_generations(study: Study, lake: Lake, model: str, log: logging.Logger) -> Outcome:
    """Write a model's partition of `quip_scores`: its answers by each method, its background texts, and its
    grounded generations; one without an explanation has a score by the authors' code alone.

    Errors: `LakeError` where generations or the portrait are missing.
    """
    sources = list(_sources(study, model))
    contents = [
        (source.table, source.partition, lake.content(source.table, source.partition)) for source in sources
    ]
    stamp = fingerprint(contents, portrait_fingerprint(study, lake), code_version(__name__))

    def compute() -> Computed:
        scorer = Scorer(open_of(study, lake))
        files = [lake.path(source.table, source.partition) for source in sources]
        log.info("quip of %s: %d generations", model, sum(pq.read_metadata(file).num_rows for file in files))
        return Computed(
            Streamed(part for source in sources for part in _score_file(lake, model, source, scorer))
        )

    return lake.materialise(_TABLE, stamp, compute, model)


def _sources(study: Study, model: str) -> Iterator[_Source]:
    for method in study.methods if study.answer_prompts else ():
        yield _Source("answers", f"{model}|{method}", {"method": "method", "prompt": "prompt"}, {})
    if study.writes_background:
        background = next(method for method in study.methods if study.method(method).kind == BACKGROUND)
        yield _Source("generated_passages", model, {}, {"method": background, "prompt": None})
    if study.grounding_prompts:
        key = {"method": "method", "grounding_prompt": "prompt"}
        yield _Source("grounded_generations", model, key, {}, ("explanation", "reference_explanation"))


def _score_file(lake: Lake, model: str, source: _Source, scorer: Scorer) -> Iterator[pa.Table]:
    constants = {"model": model, "text_from": source.table, **source.constants}
    key_columns = {"dataset": "dataset", "question_id": "question_id", **source.columns}
    with pq.ParquetFile(lake.path(source.table, source.partition)) as file:
        for batch in file.iter_batches(_ROWS, columns=[*key_columns, *source.texts]):
            quotes, *others = (
                scorer.quotes(Texts.of_arrow(pc.fill_null(batch[text], ""))) for text in source.texts
            )
            keys = pa.table(batch.select(list(key_columns))).rename_columns(key_columns)
            for name, value in constants.items():
                keys = keys.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(keys)))
            reference = np.nan_to_num((others or [quotes])[0].scores)
            for name, values in (_columns(quotes) | {"quip_reference": pa.array(reference)}).items():
                keys = keys.append_column(name, values)
            yield keys


def _columns(quotes: Quotes) -> dict[str, pa.Array]:
    n = len(quotes.n_grams)
    offsets = pa.array(quotes.texts.searchsorted(range(n + 1)), pa.int32())
    spans = {
        "span_starts": quotes.starts,
        "span_ends": quotes.ends,
        "span_first_grams": quotes.first_grams,
        "span_grams": quotes.span_grams,
    }
    return {
        "n_grams": pa.array(quotes.n_grams),
        "quip": pa.array(quotes.scores, from_pandas=True),
        **{
            name: pa.ListArray.from_arrays(offsets, pa.array(values, pa.int32()))
            for name, values in spans.items()
        },
    }
