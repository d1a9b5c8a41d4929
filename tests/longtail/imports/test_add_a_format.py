"""A new format of imported questions is one module and one line: this module, registered here, is such a format."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from longtail.errors import StudyError
from longtail.imports.datasets import import_entities, import_popularity, import_triples
from longtail.imports.format import ImportedDataset, ImportedEntity, Names, QuestionFormat
from longtail.questions.build import build_questions
from longtail.storage.lake import Lake, QuarantinedRow
from longtail.study.datasets import Dataset
from longtail.study.imports import FORMATS, QUESTIONS, Import
from longtail.study.parts import Part
from longtail.study.study import Study
from longtail.study.values import Text
from tests.imported_files import study_of_files

LOG = logging.getLogger("test")
ROWS = [
    {"id": "a", "subject": "Ada", "question": "Where was Ada born?", "answer": "London", "views": 10},
    {"id": "b", "subject": "Bo", "question": "Where was Bo born?", "answer": "", "views": 1},
]


def _read(place: Path, declared: Import, _dataset: Dataset, _names: Names) -> ImportedDataset:
    """A JSON list of questions about births; one without an answer is put aside."""
    dataset = ImportedDataset()
    for row in json.loads(place.read_text()):
        if not row["answer"]:
            dataset.rejected.append(QuarantinedRow(row["id"], "no answer", json.dumps(row)))
            continue
        subject, born = f"S{row['id']}", f"O{row['id']}"
        dataset.entities[subject] = ImportedEntity(subject, row["subject"], popularity=row["views"])
        dataset.entities[born] = ImportedEntity(born, row["answer"])
        dataset.facts.append((subject, "P19", born, "place of birth"))
        dataset.questions[row["id"]] = {
            "question_id": row["id"], "relation": "place of birth", "property_id": "P19", "subject_id": subject,
            "subject": row["subject"], "subject_aliases": [], "question": row["question"] + declared.option("sign"),
            "object_ids": [born], "objects": [row["answer"]], "gold_answers": [row["answer"]],
        }  # fmt: skip
    return dataset


@dataclass(frozen=True)
class ToyKeys(Part):
    sign: Text = "!"


FORMAT = QuestionFormat(read=_read, names_entities=True, keys=ToyKeys)


@pytest.fixture
def make_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(FORMATS[QUESTIONS], "toy", __name__)
    (tmp_path / "births.json").write_text(json.dumps(ROWS))

    def make(**keys: str) -> tuple[Study, Lake]:
        dataset = {"name": "toy", "import": {"format": "toy", "path": "births.json", **keys}}
        return study_of_files(tmp_path, datasets=[dataset])

    return make


def test_its_questions_entities_and_popularity_land_in_the_lake(make_study) -> None:
    study, lake = make_study(sign="?!")
    import_triples(study, lake, LOG)
    import_entities(study, lake, LOG)
    import_popularity(study, lake, LOG)
    outcome = build_questions(study, lake, LOG)
    (asked,) = lake.read("questions").to_pylist()
    assert (asked["question_id"], asked["question"]) == ("a", "Where was Ada born??!")
    assert outcome.stamp.n_quarantined == 1
    popularity = {row["entity_id"]: row["popularity"] for row in lake.read("imported_popularity").to_pylist()}
    assert popularity == {"Sa": 10.0, "Oa": None}


def test_another_value_of_its_own_key_makes_its_questions_stale(make_study) -> None:
    study, lake = make_study()
    assert not build_questions(study, lake, LOG).was_current
    assert build_questions(study, lake, LOG).was_current
    assert not build_questions(make_study(sign="…")[0], lake, LOG).was_current


def test_keys_of_other_formats_are_refused(make_study) -> None:
    with pytest.raises(StudyError, match=r"datasets\[0\]\.import\.split: unknown key"):
        make_study(split="test")
