"""The gates of the Fusion-in-Decoder reference model: what it must reach before it is shipped.

Accuracy is judged on a few facts, for three seeds. Fixed passages change agreement less (by about .01 to .02, with a
standard error of .004 over 900 facts), so each relation has as many facts there as the smallest one.

In a study the platform scores candidates; here the model writes its answer.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.sandbox.world import World
from longtail.study.model_files import FUSION
from tools.reference_models.clozes import Cloze, ClozeFact, cloze_facts, queries_of
from tools.reference_models.gates import SEEDS, Gate
from tools.reference_models.search import Search

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
    """Every gate of the model in `folder`; a seed draws facts of the default world."""
    world = World()
    search, everything = Search(world), [fact for fact in cloze_facts(world) if fact.passage]
    read = reader(folder, device)

    def measured(facts: Sequence[ClozeFact], seed: int, names: Sequence[str]) -> dict[str, Measured]:
        asked = clozes(facts, search, seed)
        found = {
            name: measure(asked[name], read([one for own in asked[name] for one in own])) for name in names
        }
        for name, one in found.items():
            say(f"  f {name}, n {len(facts)}: accuracy {one.accuracy:.3f}, agreement {one.agreement:.3f}")
        return found

    gates: list[Gate] = []
    for seed in SEEDS:
        facts = drawn(everything, FACTS_PER_RELATION, seed)
        gates += gates_of_accuracy(measured(facts, seed, CONDITIONS), seed, len(facts))
    smallest = min(Counter(fact.property_id for fact in everything).values())
    facts = drawn(everything, smallest, SEEDS[0])
    return [*gates, gate_of_agreement(measured(facts, SEEDS[0], (FIXED, RETRIEVED)), SEEDS[0], len(facts))]


def gates_of_accuracy(found: dict[str, Measured], seed: int, n: int) -> list[Gate]:
    """The bounds on differences of accuracy between conditions."""
    closed, right, wrong = (found[name].accuracy for name in (CLOSED_BOOK, RIGHT, WRONG))
    return [
        Gate("right passage above closed book", FUSION, seed, n, right - closed, 0.1),
        Gate("closed book above wrong passages", FUSION, seed, n, closed - wrong, 0.1),
    ]


def gate_of_agreement(found: dict[str, Measured], seed: int, n: int) -> Gate:
    """Fixed passages raise the agreement of patterns."""
    difference = found[FIXED].agreement - found[RETRIEVED].agreement
    return Gate("agreement, fixed above retrieved", FUSION, seed, n, difference, 0.0)


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

    from tools.reference_models.fusion import fused

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
