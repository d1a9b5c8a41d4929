"""The facts that a study asks about: all facts of its source, or those that its sample keeps (SPEC §1).

A question needs one kept triple. Its answers are the objects of all its triples, kept or not.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from longtail.storage.lake import Lake
from longtail.study.study import Study

CANDIDATES = "candidate_triples"
KEPT = "kept"  # the outcome of a candidate in the sample


def selected_facts(study: Study, lake: Lake, columns: list[str]) -> pa.Table:
    """`columns` of table triples: all facts, or the facts of the sample's questions.

    Errors: `LakeError` without triples, or without the sample that the study declares.
    """
    if study.source.sample is None:
        return lake.read("triples", columns=columns)
    candidates = lake.read(
        CANDIDATES, columns=["subject_id", "property_id"], only=pc.field("outcome") == KEPT
    )
    triples = lake.read("triples", columns=list(dict.fromkeys([*columns, "subject_id", "property_id"])))
    return triples.filter(pc.is_in(_keys(triples), value_set=_keys(candidates))).select(columns)


def asked_entities(study: Study, lake: Lake) -> pa.Array | None:
    """The ids of the subjects and objects of `selected_facts`, each once; None if the study may ask about any entity.

    It may do so without a sample, and where imported questions are linked to any entity. Errors: as in `selected_facts`.
    """
    if study.source.sample is None or study.datasets_of_files or study.reference_questions:
        return None
    facts = selected_facts(study, lake, ["subject_id", "object_id"])
    return pc.unique(pa.chunked_array([*facts["subject_id"].chunks, *facts["object_id"].chunks], pa.string()))


def sample_content(study: Study, lake: Lake) -> list[str]:
    """The content of the sample that decides what is asked, for a fingerprint; empty without a sample."""
    return [lake.content(CANDIDATES)] if study.source.sample else []


def _keys(facts: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(facts["subject_id"], facts["property_id"], " ")
