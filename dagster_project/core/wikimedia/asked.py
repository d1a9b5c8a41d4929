"""The facts that a study asks about: all of its source's, or those that its sample leaves (SPEC §1).

What belongs here: reading them. What does not: drawing the sample (`candidates`, `sampling`), questions (`build`).

A question needs one kept triple; its answers are the objects of all its triples, kept or not.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.core.lake import Lake
from dagster_project.core.study.study import Study

CANDIDATES = "candidate_triples"
KEPT = "kept"  # the outcome of a candidate that the sample keeps


def asked_facts(study: Study, lake: Lake, columns: list[str]) -> pa.Table:
    """Of table triples what is asked about: `columns` of all facts, or of those of the sample's questions.

    Errors: `LakeError` without triples, or without the sample that the study asks for.
    """
    if study.source.sample is None:
        return lake.read("triples", columns=columns)
    candidates = lake.read(
        CANDIDATES, columns=["subject_id", "property_id"], only=pc.field("outcome") == KEPT
    )
    triples = lake.read("triples", columns=list(dict.fromkeys([*columns, "subject_id", "property_id"])))
    return triples.filter(pc.is_in(_keys(triples), value_set=_keys(candidates))).select(columns)


def asked_entities(study: Study, lake: Lake) -> pa.Array | None:
    """The ids of the subjects and objects of `asked_facts`, each once; None where any entity may be asked about.

    That is so without a sample, and where questions of files are linked to whatever entities there are. Errors: as in
    `asked_facts`.
    """
    if study.source.sample is None or study.datasets_of_files or study.reference_questions:
        return None
    facts = asked_facts(study, lake, ["subject_id", "object_id"])
    return pc.unique(pa.chunked_array([*facts["subject_id"].chunks, *facts["object_id"].chunks], pa.string()))


def sample_content(study: Study, lake: Lake) -> list[str]:
    """What of the sample decides what is asked, for a fingerprint: nothing without one."""
    return [lake.content(CANDIDATES)] if study.source.sample else []


def _keys(facts: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(facts["subject_id"], facts["property_id"], " ")
