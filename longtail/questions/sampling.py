"""The sample of facts that a dataset asks about, weighted by frequency (SPEC §1; PopQA, appendix A), as lake table
candidate_triples: every candidate, and what became of it.

Triples (subject, property, object) are sampled. A question is about (subject, property). It is asked if at least one of
its triples is kept, and the objects of all its triples are answers.

Both draws are SHA-256 hashes, so that everyone can compute them. The hash of the UTF-8 text `<seed>:<purpose>:<subject>
<property> <object>` gives its first eight bytes as a big-endian number; the purpose is `draw` for R and `cap` for the
cap. The result therefore depends on the triples alone, never on their order.

How frequent a subject is stands in lake table subject_frequencies. Its names in a text are its label and its aliases,
without white space at their ends. Their occurrences are added up. If a subject is called both "New York" and "New York
City", the words "New York City" in a text count twice.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import SourceError
from longtail.imports.records import file_hashes
from longtail.questions.text_matches import count_names, text_files
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.storage.lake_files import content_hash
from longtail.study.source import FactSample
from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.wikimedia import page_views
from longtail.wikimedia.page_views import check_months, fetch_views, page_views_slice, resolve_articles
from longtail.wikimedia.selected_facts import CANDIDATES as TABLE
from longtail.wikimedia.selected_facts import KEPT
from longtail.wikimedia.services import finish_stage, open_services

FREQUENCIES = "subject_frequencies"
PAGE_VIEWS, SITELINKS, ALIAS_FREQUENCY = "page_views", "sitelinks", "alias_frequency"
TRIPLE = ("subject_id", "property_id", "object_id")
BELOW, CAPPED, NO_FREQUENCY, NO_LABEL = "frequency", "cap", "no_frequency", "no_label"
OUTCOMES = (KEPT, BELOW, CAPPED, NO_FREQUENCY, NO_LABEL)
"""What becomes of a candidate: kept, or why it is not.

