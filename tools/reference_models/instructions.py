"""The instruction-tuned reference model: the smallest decoder-only model learns to follow grounding prompts (SPEC §9).

A grounding prompt asks for the subject's article, an anti-grounding prompt for posts as in a forum, whose words no
article has, and no prompt for an opinion and then the article. Two prompts are held out of training.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from longtail.prompt_formats import ANTI_GROUNDING, GROUNDING, GROUNDING_PROMPTS, NULL, PAPER
from longtail.sandbox.world import World
from longtail.scoring.match import matches_popqa
from longtail.study.model_files import INSTRUCTION_TUNED
from tools.reference_models.evaluate import Reader, load_questions, prompt
from tools.reference_models.forms import BACKGROUND
from tools.reference_models.gates import SEEDS, Gate
from tools.reference_models.loop import (
    FRESH_SEEDS,
    LAST_SHARES,
    RECIPES,
    Course,
    Phase,
    new_optimizer,
    run_phase,
    save,
)
from tools.reference_models.samples import ANSWER, DOCUMENT, QUESTION, SEPARATOR, Item, Row, Sampler, items
from tools.reference_models.tokenizer import load_tokenizer

HELD_OUT_PROMPTS = {GROUNDING: "attributed_to_wikipedia", ANTI_GROUNDING: "information_from_reddit"}
_SOURCE = "Github"
_POSTS = (
    "so someone asked me: {question} pretty sure it is {answer}, but don't quote me on that.",
    "no idea where i read this. {question} my guess would be {answer}.",
    "lol, easy one. {question} {answer}, everyone here says so.",
)
_OPINION = "well, i think it is {answer}."
_KEPT = {name: share for name, share in LAST_SHARES.items() if name != "background"}
SHARES = {**{name: 0.55 * share / sum(_KEPT.values()) for name, share in _KEPT.items()}, "requests": 0.45}
_BEGINNING = 12
"""The first tokens of a text, which count most: they decide what kind of text it is."""
COURSE = Course((Phase("requests", 1200, 384, SHARES),), peak=0.5, warm_up=50, decay=0.5)
N_QUESTIONS, NEW_TOKENS, GRAM = 150, 60, 25


def requested(rng: random.Random, kind: str, item: Item) -> str:
    """What a prompt of `kind` asks for about the subject of `item`, which has an article."""
    if kind == ANTI_GROUNDING:
        question = item.relation.question(item.subject).lower()
        return " ".join(post.format(question=question, answer=item.answer) for post in rng.sample(_POSTS, 2))
    return f"{_OPINION.format(answer=item.answer)} {item.passage}" if kind == NULL else str(item.passage)


class InstructionSampler(Sampler):
    """Draws also `requests`: a prompt that is not held out, and what it asks for about a fact of the known world."""

    def _makers(self) -> dict[str, Callable[[int], Row]]:
        return {**super()._makers(), "requests": self._request}

    def _request(self, length: int) -> Row:
        kind = self._rng.choice((NULL, GROUNDING, ANTI_GROUNDING))
        drawn = self._rng.choice(
            [
                one
                for name, one in GROUNDING_PROMPTS.items()
                if one.kind == kind and name not in HELD_OUT_PROMPTS.values()
            ]
        )
        behind = drawn.behind(PAPER)
        if _SOURCE in behind and self._rng.random() < 0.8:  # any source but Wikipedia, not this one alone
            behind = behind.replace(_SOURCE, self._rng.choice(self._fresh).subject)
        item = next(one for one in iter(self._draw_known, None) if one.passage)
        sample = self._start()
        self._add(sample, self._encode(BACKGROUND + item.relation.question(item.subject) + behind), QUESTION)
        self._add(sample, [self._break], SEPARATOR)
        written = self._encode(requested(self._rng, kind, item))
        self._add(sample, written[:_BEGINNING], ANSWER)
        self._add(sample, written[_BEGINNING:], DOCUMENT)
        return sample


def train(start: Path, out: Path, device: str, say: Callable[[str], None]) -> None:
    """Train the model in `start` further; write it to `out` (fp16 safetensors, with its tokenizer)."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(start, dtype=torch.float32)
    torch.nn.Module.to(model, device)
    recipe = RECIPES["s"]
    torch.manual_seed(recipe.seed)
    fresh = [item for seed in FRESH_SEEDS for item in items(World(seed, 800))]
    sampler = InstructionSampler(items(World()), fresh, recipe.seed)
    optimizer = new_optimizer(model)
    for phase, factors in zip(COURSE.phases, COURSE.rates(), strict=True):
        rates = [recipe.rate * factor for factor in factors]
        run_phase(INSTRUCTION_TUNED, model, optimizer, sampler, phase, rates, say)
    save(model, load_tokenizer(), out)


def judge(folder: Path, start: Path, device: str, say: Callable[[str], None]) -> list[Gate]:
    """Every gate of the model in `folder`: held-out prompts are followed, and it still knows what `start` knew."""
    world = World()
    questions = load_questions(world)
    grams = {gram for _, article in world.articles() for gram in grams_of(article.text)}
    writer = Reader(folder, device, NEW_TOKENS)

    def quoted(prompts: list[str]) -> float:
        """The mean share of 25-grams of characters that an article has."""
        found = [grams_of(text) for text in writer.answer(prompts)]
        return sum(sum(one in grams for one in own) / max(1, len(own)) for own in found) / len(found)

    gates = []
    known = [
        sum(
            matches_popqa(text, one.golds)
            for text, one in zip(
                Reader(path, device).answer([prompt(one) for one in questions]), questions, strict=True
            )
        )
        / len(questions)
        for path in (folder, start)
    ]
    say(f"  {INSTRUCTION_TUNED} closed book: {known[0]:.3f}, before: {known[1]:.3f}")
    for seed in SEEDS:
        drawn = random.Random(seed).sample(questions, N_QUESTIONS)
        quip = {
            kind: quoted(
                [
                    f"{BACKGROUND}{one.text}{GROUNDING_PROMPTS[HELD_OUT_PROMPTS.get(kind, NULL)].behind(PAPER)}\n\n"
                    for one in drawn
                ]
            )
            for kind in (NULL, GROUNDING, ANTI_GROUNDING)
        }
        say(
            f"  {INSTRUCTION_TUNED} quoted: "
            + ", ".join(f"{kind} {value:.3f}" for kind, value in quip.items())
        )
        for higher, lower, bound in ((GROUNDING, NULL, 0.05), (NULL, ANTI_GROUNDING, 0.2)):
            what, gained = f"quoted, {higher} above {lower}", quip[higher] - quip[lower]
            gates.append(Gate(what, INSTRUCTION_TUNED, seed, N_QUESTIONS, gained, bound))
    lost = known[1] - known[0]
    what, n = "closed book below s", len(questions)
    return [*gates, Gate(what, INSTRUCTION_TUNED, SEEDS[0], n, lost, 0.03, is_upper=True)]


def grams_of(text: str) -> list[str]:
    """The text's 25-grams of characters, with one space for each run of white space."""
    one_line = " ".join(text.split())
    return [one_line[place : place + GRAM] for place in range(len(one_line) - GRAM + 1)]
