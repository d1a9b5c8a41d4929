"""The sandbox's world in ParaRel's format: the committed folder is what the sandbox writes, and all of it is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from longtail.imports.format import ImportedDataset, by_name
from longtail.imports.formats.questions.pararel import read_pararel
from longtail.relations.cloze import article_before_object, pararel_patterns, prefix_of
from longtail.sandbox.pararel import main
from longtail.sandbox.world import World
from longtail.storage.home import PROJECT_ROOT
from longtail.study.file import load_study

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


def test_patterns_differ_in_verb_and_tense_and_most_end_in_the_object(dataset: ImportedDataset) -> None:
    for relation, patterns in dataset.patterns.items():
        assert len({one.lemma for one in patterns}) > 2, relation
        assert len({one.extended_lemma for one in patterns}) > 3, relation
        assert sum(prefix_of(one.text) is not None for one in patterns) > 2, relation
    tenses = [len({one.tense for one in patterns}) for patterns in dataset.patterns.values()]
    assert tenses.count(2) >= 6
    articles = {article_before_object(one.text) for one in dataset.patterns["P106"]}
    assert articles == {"a", "an", None}
    assert {name[0] in "aeiou" for name in dataset.candidates["P106"]} == {True, False}


def test_subjects_are_linked_where_one_entity_bears_the_name(dataset: ImportedDataset) -> None:
    world = World()
    linked = [row for row in dataset.questions.values() if row["subject_id"]]
    assert len(linked) > 0.6 * len(dataset.questions)
    for row in linked:
        (fact,) = (
            one for one in world.facts_about(row["subject_id"]) if one.relation.property_id == row["relation"]
        )
        assert row["objects"] == [world.label_of(fact.object_ids[0])]
    assert dataset.notes["facts_with_repeated_subject"] > 50


def test_the_study_reads_the_folder_beside_it() -> None:
    study = load_study(PROJECT_ROOT / "studies" / "sandbox_pararel.yaml")
    (imported,) = study.datasets_of_files
    assert imported.imported is not None
    assert imported.imported.place.find(study.path) == FOLDER
