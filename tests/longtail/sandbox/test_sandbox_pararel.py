"""The sandbox's world in ParaRel's format: the committed folder is what the sandbox writes, and all of it is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from longtail.imports.format import ImportedDataset, by_name
from longtail.imports.formats.questions.pararel import read_pararel
from longtail.relations.cloze import pararel_patterns
from longtail.sandbox.world import World
from longtail.storage.home import PROJECT_ROOT
from tools.reference_models.pararel import main

FOLDER = PROJECT_ROOT / "studies" / "sandbox_pararel"


@pytest.fixture(scope="module")
def dataset() -> ImportedDataset:
    asked = [entity for entity in World().entities() if entity.kind != "namesake"]
    names = by_name({"entity_id": one.entity_id, "label": one.label, "aliases": one.aliases} for one in asked)
    return read_pararel(FOLDER, (), names)


def test_the_committed_folder_is_what_the_sandbox_writes(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    written, committed = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.jsonl")}
        for folder in (tmp_path, FOLDER)
    )
    assert written == committed


def test_every_line_can_be_asked(dataset: ImportedDataset) -> None:
    assert not dataset.rejected
    assert set(dataset.patterns) == set(pararel_patterns())
    facts = Counter(row["relation"] for row in dataset.questions.values())
    assert min(facts.values()) > 100
    assert max(map(len, dataset.candidates.values())) <= 140


def test_subjects_are_linked_where_one_entity_bears_the_name(dataset: ImportedDataset) -> None:
    world = World()
    linked = [row for row in dataset.questions.values() if row["subject_id"]]
    assert len(linked) > 0.6 * len(dataset.questions)
    for row in linked:
        (fact,) = (
            one for one in world.facts_about(row["subject_id"]) if one.relation.property_id == row["relation"]
        )
        assert row["objects"] == [world.label_of(fact.object_ids[0])]
    assert int(dataset.says[0].split()[0]) > 50