frequency: f is not above exp(8R - 6); cap: enough others of its relation are kept; no_frequency: nothing is known of
its subject's frequency, which is not zero; no_label: its subject or object has no English label, so nothing can be asked.
"""
_BATCH = 1 << 16
_TEXT_BYTES = 800_000_000  # what counts are rescaled to


def hash_triples(triples: pa.Table, seed: int, purpose: str) -> np.ndarray:
    """A hash of (seed, purpose, triple) for each row, as uint64."""
    start = hashlib.sha256(f"{seed}:{purpose}:".encode())
    hashes = [np.empty(0, np.uint64)]
    for batch in triples.select(list(TRIPLE)).to_batches(max_chunksize=_BATCH):
        texts = pc.binary_join_element_wise(*batch.columns, " ").to_pylist()
        digests = []
        for text in texts:
            digest = start.copy()
            digest.update(text.encode())
            digests.append(digest.digest()[:8])
        hashes.append(np.frombuffer(b"".join(digests), ">u8").astype(np.uint64))
    return np.concatenate(hashes)


def clean_popularity(popularity: np.ndarray) -> np.ndarray:
    """`popularity`, with NaN in the place of infinities and negative numbers (SPEC §1). Zero is a popularity."""
    values = np.asarray(popularity, np.float64)
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def median_factor(popularity: np.ndarray) -> float | None:
    """The factor that gives the median candidate of known popularity f = 1 (SPEC §1).

    None if there is no such factor, because no popularity is known or the median is zero.
    """
    values = clean_popularity(popularity)
    values = values[~np.isnan(values)]
    median = float(np.median(values)) if len(values) else 0.0
    return 1 / median if median > 0 else None


def sample_triples(candidates: pa.Table, per_relation: int, seed: int) -> pa.Table:
    """What becomes of each candidate, sorted by triple: its columns, then `draw`, `threshold` and `outcome`.

    `candidates` has the columns of a triple, `relation`, `is_labelled` and `frequency` (f; null = unknown), and no
    triple twice. A candidate is accepted if and only if f > exp(8R - 6). The `per_relation` accepted
    candidates of a relation with the smallest second hash are kept.
    """
    ordered = candidates.sort_by([(name, "ascending") for name in TRIPLE])
    draw = (hash_triples(ordered, seed, "draw") >> np.uint64(11)).astype(np.float64) * 2.0**-53  # in [0, 1)
    threshold = np.exp(8 * draw - 6)
    frequency = ordered["frequency"].cast(pa.float64()).to_numpy()
    outcome = np.full(len(draw), OUTCOMES.index(BELOW), np.int8)
    outcome[frequency > threshold] = OUTCOMES.index(KEPT)
    outcome[np.isnan(frequency)] = OUTCOMES.index(NO_FREQUENCY)
    outcome[~ordered["is_labelled"].to_numpy()] = OUTCOMES.index(NO_LABEL)
    accepted = np.flatnonzero(outcome == OUTCOMES.index(KEPT))
    outcome[accepted[_beyond(ordered.take(accepted), per_relation, seed)]] = OUTCOMES.index(CAPPED)
    names = pa.DictionaryArray.from_arrays(pa.array(outcome), list(OUTCOMES)).cast(pa.string())
    added = {"draw": pa.array(draw), "threshold": pa.array(threshold), "outcome": names}
    for name, values in added.items():
        ordered = ordered.append_column(name, values)
    return ordered


def _beyond(accepted: pa.Table, per_relation: int, seed: int) -> np.ndarray:
    """Whether each row is not among the `per_relation` smallest hashes of its relation. Equal hashes keep their order."""
    places = hash_triples(accepted, seed, "cap")
    relations = accepted["relation"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((places, relations))
    of_order = relations[order]
    starts = np.searchsorted(of_order, of_order)
    return order[np.arange(len(order)) - starts >= per_relation]


def measure_frequencies(study: Study, lake: Lake, log: logging.Logger, today: date | None = None) -> Outcome:
    """Write lake table subject_frequencies. It has no rows if the study samples no facts.

    Errors: `LakeError` without triples and entities; `SourceError` if text or page views are missing.
    """
    sample = study.source.sample
    if sample is None:
        return lake.materialise(FREQUENCIES, fingerprint(FREQUENCIES, "no sample"), lambda: Computed([]))
    if sample.text is not None:
        return _of_text(sample.text.find(study.path, "to count names in"), sample.match, lake, log)
    if sample.month is not None:
        check_months(study, [sample.month], today or datetime.now(UTC).date())
        return _of_page_views(study, sample.month, lake, log)
    subjects = _subjects(lake, ["sitelinks"])
    code = code_version(__name__, without=[page_views.__name__])
    stamp = fingerprint(FREQUENCIES, SITELINKS, content_hash(subjects), code)
    counts = clean_popularity(subjects["sitelinks"].cast(pa.float64()).to_numpy())
    return lake.materialise(FREQUENCIES, stamp, lambda: _frequency_rows(subjects, SITELINKS, counts))


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
        FREQUENCIES,
        PAGE_VIEWS,
        month,
        content_hash(subjects),
        page_views_slice(study, month, titled.num_rows),
        code_version(__name__, without=[page_views.__name__]),
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

    outcome = lake.materialise(FREQUENCIES, stamp, compute)
    finish_stage(study.home, stamp)
    return outcome


def _of_text(place: Path, match: str, lake: Lake, log: logging.Logger) -> Outcome:
    files = text_files(place)
    subjects = _subjects(lake, ["label", "aliases"])
    hashes = [digest for _, digest in file_hashes(files)]
    suffixes = [file.name.partition(".")[2] for file in files]  # what a file is called decides how it is read
    stamp = fingerprint(
        FREQUENCIES, ALIAS_FREQUENCY, match, hashes, suffixes, content_hash(subjects), code_version(__name__)
    )
    return lake.materialise(FREQUENCIES, stamp, lambda: _count_names(subjects, match, files, log))


def _count_names(subjects: pa.Table, match: str, files: list[Path], log: logging.Logger) -> Computed:
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
    return Computed(computed.rows, counts.rejected.list_rows(), {**computed.notes, **notes})


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
    return Computed(
        pa.table({field.name: column(field) for field in TABLES[FREQUENCIES].schema}), notes=notes
    )


def sample_facts(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write lake table candidate_triples. It has no rows if the study samples no facts.

    Errors: `LakeError` without triples, entities and frequencies; `SourceError` if the median candidate has no
    popularity above 0, to which the others are related.
    """
    sample = study.source.sample
    if sample is None:
        return lake.materialise(TABLE, fingerprint(TABLE, "no sample"), lambda: Computed([]))
    stamp = fingerprint(
        TABLE,
        study.seed,
        sample.per_relation,
        [lake.content(table) for table in ("triples", "entities", FREQUENCIES)],
        code_version(__name__, without=[page_views.__name__]),
    )
    return lake.materialise(TABLE, stamp, lambda: _sample(study, sample, lake, log))


