"""Prompts that ask for candidates: what goes with them in a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from longtail.errors import StudyError
from longtail.generation.tasks.registry import needs_of_models
from longtail.study.file import load_study
from longtail.study.study import Study

CLOZE = {"name": "cloze", "format": "cloze_prefix", "generations": ["candidates"]}
PARAREL = {"name": "pararel", "import": {"format": "pararel", "path": "x"}, "relations": ["P36"]}


def study_of(folder: Path, **changes: Any) -> Study:
    declared = {
        "name": "cloze", "description": "d", "datasets": [PARAREL], "prompts": [CLOZE],
        "models": [{"name": "tiny", "path": "fake:digest", "backend": "fake"}], "methods": ["closed_book"],
        "popularity": {"measure": "imported"}, **changes,
    }  # fmt: skip
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(declared), encoding="utf-8")
    return load_study(path)


def test_a_study_may_ask_nothing_but_candidates(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    assert [prompt.name for prompt in study.candidate_prompts] == ["cloze"]
    assert study.answer_prompts == ()
    assert len([*needs_of_models(study)]) == 1


def test_retrievers_need_passages_of_every_wording_and_fixed_methods_do_not(tmp_path: Path) -> None:
    study = study_of(tmp_path, methods=["closed_book", "random", "bm25"], retrieve_paraphrases=True)
    assert all(study.scores_by(study.prompts[0], method) for method in study.methods)
    assert study_of(tmp_path, methods=["closed_book", "random"]).methods == ("closed_book", "random")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": [{**CLOZE, "format": "qa"}]}, r"prompts\[0\].format: generations: \[candidates\] goes with"),
        ({"prompts": [{**CLOZE, "shots": 2, "draw": "per_question"}]}, r"prompts\[0\].format: .* without shots"),
        ({"prompts": [{**CLOZE, "generations": ["questions"]}]}, r"\[0\].generations: a prompt of format cloze"),
        ({"prompts": [{**CLOZE, "generations": ["candidates", "samples"]}]}, r"\[0\].generations: a prompt of format"),
        (
            {"prompts": [{**CLOZE, "format": "cloze_t5"}]},
            r"prompts: none asks models\[0\] for candidates: tiny is not an encoder-decoder, and needs a prompt of"
            " format cloze_prefix",
        ),
        ({"methods": ["closed_book", "genread"]}, "prompts: none asks questions by method 'genread'"),
        (
            {"prompts": [{**CLOZE, "methods": ["closed_book"]}], "methods": ["closed_book", "bm25"]},
            "prompts: none asks questions by method 'bm25'",
        ),
        (
            {"methods": ["closed_book", "bm25"]},
            "retrieve_paraphrases: candidates are scored by method 'bm25', whose passages follow the wording",
        ),
        (
            {"datasets": [{"name": "popqa", "import": {"format": "popqa", "path": "x"}}]},
            "prompts: generations: .candidates. goes with a dataset of cloze queries, as format pararel",
        ),
        (
            {"prompts": [{"name": "samples", "generations": ["samples"]}]},
            "prompts: at least one must ask questions or candidates",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        study_of(tmp_path, **changes)
