"""Runs a study with the format, retriever and backend of docs/extending.md, and prints the outcome as JSON.

python -m tests.plugin_study <folder of the study>, with the installed package of that page on PYTHONPATH.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import yaml

from longtail.errors import StudyError
from longtail.generation.engine.partition import generate
from longtail.generation.engine.session import ModelSession
from longtail.generation.tasks.registry import TASKS
from longtail.imports.datasets import import_entities, import_popularity, import_triples
from longtail.questions.build import build_questions
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import cite_passages, retrieve_passages
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.schema import fill_tables

LOG = logging.getLogger("plugin_study")
CARDS = """subject	question	answer	text
Ada	Where was Ada born?	London	Ada was born in London.
Bo	Where was Bo born?	Paris	Bo was born in Paris.
Cy	Where was Cy born?	Rome
"""
STUDY = {
    "name": "cards", "description": "flashcards",
    "datasets": [{"name": "cards", "import": {"format": "flashcards", "path": "cards.tsv", "titles": 1}}],
    "prompts": [{"name": "plain"}],
    "models": [{"name": "parrot", "backend": "last_word", "path": "none"}],
    "retrievers": [{"name": "named", "kind": "title", "least_letters": 3}],
    "methods": ["named"], "popularity": {"measure": "imported"},
}  # fmt: skip
PAGE = PROJECT_ROOT / "docs/study_file.md"
WRONG = {
    "format": {"datasets": [{"name": "cards", "import": {"format": "cards", "path": "cards.tsv"}}]},
    "kind": {"retrievers": [{"name": "named", "kind": "none"}]},
    "methods": {"methods": ["none"]},
    "backend": {"models": [{"name": "parrot", "backend": "none", "path": "none"}]},
}


def main(folder: Path) -> None:
    (folder / "cards.tsv").write_text(CARDS, encoding="utf-8")
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY), encoding="utf-8")
    study, lake = load_study(folder / "study.yaml"), Lake(folder / "lake")
    lake.ensure_schemas()
    for table in ("triples", "entities"):
        lake.write(table, [], fingerprint="none")
    import_triples(study, lake, LOG)
    import_entities(study, lake, LOG)
    import_popularity(study, lake, LOG)
    questions = build_questions(study, lake, LOG)
    build_passages(study, lake, LOG)
    retrieved = retrieve_passages(study, lake, "named", LOG)
    cite_passages(study, lake, LOG)
    with ModelSession(LOG) as session:
        answered = generate(
            TASKS["answers"], study, lake, "parrot", "named", session=session, run_id="run", log=LOG
        )
    rows = lake.read("answers", "parrot|named").to_pylist()
    errors = {}
    for key, wrong in WRONG.items():
        (folder / "wrong.yaml").write_text(yaml.safe_dump(STUDY | wrong), encoding="utf-8")
        try:
            load_study(folder / "wrong.yaml")
        except StudyError as error:
            errors[key] = str(error)
    named = ("`flashcards`", "`title`", "`least_letters`", "`last_word`")
    outcome = {
        "answers": {row["question_id"]: (row["prediction"], row["engine"]) for row in rows},
        "aside": [row["reason"] for row in lake.read_all("quarantine").to_pylist()],
        "is_current": [questions.was_current, retrieved.was_current, answered.was_current],
        "errors": errors,
        "page": [
            line
            for line in fill_tables(PAGE.read_text("utf-8")).splitlines()
            if any(name in line for name in named)
        ],
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
