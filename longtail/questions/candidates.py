"""The candidates of a study's sample of facts, and what became of each (SPEC §1)."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longtail.errors import SourceError
from longtail.questions.sampling import (
    ALIAS_FREQUENCY,
    FREQUENCIES,
    TRIPLE,
    median_factor,
    sample_triples,
)
from longtail.storage.fingerprints import code_version, fingerprint
from longtail.storage.lake import Computed, Lake, Outcome
from longtail.study.source import FactSample
from longtail.study.study import Study
from longtail.tables import TABLES
from longtail.wikimedia.selected_facts import CANDIDATES as TABLE
from longtail.wikimedia.selected_facts import KEPT


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
        code_version(__name__),
    )
    return lake.materialise(TABLE, stamp, lambda: _sample(study, sample, lake, log))


def _sample(study: Study, sample: FactSample, lake: Lake, log: logging.Logger) -> Computed:
    triples = lake.read("triples", columns=[*TRIPLE, "relation"]).replace_schema_metadata(None)
    labelled = _labelled(lake)
    ends = [pc.is_in(triples[end], value_set=labelled) for end in ("subject_id", "object_id")]
    is_labelled = pc.and_(*ends)
    measured = lake.read(FREQUENCIES, columns=["entity_id", "popularity", "popularity_measure"])
    measure = measured["popularity_measure"][0].as_py() if measured.num_rows else ""
    place = pc.index_in(triples["subject_id"], value_set=measured["entity_id"].combine_chunks())
    popularity = pc.take(measured["popularity"].combine_chunks(), place)
    factor = 1.0 if measure == ALIAS_FREQUENCY else _factor(popularity.filter(is_labelled), study, measure)
    constants = {"popularity_measure": measure, "factor": factor}
    candidates = triples.append_column("is_labelled", is_labelled).append_column("popularity", popularity)
    for name, value in constants.items():
        candidates = candidates.append_column(name, pa.repeat(pa.scalar(value), len(triples)))
    candidates = candidates.append_column("frequency", pc.multiply(popularity, factor))
    sampled = sample_triples(candidates, sample.per_relation, study.seed).select(TABLES[TABLE].schema.names)
    notes = _notes(sampled, factor)
    log.info("sample of facts: %d of %d kept", notes["outcomes"].get(KEPT, 0), sampled.num_rows)
    return Computed(sampled, notes=notes)


def _labelled(lake: Lake) -> pa.Array:
    entities = lake.read("entities", columns=["entity_id", "label"])
    is_named = pc.not_equal(pc.utf8_trim_whitespace(entities["label"]), "")
    return entities.filter(is_named)["entity_id"].combine_chunks()


def _factor(popularity: pa.ChunkedArray, study: Study, measure: str) -> float:
    factor = median_factor(popularity.to_numpy().astype(np.float64))
    if factor is None:
        raise SourceError(
            f"{study.path}: source.sample: the median candidate has no {measure or 'popularity'} above 0, which others"
            " are related to; choose another month or frequency: text"
        )
    return factor


def _notes(sampled: pa.Table, factor: float) -> dict[str, Any]:
    """The number of candidates by outcome: over all relations, and by relation."""
    counts = sampled.group_by(["relation", "outcome"]).aggregate([([], "count_all")]).to_pylist()
    outcomes: Counter[str] = Counter()
    relations: dict[str, dict[str, int]] = {}
    for row in sorted(counts, key=lambda row: (row["relation"], row["outcome"])):
        outcomes[row["outcome"]] += row["count_all"]
        relations.setdefault(row["relation"], {})[row["outcome"]] = row["count_all"]
    return {"outcomes": dict(outcomes), "by_relation": relations, "factor": factor}
