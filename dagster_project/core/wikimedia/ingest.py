"""The lake's facts: tables triples and entities, from a study's source.

What belongs here: which rows are fetched and written to the lake. What does not: the requests (`protocols`), page
views (`page_views`), how facts become questions (`questions`), popularity (joined in dbt).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dagster_project.core.errors import SourceError
from dagster_project.core.relations.popqa import RELATIONS
from dagster_project.core.relations.relation import Relation
from dagster_project.core.storage.columns import with_constants
from dagster_project.core.storage.fingerprints import fingerprint
from dagster_project.core.storage.lake import Computed, Lake, Outcome, QuarantinedRow
from dagster_project.core.study.study import Study
from dagster_project.core.wikimedia.facts import read_entities, read_facts
from dagster_project.core.wikimedia.origins import facts_code, source_slice
from dagster_project.core.wikimedia.protocols.wikidata import sorted_ids
from dagster_project.core.wikimedia.services import finish_stage, open_services


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
    names = [relation.name for relation in relations]
    stamp = fingerprint("triples", source_slice(study.source), names, facts_code(study.source, __name__))
    outcome = lake.materialise("triples", stamp, lambda: _triples(study, relations, stamp, log))
    finish_stage(study.home, stamp)
    return outcome


def _triples(study: Study, relations: Sequence[Relation], stage: str, log: logging.Logger) -> Computed:
    origin = study.source.facts_from
    with open_services(study.source, study.home, stage=stage) as services:
        facts = read_facts(study, services, relations, log)
        parts = [
            with_constants(table, relation=name, source=services.label, facts_from=origin)
            for name, table in facts.statements.items()
        ]
    counts = {name: table.num_rows for name, table in facts.statements.items()}
    if not any(counts.values()):
        raise SourceError(
            f"source {study.source.kind}: no statement of {', '.join(counts)}; nothing was written"
        )
    notes = {"triples": counts, **facts.notes, **_quarantine_notes(facts.rejected)}
    return Computed(pa.concat_tables(parts), facts.rejected, notes)


def ingest_entities(study: Study, lake: Lake, log: logging.Logger) -> Outcome:
    """Write table entities: every subject and object of table triples that has a label.

    Errors: `LakeError` without table triples; `SourceError` where the source fails.
    """
    if not study.datasets_of_source:
        stamp = fingerprint("entities", "no dataset of the source")
        return lake.materialise("entities", stamp, lambda: Computed([]))
    stamp = fingerprint(
        "entities", source_slice(study.source), lake.content("triples"), facts_code(study.source, __name__)
    )
    outcome = lake.materialise("entities", stamp, lambda: _entities(study, lake, stamp, log))
    finish_stage(study.home, stamp)
    return outcome


def _entities(study: Study, lake: Lake, stage: str, log: logging.Logger) -> Computed:
    triples = lake.read("triples", columns=["subject_id", "object_id"])
    ids = sorted_ids([*triples["subject_id"].to_pylist(), *triples["object_id"].to_pylist()])
    with open_services(study.source, study.home, stage=stage) as services:
        found = read_entities(study, services, ids, log)
        rows = with_constants(found.table, source=services.label, facts_from=study.source.facts_from)
    notes = {
        **found.notes,
        "entities": rows.num_rows,
        "without_article": rows["article_title"].null_count,
        "without_sitelinks": rows["sitelinks"].null_count,
    }
    return Computed(rows, found.rejected, notes | _quarantine_notes(found.rejected))


def _quarantine_notes(rejected: Sequence[QuarantinedRow]) -> dict[str, Any]:
    reasons = Counter(row.reason.split(":")[0] for row in rejected)
    return {
        "quarantined": len(rejected),
        **({"quarantined_reasons": dict(reasons.most_common(10))} if reasons else {}),
    }
