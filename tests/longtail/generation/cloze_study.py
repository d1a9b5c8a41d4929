"""Cloze queries of one relation, for tests; also run by tests as a process that gets killed.

python cloze_study.py <folder> <model path>
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from pathlib import Path

from small_study import made, small_study

from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake, Outcome
from longtail.study.prompts import Prompt
from longtail.study.study import Study

N_FACTS = 40
CANDIDATES = ("Chile", "Peru", "Peru of old", "Spain")
PATTERNS = ("[X] is in [Y] .", "[X], which lies in [Y]")
CLOZE = Prompt("cloze", format="cloze_prefix", generations=("candidates",))


def cloze_study(folder: Path, path: str) -> Study:
    """One fake model, which is asked for candidates alone. State lies below `$LONGTAIL_HOME`."""
    study = small_study(folder, path, batch_tokens=64)
    return dataclasses.replace(study, prompts=(CLOZE,), methods=("closed_book",))


def fill_lake(lake: Lake) -> None:
    """`N_FACTS` facts in all patterns."""
    questions, paraphrases = [], []
    for i in range(N_FACTS):
        key = {"dataset": "sandbox", "question_id": f"f{i:02d}"}
        gold = CANDIDATES[i % len(CANDIDATES)]
        questions.append({
            **key, "relation": "country", "subject": f"Town {i}", "subject_aliases": [], "object_ids": [],
            "question": PATTERNS[0].replace("[X]", f"Town {i}"), "objects": [gold], "gold_answers": [gold],
        })  # fmt: skip
        for number, pattern in enumerate(PATTERNS):
            text = pattern.replace("[X]", f"Town {i}")
            paraphrases.append({**key, "paraphrase_id": number, "template": pattern, "paraphrase": text})
    lake.write("questions", questions, fingerprint="f")
    lake.write("paraphrases", paraphrases, fingerprint="f")
    key = {"dataset": "sandbox", "relation": "country"}
    lake.write("candidates", [{**key, "candidate": one} for one in CANDIDATES], fingerprint="f")


def score(study: Study) -> Outcome:
    """The closed-book partition of candidate_answers."""
    return made(study, TASKS["candidate_answers"], "closed_book")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    chosen = cloze_study(Path(sys.argv[1]), sys.argv[2])
    if not Lake(chosen.home.lake).partitions("questions"):
        fill_lake(Lake(chosen.home.lake))
    print("ready", flush=True)
    score(chosen)