def _sample(study: Study, sample: FactSample, lake: Lake, log: logging.Logger) -> Computed:
    triples = lake.read("triples", columns=[*TRIPLE, "relation"]).replace_schema_metadata(None)
    entities = lake.read("entities", columns=["entity_id", "label"])
    is_named = pc.not_equal(pc.utf8_trim_whitespace(entities["label"]), "")
    labelled = entities.filter(is_named)["entity_id"].combine_chunks()
    ends = [pc.is_in(triples[end], value_set=labelled) for end in ("subject_id", "object_id")]
    is_labelled = pc.and_(*ends)
    measured = lake.read(FREQUENCIES, columns=["entity_id", "popularity", "popularity_measure"])
    measure = measured["popularity_measure"][0].as_py() if measured.num_rows else ""
    place = pc.index_in(triples["subject_id"], value_set=measured["entity_id"].combine_chunks())
    popularity = pc.take(measured["popularity"].combine_chunks(), place)
    values = popularity.filter(is_labelled).to_numpy().astype(np.float64)
    factor = 1.0 if measure == ALIAS_FREQUENCY else median_factor(values)
    if factor is None:
        raise SourceError(
            f"{study.path}: source.sample: the median candidate has no {measure or 'popularity'} above 0, which others"
            " are related to; choose another month or frequency: text"
        )
    constants = {"popularity_measure": measure, "factor": factor}
    candidates = triples.append_column("is_labelled", is_labelled).append_column("popularity", popularity)
    for name, value in constants.items():
        candidates = candidates.append_column(name, pa.repeat(pa.scalar(value), len(triples)))
    candidates = candidates.append_column("frequency", pc.multiply(popularity, factor))
    sampled = sample_triples(candidates, sample.per_relation, study.seed).select(TABLES[TABLE].schema.names)
    notes = _notes(sampled, factor)
    log.info("sample of facts: %d of %d kept", notes["outcomes"].get(KEPT, 0), sampled.num_rows)
    return Computed(sampled, notes=notes)


def _notes(sampled: pa.Table, factor: float) -> dict[str, Any]:
    """The number of candidates by outcome: over all relations, and by relation."""
    counts = sampled.group_by(["relation", "outcome"]).aggregate([([], "count_all")]).to_pylist()
    outcomes: Counter[str] = Counter()
    relations: dict[str, dict[str, int]] = {}
    for row in sorted(counts, key=lambda row: (row["relation"], row["outcome"])):
        outcomes[row["outcome"]] += row["count_all"]
        relations.setdefault(row["relation"], {})[row["outcome"]] = row["count_all"]
    return {"outcomes": dict(outcomes), "by_relation": relations, "factor": factor}
