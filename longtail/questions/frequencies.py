"""How frequent the subjects of facts are: what a sample of facts is weighted by (SPEC §1).

A subject's names are its label and its aliases, without white space at their ends. Their occurrences are added up. If a
subject is called both "New York" and "New York City", the words "New York City" in a text count twice.
"""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import SourceError
from longtail.imports.records import file_hashes
from longtail.questions.sampling import ALIAS_FREQUENCY, PAGE_VIEWS, SITELINKS, clean_popularity
from longtail.questions.sampling import FREQUENCIES as TABLE
from longtail.questions.text_matches import count_names, text_files
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.storage.lake_files import content_hash
from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.wikimedia import page_view_origins
from longtail.wikimedia.page_view_origins import fetch_views, page_views_slice, resolve_articles
from longtail.wikimedia.page_views import check_months
from longtail.wikimedia.services import finish_stage, open_services

_TEXT_BYTES = 800_000_000  # what counts are rescaled to


def measure_frequencies(study: Study, lake: Lake, log: logging.Logger, today: date | None = None) -> Outcome:
    """Write lake table subject_frequencies. It has no rows if the study samples no facts.

    Errors: `LakeError` without triples and entities; `SourceError` if text or page views are missing.
    """
    sample = study.source.sample
    if sample is None:
        return lake.materialise(TABLE, fingerprint(TABLE, "no sample"), lambda: Computed([]))
    if sample.text is not None:
        return _of_text(sample.text.find(study.path, "to count names in"), sample.match, lake, log)
    if sample.month is not None:
        check_months(study, [sample.month], today or datetime.now(UTC).date())
        return _of_page_views(study, sample.month, lake, log)
    subjects = _subjects(lake, ["sitelinks"])
    code = code_version(__name__, without=[page_view_origins.__name__])
    stamp = fingerprint(TABLE, SITELINKS, content_hash(subjects), code)

    def compute() -> Computed:
        counts = clean_popularity(subjects["sitelinks"].cast(pa.float64()).to_numpy())
        return _frequency_rows(subjects, SITELINKS, counts)

    return lake.materialise(TABLE, stamp, compute)


def _subjects(lake: Lake, columns: list[str]) -> pa.Table:
    """The entities that are subjects of facts, sorted by id: `entity_id` and `columns`."""
    ids = pc.unique(lake.read("triples", columns=["subject_id"])["subject_id"])
    entities = lake.read("entities", columns=["entity_id", *columns]).replace_schema_metadata(None)
    return entities.filter(pc.is_in(entities["entity_id"], value_set=ids)).sort_by("entity_id")


def _of_page_views(study: Study, month: str, lake: Lake, log: logging.Logger) -> Outcome:
    subjects = _subjects(lake, ["article_title"])
    has_article = pc.is_valid(subjects["article_title"])
    titled = subjects.filter(has_article)
    stamp = fingerprint(
        TABLE,
        PAGE_VIEWS,
        month,
        content_hash(subjects),
        page_views_slice(study, month, titled.num_rows),
        code_version(__name__, without=[page_view_origins.__name__]),
    )

    def compute() -> Computed:
        with open_services(study.source, study.home, stage=stamp) as services:
            articles = resolve_articles(study, services, titled["article_title"].to_pylist(), log)
            fetched = fetch_views(study, services, articles, [month], log)[month]
        views = np.full(subjects.num_rows, np.nan)
        views[has_article.to_numpy()] = [np.nan if n is None else n for n in fetched.by_title]
        if subjects.num_rows and np.isnan(views).all():
            raise SourceError(
                f"source.sample.month: the source has no views of any subject in {month}; nothing was written."
                " It may not have counted that month yet: choose an earlier one"
            )
        computed = _frequency_rows(subjects, PAGE_VIEWS, clean_popularity(views), month=month)
        notes = {**computed.notes, "without_article": subjects.num_rows - titled.num_rows, **fetched.notes}
        return Computed(computed.rows, fetched.rejected, notes)

    outcome = lake.materialise(TABLE, stamp, compute)
    finish_stage(study.home, stamp)
    return outcome


