"""The gates of the Fusion-in-Decoder reference model: what it must reach before it is shipped, for three seeds.

What belongs here: its passages under each condition, its answers, and the bounds. What does not: the other models' gates
(`training.gates`). In a study the platform scores candidates; here the model writes its answer.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_project.core.reference_models import FUSION
from dagster_project.core.sandbox.training.clozes import Cloze, ClozeFact, cloze_facts, queries_of
from dagster_project.core.sandbox.training.gates import SEEDS, Gate
from dagster_project.core.sandbox.training.search import Search
from dagster_project.core.sandbox.world import World

N_PASSAGES = 4
"""How many passages the model reads under each condition but closed book."""
NEW_TOKENS, BATCH = 15, 64
FACTS_PER_RELATION = 12
CLOSED_BOOK, RIGHT, WRONG, FIXED, RETRIEVED = "closed book", "right passage", "wrong", "fixed", "retrieved"
CONDITIONS = (CLOSED_BOOK, RIGHT, WRONG, FIXED, RETRIEVED)


@dataclass(frozen=True)
class Measured:
    """One condition: the means over facts of the share of right answers, and of pairs of patterns that agree."""

    accuracy: float
    agreement: float


def clozes(facts: Sequence[ClozeFact], search: Search, seed: int) -> dict[str, list[list[Cloze]]]:
    """Condition → fact → one sample per pattern. Only `retrieved` has other passages for each pattern.

    `fixed`: BM25's passages for the first pattern; `right passage`: the subject's own and others of these; `wrong`:
    BM25's for another subject of the relation.
    """
    rng = random.Random(seed)
    found: dict[str, list[list[Cloze]]] = defaultdict(list)
    for fact in facts:
        queries = queries_of(fact)
        other = rng.choice(
            [one for one in facts if one.property_id == fact.property_id and one.subject != fact.subject]
        )
        retrieved = search.find(queries, N_PASSAGES)
        (wrong,) = search.find(queries_of(other)[:1], N_PASSAGES)
        right = (fact.passage or "", *(one for one in retrieved[0] if one != fact.passage))[:N_PASSAGES]
        passages: dict[str, Sequence[tuple[str, ...]]] = {
            CLOSED_BOOK: [()] * len(queries),
            RIGHT: [right] * len(queries),
            WRONG: [wrong] * len(queries),
            FIXED: retrieved[:1] * len(queries),
            RETRIEVED: retrieved,
        }
        for name, own in passages.items():
            found[name].append(
                [Cloze(query, one, fact.answer) for query, one in zip(queries, own, strict=True)]
            )
    return found


def measure(samples: Sequence[Sequence[Cloze]], predictions: Sequence[str]) -> Measured:
    """Accuracy and agreement from the predictions for all samples, fact after fact."""
    accuracy, agreement, rest = 0.0, 0.0, list(predictions)
    for own in samples:
        said, rest = rest[: len(own)], rest[len(own) :]
        accuracy += sum(text == one.answer for text, one in zip(said, own, strict=True)) / len(own)
        pairs = sum(count * (count - 1) for count in Counter(said).values())
        agreement += pairs / (len(own) * (len(own) - 1))
    return Measured(accuracy / len(samples), agreement / len(samples))


def judge(folder: Path, device: str, say: Callable[[str], None]) -> list[Gate]:
    """Every gate of the model in `folder`, separately for each seed, which draws facts of the default world."""
    world = World()
    search, everything = Search(world), [fact for fact in cloze_facts(world) if fact.passage]
    read = reader(folder, device)
    gates: list[Gate] = []
    for seed in SEEDS:
        facts = drawn(everything, FACTS_PER_RELATION, seed)
        asked = clozes(facts, search, seed)
        found = {
            name: measure(own, read([one for samples in own for one in samples]))
            for name, own in asked.items()
        }
        for name, one in found.items():
            say(f"  f {name}: accuracy {one.accuracy:.3f}, agreement {one.agreement:.3f}")
        gates += gates_of(found, seed, len(facts))
    return gates


def gates_of(found: dict[str, Measured], seed: int, n: int) -> list[Gate]:
    """The bounds on differences between conditions."""
    closed, right, wrong, fixed, retrieved = (found[name] for name in CONDITIONS)
    differences = {
        "right passage above closed book": (right.accuracy - closed.accuracy, 0.1),
        "closed book above wrong passages": (closed.accuracy - wrong.accuracy, 0.1),
        "agreement, fixed above retrieved": (fixed.agreement - retrieved.agreement, 0.02),
    }
    return [Gate(name, FUSION, seed, n, value, bound) for name, (value, bound) in differences.items()]


def drawn(facts: Sequence[ClozeFact], per_relation: int, seed: int) -> list[ClozeFact]:
    """A seeded draw of facts from each relation."""
    rng, by_relation = random.Random(f"fusion {seed}"), defaultdict(list)
    for fact in facts:
        by_relation[fact.property_id].append(fact)
    return [fact for own in by_relation.values() for fact in rng.sample(own, per_relation)]


def reader(folder: Path, device: str) -> Callable[[Sequence[Cloze]], list[str]]:
    """A function that lets the model in `folder` write the objects of samples with equally many passages."""
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    from dagster_project.core.sandbox.training.fusion import fused

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    torch.nn.Module.to(model, device)

    def read(samples: Sequence[Cloze]) -> list[str]:
        texts: list[str] = []
        with torch.inference_mode():
            for start in range(0, len(samples), BATCH):
                states = fused(model, tokenizer, samples[start : start + BATCH])
                written = model.generate(**states, max_new_tokens=NEW_TOKENS, do_sample=False)
                texts += tokenizer.batch_decode(written, skip_special_tokens=True)
        return [text.strip() for text in texts]

    return read
