"""A tiny study with every stage that writes files: facts, passages, two indexes, a portrait, answers of two reference
models, candidates, grounded generations, embeddings, a sweep, routers.
"""

from __future__ import annotations

from pathlib import Path

from longtail.sandbox.pararel import write_pararel
from longtail.sandbox.world import World

SEED, FACTS = 0, 12
_STUDY = f"""\
name: everything
description: Every stage that writes files, over a tiny world
source: {{kind: sandbox, seed: {SEED}, facts_per_relation: {FACTS}, snapshot: "2026-10"}}
datasets:
  - {{name: people, relations: [occupation, father], max_questions: 12}}
  - name: cloze
    import: {{format: pararel, path: pararel}}
    max_questions_per_relation: 4
prompts:
  - {{name: zero_shot, format: qa}}
  - {{name: wordings, format: question_answer, generations: [paraphrases, samples]}}
  - {{name: cloze, format: cloze_t5, generations: [candidates]}}
  - {{name: cloze_prefix, format: cloze_prefix, generations: [candidates]}}
models:
  - {{name: small, path: "sandbox:s"}}
  - {{name: reader, path: "sandbox:f", backend: fusion_in_decoder, encoder_decoder: true, passages: 2}}
methods: [closed_book, bm25, dense]
retrieve_paraphrases: true
grounding:
  portrait: {{false_positive_rate: 0.001}}
  prompts: [null, according_to_wikipedia]
  long_answers: [people]
  max_new_tokens: 20
sweep:
  model: reader
  retriever: dense
  dataset: cloze
  settings: 1
  batch_sizes: [4]
  learning_rates: [{{reader: 1.0e-3, retriever: 1.0e-5}}]
  temperatures: [0.1]
  passages: [2]
  training_relations: [[P106, P19]]
  steps: 4
  every: 2
  judged_relations: [P17, P140]
  judged_facts: 3
  held_out: 0.5
popularity: {{measure: page_views, n_months: 2, last_month: "2026-10"}}
sampling: {{n: 2}}
seed: 0
"""


def write_everything(folder: Path) -> Path:
    """Write the study file and the cloze queries that it names; the study file's path."""
    write_pararel(World(SEED, FACTS), folder / "pararel")
    study = folder / "everything.yaml"
    study.write_text(_STUDY, encoding="utf-8")
    return study
