"""A reference model's answers: questions of the default world, prompts, greedy decoding."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from longtail.relations.relation import relation_set
from longtail.sandbox.world import World

if TYPE_CHECKING:
    import torch

WINDOW = tuple(f"2025-{month:02d}" for month in range(1, 13))
NEW_TOKENS = 15


@dataclass(frozen=True)
class Question:
    """A question about the default world. `popularity`: its subject's mean views in `WINDOW`, or NaN."""

    question_id: str
    relation: str
    text: str
    answer: str
    golds: tuple[str, ...]
    popularity: float
    passage: str | None
    bm25_passage: str


def load_questions(world: World) -> list[Question]:
    """One question per fact, with the subject's own passage and BM25's first passage (over all articles, title and
    text)."""
    articles = dict(world.articles())
    found = []
    for fact in world.facts():
        objects = [world.entity(object_id) for object_id in fact.object_ids]
        article = articles.get(fact.subject_id)
        views = [world.monthly_views(fact.subject_id, month) for month in WINDOW]
        found.append(
            Question(
                question_id=f"{fact.subject_id}:{fact.relation.property_id}",
                relation=fact.relation.name,
                text=fact.relation.question(world.label_of(fact.subject_id)),
                answer=objects[0].label,
                golds=tuple(name for entity in objects for name in (entity.label, *entity.aliases)),
                popularity=float(np.mean([view for view in views if view is not None]))
                if article
                else float("nan"),
                passage=article.text if article else None,
                bm25_passage="",
            )
        )
    return _with_bm25(
        found,
        [f"{one.title} {one.text}" for one in articles.values()],
        [one.text for one in articles.values()],
    )


def _with_bm25(questions: list[Question], indexed: list[str], texts: list[str]) -> list[Question]:
    from dataclasses import replace

    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(indexed, show_progress=False), show_progress=False)
    queries = bm25s.tokenize([question.text for question in questions], show_progress=False)
    hits, _ = index.retrieve(queries, k=1, show_progress=False)
    return [
        replace(question, bm25_passage=texts[int(hit[0])])
        for question, hit in zip(questions, hits, strict=True)
    ]


def prompt(question: Question, passage: str | None = None) -> str:
    """`Q: … A:`, after the passage and a blank line if there is a passage (SPEC §3)."""
    asked = f"Q: {question.text} A:"
    return f"{passage}\n\n{asked}" if passage else asked


def demonstrations(questions: list[Question], relation: str, seed: int, with_passages: bool) -> str:
    """One question with its answer from each of the 15 other relations: one draw per relation, shuffled."""
    rng = random.Random(f"{seed}:{relation}")
    drawn = [
        rng.choice([question for question in questions if question.relation == other.name])
        for other in relation_set("popqa")
        if other.name != relation
    ]
    rng.shuffle(drawn)
    shown = [f"{prompt(one, one.bm25_passage if with_passages else None)} {one.answer}" for one in drawn]
    return "".join(f"{text}\n\n" for text in shown)


class Reader:
    """Loads a model from a folder and answers prompts in batches, with at most `new_tokens` tokens each."""

    def __init__(self, folder: Path, device: str, new_tokens: int = NEW_TOKENS) -> None:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

        self.n_cut = 0
        """How many answers so far had not ended after `new_tokens`."""
        self._new_tokens = new_tokens
        self._device = device
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._writes_apart = bool(AutoConfig.from_pretrained(folder).is_encoder_decoder)
        auto = AutoModelForSeq2SeqLM if self._writes_apart else AutoModelForCausalLM
        self._model = auto.from_pretrained(folder, dtype=torch.float32).eval()
        torch.nn.Module.to(self._model, device)
        self._stops = [
            token for text, token in self._tokenizer.get_vocab().items() if "\n" in text or "Ċ" in text
        ]

    def answer(self, prompts: list[str], tokens_per_batch: int = 16_384) -> list[str]:
        """Predictions in the order of `prompts`, decoded according to SPEC §3."""
        lengths = [len(ids) for ids in self._tokenizer(prompts)["input_ids"]]
        order = sorted(range(len(prompts)), key=lengths.__getitem__)
        found = [""] * len(prompts)
        start = 0
        while start < len(order):
            size = max(
                1, tokens_per_batch // (lengths[order[min(start + 256, len(order) - 1)]] + self._new_tokens)
            )
            batch = order[start : start + min(size, 256)]
            for place, text in zip(batch, self._generate([prompts[place] for place in batch]), strict=True):
                found[place] = text
            start += len(batch)
        return found

    def _generate(self, prompts: list[str]) -> list[str]:
        import torch

        inputs = self._tokenizer(prompts, return_tensors="pt", padding=True).to(self._device)
        start = 1 if self._writes_apart else inputs["input_ids"].shape[1]
        with torch.inference_mode():
            output = self._model.generate(
                **inputs,
                max_new_tokens=self._new_tokens,
                do_sample=False,
                stopping_criteria=[_LineEnd(start, self._stops)],
            )
        written = output[:, start:]
        ends = torch.tensor([*self._stops, self._tokenizer.eos_token_id], device=written.device)
        self.n_cut += int((~torch.isin(written, ends).any(dim=1)).sum())
        texts = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        return [text.removeprefix("\n\n").split("\n", 1)[0] for text in texts]


class _LineEnd:
    """Stops a batch when every row has a line end after its first new token."""

    def __init__(self, prompt_length: int, stops: list[int]) -> None:
        self._start, self._stops = prompt_length + 1, stops

    def __call__(self, input_ids: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        import torch

        stops = torch.tensor(self._stops, device=input_ids.device)
        return torch.isin(input_ids[:, self._start :], stops).any(dim=1)
