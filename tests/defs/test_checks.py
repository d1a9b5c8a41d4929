"""Asset checks: paraphrases too far from their questions stop a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.journeys.commands import run_python

STUDY = """\
name: far
description: for tests
source: {kind: sandbox, snapshot: "2026-10"}
datasets: [{name: facts, relations: [father, mother]}]
prompts: [{name: p, generations: [questions, paraphrases]}]
models: [{name: m, path: fake, backend: fake}]
methods: [closed_book]
popularity: {measure: page_views, last_month: "2026-10"}
embeddings: {device: cpu, least_paraphrase_cosine: 0.9}
"""
CHILD = """
import json
import dagster as dg
from longtail.storage.lake import Lake
from dagster_project.defs.resources import chosen_study
from dagster_project.defs.questions import paraphrase_similarities, paraphrases_keep_the_meaning
from dagster_project.defs.resources import StudyResource
from tests.lake_rows import fill

WORDINGS = {
    "father": ("Who is the father of Ada Quill?", "Who is Ada Quill's father?"),
    "mother": ("Who is the mother of Ada Quill?", "Bananas are yellow."),
}
lake, ran = Lake(chosen_study().home.lake), []

@dg.asset(deps=[paraphrase_similarities])
def later():
    ran.append("later")

def run(**wordings):
    key = {"dataset": "facts"}
    questions = [key | {"question_id": name, "relation": name} for name in wordings]
    lake.write("questions", [fill("questions", row) for row in questions], fingerprint=str(wordings))
    rows = [
        key | {"question_id": name, "paraphrase_id": i, "template": "t", "paraphrase": text}
        for name, texts in wordings.items()
        for i, text in enumerate(texts)
    ]
    lake.write("paraphrases", rows, fingerprint=str(wordings))
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [paraphrase_similarities, paraphrases_keep_the_meaning, later], instance=instance,
            resources={"study": StudyResource()}, raise_on_error=False,
        )
    (check,) = done.get_asset_check_evaluations()
    return done.success, check.passed, check.description

print(json.dumps([run(**WORDINGS), list(ran), run(father=WORDINGS["father"]), ran]))
"""


def test_a_run_stops_where_paraphrases_are_too_far_from_their_questions(tmp_path: Path) -> None:
    (tmp_path / "far.yaml").write_text(STUDY, encoding="utf-8")
    more = {"LONGTAIL_HOME": str(tmp_path / "home"), "LONGTAIL_STUDY": str(tmp_path / "far.yaml")}
    done = run_python("-c", CHILD, env={**os.environ, **more})
    assert done.returncode == 0, done.stderr[-3000:]
    (ok, passed, said), before, (later_ok, later_passed, _), after = json.loads(done.stdout.splitlines()[-1])
    assert (ok, passed, before) == (False, False, [])
    assert said.startswith("paraphrases with a mean cosine below 0.9: facts/mother 0.")
    assert "father" not in said
    assert "embeddings.least_paraphrase_cosine" in said
    assert (later_ok, later_passed, after) == (True, True, ["later"])
