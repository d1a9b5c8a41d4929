"""A small study with a sweep: a T5 and a BERT with random weights, two relations to train on and one to judge by."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

from longtail.embedding.settings import EncoderSettings
from longtail.methods import METHODS
from longtail.retrieval.indexes import build_index
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.study.sweep import Rates, Sweep
from tests.longtail.generation.small_study import small_study
from tests.longtail.generation.tiny_models import save_tiny_model

LOG = logging.getLogger("longtail-tests")
PATTERNS = ("[X] is in [Y] .", "[X] lies in [Y].", "[Y] has [X]")
CANDIDATES = ("ab", "cd", "ef gh")
RELATIONS = ("capital", "country", "judged")
N_FACTS = 6
SWEEP = Sweep(
    model="tiny", retriever="nearest", dataset="sandbox", settings=2, batch_sizes=(2,), temperatures=(0.1,),
    learning_rates=(Rates(1e-2, 1e-2),), passages=(3,), training_relations=(("capital",), ("capital", "country")),
    steps=4, every=2, judged_relations=("judged",), judged_facts=2, held_out=0.3,
)  # fmt: skip


def save_models(folder: Path) -> tuple[Path, Path]:
    """Write a reader and an encoder; their folders."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "town", "is", "in", "has", "lies", *"0123456789"]
    encoder = folder / "encoder"
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, model_max_length=24).save_pretrained(
        encoder
    )
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=24, initializer_range=0.6,
    )  # fmt: skip
    BertModel(config).save_pretrained(encoder)
    return save_tiny_model(folder / "t5", "t5"), encoder


def study_with_sweep(folder: Path, reader: Path, encoder: Path) -> Study:
    """Its lake has facts, passages and the index of `nearest`."""
    made = small_study(folder, str(reader), backend="fusion_in_decoder", device="cpu", encoder_decoder=True)
    nearest = dataclasses.replace(METHODS["dense"], name="nearest", settings=EncoderSettings(str(encoder)))
    study = dataclasses.replace(made, methods=("closed_book", "nearest"), retrievers=(nearest,), sweep=SWEEP)
    lake = Lake(study.home.lake)
    questions, paraphrases, passages = [], [], []
    for r, relation in enumerate(RELATIONS):
        for i in range(N_FACTS):
            number = r * N_FACTS + i
            subject, gold = f"town {number}", CANDIDATES[number % len(CANDIDATES)]
            key = {"dataset": "sandbox", "question_id": f"f{number:02}"}
            questions.append({
                **key, "relation": relation, "subject": subject, "subject_aliases": [],
                "question": PATTERNS[0].replace("[X]", subject), "object_ids": [], "objects": [gold],
                "gold_answers": [gold],
            })  # fmt: skip
            for n, pattern in enumerate(PATTERNS):
                text = pattern.replace("[X]", subject)
                paraphrases.append({**key, "paraphrase_id": n, "template": pattern, "paraphrase": text})
            passages.append({
                "passage_id": f"p{number:02}", "entity_id": None, "title": subject, "position": 0,
                "text": f"{subject} has {gold}", "source": "sandbox",
            })  # fmt: skip
    candidates = [
        {"dataset": "sandbox", "relation": relation, "candidate": one}
        for relation in RELATIONS
        for one in CANDIDATES
    ]
    tables = {
        "questions": questions,
        "paraphrases": paraphrases,
        "passages": passages,
        "candidates": candidates,
    }
    for table, rows in tables.items():
        lake.write(table, rows, fingerprint="f")
    build_index(study, lake, "nearest", LOG)
    return study