def _of_text(place: Path, match: str, lake: Lake, log: logging.Logger) -> Outcome:
    files = text_files(place)
    subjects = _subjects(lake, ["label", "aliases"])
    hashes = [digest for _, digest in file_hashes(files)]
    suffixes = [file.name.partition(".")[2] for file in files]  # what a file is called decides how it is read
    stamp = fingerprint(
        TABLE,
        ALIAS_FREQUENCY,
        match,
        hashes,
        suffixes,
        content_hash(subjects),
        code_version(__name__),
    )
    return lake.materialise(TABLE, stamp, lambda: _count(subjects, match, files, log))


def _count(subjects: pa.Table, match: str, files: list[Path], log: logging.Logger) -> Computed:
    owners, codes, names = _names(subjects)
    counts = count_names(files, names, log)
    n = subjects.num_rows

    def sum_names(of_name: np.ndarray) -> np.ndarray:
        return np.bincount(owners, of_name[codes], n).astype(np.int64)

    whole, anywhere = sum_names(counts.whole_words), sum_names(counts.anywhere)
    chosen = whole if match == "whole_words" else anywhere
    frequency = chosen * (_TEXT_BYTES / max(counts.n_bytes, 1))
    more = {
        "n_names": pa.array(np.bincount(owners, minlength=n), pa.int32()),
        "n_whole_words": whole,
        "n_anywhere": anywhere,
    }
    computed = _frequency_rows(subjects, ALIAS_FREQUENCY, frequency, **more)
    notes = {
        "names": len(names),
        "text_bytes": counts.n_bytes,
        "occurrences_as_whole_words": int(counts.whole_words.sum()),
        "occurrences_anywhere": int(counts.anywhere.sum()),
        "subjects_never_named": int((chosen == 0).sum()),
        **counts.rejected.notes(),
    }
    return Computed(computed.rows, counts.rejected.rows, {**computed.notes, **notes})


def _names(subjects: pa.Table) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """Each distinct pair (row of the subject, place of the name), and the distinct names. Blank names are left out."""
    aliases = subjects["aliases"].combine_chunks()
    owners = np.concatenate([np.arange(len(aliases)), pc.list_parent_indices(aliases).to_numpy()])
    texts = pa.concat_arrays(
        [subjects["label"].combine_chunks().cast(pa.string()), pc.list_flatten(aliases).cast(pa.string())]
    )
    texts = pc.fill_null(pc.utf8_trim_whitespace(texts), "")
    encoded = texts.dictionary_encode()
    pairs = np.unique(owners.astype(np.int64) * len(encoded.dictionary) + encoded.indices.to_numpy())
    owners, codes = np.divmod(pairs, max(len(encoded.dictionary), 1))
    names = encoded.dictionary.cast(pa.binary()).to_pylist()
    if b"" in names:
        blank = names.index(b"")
        owners, codes = owners[codes != blank], codes[codes != blank]
        codes = codes - (codes > blank)
        del names[blank]
    return owners, codes, names


def _frequency_rows(subjects: pa.Table, measure: str, popularity: np.ndarray, **more: Any) -> Computed:
    values = {
        "entity_id": subjects["entity_id"],
        "popularity": pa.array(popularity, pa.float64(), from_pandas=True),
        "popularity_measure": measure,
        **more,
    }

    def column(field: pa.Field) -> Any:
        value = values.get(field.name)
        is_one = value is None or isinstance(value, str)
        return pa.repeat(pa.scalar(value, field.type), subjects.num_rows) if is_one else value

    missing = int(np.isnan(popularity).sum())
    notes = {"subjects": subjects.num_rows, "missing": missing, "zero": int((popularity == 0).sum())}
    return Computed(pa.table({field.name: column(field) for field in TABLES[TABLE].schema}), notes=notes)
