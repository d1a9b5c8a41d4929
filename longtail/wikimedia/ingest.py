"""The lake's facts: tables triples and entities, from a study's source."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from longtail.errors import SourceError
from longtail.relations.popqa import RELATIONS
from longtail.storage.fingerprints import fingerprint
from longtail.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from longtail.storage.lake_rows import add_constants
from longtail.study.study import Study
from longtail.wikimedia.facts import Entities, Facts, read_entities, read_facts
from longtail.wikimedia.origins import facts_code, source_slice
from longtail.wikimedia.protocols.wikidata import sort_ids
from longtail.wikimedia.services import finish_stage, open_services


def ingest_triples(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table triples: all truthy statements between two items, of every relation in a dataset of the source.

    If all datasets are imported, the source is not used. Errors: `SourceError` where the source is missing, fails, or
    has no statement of these relations.
    """
    relations = [
        relation
        for relation in RELATIONS
        if any(relation.name in dataset.relations for dataset in study.datasets_of_source)
    ]
    if not relations:
        return lake.materialise(
            "triples", fingerprint("triples", "no dataset of the source"), lambda: Computed([])
        )
    names, source, home = [relation.name for relation in relations], study.source, study.home
    stamp = fingerprint("triples", source_slice(source), names, facts_code(source, __name__))

    def compute() -> Computed:
        with open_services(source, home, stage=stamp) as services:
            facts = read_facts(source, home, services, relations, log)
        return triple_rows(facts, services.label, source.facts_from)

    outcome = lake.materialise("triples", stamp, compute)
    finish_stage(home, stamp)
    return outcome


def triple_rows(facts: Facts, source: str, facts_from: str) -> Computed:
    """The rows of `triples`. Errors: `SourceError` where there is no statement."""
    counts = {name: table.num_rows for name, table in facts.statements.items()}
    if not any(counts.values()):
        raise SourceError(f"source {source}: no statement of {', '.join(counts)}; nothing was written")
    parts = [
        add_constants(table, relation=name, source=source, facts_from=facts_from)
        for name, table in facts.statements.items()
    ]
    notes = {"triples": counts, **facts.notes, **_quarantine_notes(facts.rejected)}
    return Computed(pa.concat_tables(parts), facts.rejected, notes)


def ingest_entities(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table entities: every subject and object of table triples that has a label.

    Errors: `LakeError` without table triples; `SourceError` where the source fails.
    """
    if not study.datasets_of_source:
        stamp = fingerprint("entities", "no dataset of the source")
        return lake.materialise("entities", stamp, lambda: Computed([]))
    source, home = study.source, study.home
    stamp = fingerprint(
        "entities", source_slice(source), lake.content("triples"), facts_code(source, __name__)
    )

    def compute() -> Computed:
        triples = lake.read("triples", columns=["subject_id", "object_id"])
        ids = sort_ids([*triples["subject_id"].to_pylist(), *triples["object_id"].to_pylist()])
        with open_services(source, home, stage=stamp) as services:
            found = read_entities(source, home, services, ids, log)
        return entity_rows(found, services.label, source.facts_from)

    outcome = lake.materialise("entities", stamp, compute)
    finish_stage(home, stamp)
    return outcome


def entity_rows(entities: Entities, source: str, facts_from: str) -> Computed:
    """The rows of `entities`."""
    rows = add_constants(entities.table, source=source, facts_from=facts_from)
    notes = {
        **entities.notes,
        "entities": rows.num_rows,
        "without_article": rows["article_title"].null_count,
        "without_sitelinks": rows["sitelinks"].null_count,
    }
    return Computed(rows, entities.rejected, notes | _quarantine_notes(entities.rejected))


def _quarantine_notes(rejected: Sequence[QuarantinedRow]) -> dict[str, Any]:
    reasons = Counter(row.reason.split(":")[0] for row in rejected)
    return {
        "quarantined": len(rejected),
        **({"quarantined_reasons": dict(reasons.most_common(10))} if reasons else {}),
    }
