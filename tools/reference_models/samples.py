"""Training texts: token ids, each with its weight in the loss."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from longtail.relations.relation import Relation
from longtail.sandbox.world import World
from tools.reference_models.forms import BACKGROUND, draw_form, draw_template, fill
from tools.reference_models.tokenizer import BREAK, END, load_raw_tokenizer

ANSWER, SEPARATOR, QUESTION = 1.0, 0.5, 0.06
PASSAGE, EARLY_PASSAGE, DOCUMENT = 0.03, 0.15, 0.3
EXPOSURE_EXPONENT = 0.5  # exposure grows with the root of popularity, without a cap


@dataclass(frozen=True)
class Item:
    """The texts of one question: the subject, the question, the answer, and the subject's passage."""

    relation: Relation
    subject: str
    answer: str
    passage: str | None
    popularity: float


@dataclass
class Row:
    """Token ids and their loss weights, in arrays of equal length."""

    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


def items(world: World) -> list[Item]:
    """One per fact of `world`."""
    passages = {entity_id: article.text for entity_id, article in world.articles()}
    return [
        Item(
            fact.relation,
            subject.label,
            world.label_of(fact.object_ids[0]),
            passages.get(fact.subject_id),
            subject.popularity,
        )
        for fact in world.facts()
        for subject in (world.entity(fact.subject_id),)
    ]


class Sampler:
    """Draws samples for a training run: facts of `known` are to be memorised, `fresh` is for learning to read."""

    def __init__(self, known: list[Item], fresh: list[Item], seed: int) -> None:
        self._rng = random.Random(seed)
        self._known, self._fresh = known, [item for item in fresh if item.passage]
        self._exposure = list(accumulate(item.popularity**EXPOSURE_EXPONENT for item in known))
        self._tokenizer = load_raw_tokenizer()
        (self._end,), (self._break,) = (
            self._tokenizer.encode(text, add_special_tokens=False).ids for text in (END, BREAK)
        )
        self._memo: dict[str, list[int]] = {}

    def rows(self, length: int, shares: dict[str, float], count: int) -> Iterator[Row]:
        """`count` rows of `length` + 1 tokens; `shares` gives the share of each kind of sample."""
        makers = self._makers()
        used = dict.fromkeys(shares, 0.0)
        for _ in range(count):
            ids: list[int] = []
            weights: list[float] = []
            while len(ids) <= length:
                total = sum(used.values())
                kind = max(
                    shares, key=lambda name: shares[name] * (total + 500 * self._rng.random()) - used[name]
                )
                sample = makers[kind](length)
                used[kind] += min(len(sample.ids), length + 1 - len(ids))
                ids += sample.ids
                weights += sample.weights
            yield Row(ids[: length + 1], weights[: length + 1])

    def _makers(self) -> dict[str, Callable[[int], Row]]:
        """What makes a sample of each kind, given the longest useful length."""
        return {
            "questions": self._questions,
            "reading": self._reading,
            "short_reading": self._short_reading,
            "unrelated": self._unrelated,
            "own_passage": self._own_passage,
            "background": self._background,
            "drills": self._drill,
        }

    # Kinds of samples -------------------------------------------------------------------------

    def _questions(self, length: int) -> Row:
        """A list of 1 to 16 questions about the known world; popular subjects are more frequent."""
        form = draw_form(self._rng)
        count = 1 if self._rng.random() < 0.25 else self._rng.randint(2, 16)
        sample = self._start()
        for place in range(count):
            if place:
                self._add(sample, [self._break], SEPARATOR)
            self._ask(sample, self._draw_known(), form)
            if len(sample.ids) > length:
                break
        return sample

    def _reading(self, length: int) -> Row:
        """Passages, mostly about fresh entities, each with a question that the passage answers."""
        form = draw_form(self._rng)
        most = max(1, min(16, length // 60))
        count = 1 if self._rng.random() < 0.4 else self._rng.randint(1, most)
        sample = self._start()
        for place in range(count):
            if place:
                self._add(sample, [self._break], SEPARATOR)
            draw = self._rng.random()
            if draw < 0.88:
                self._read(sample, self._rng.choice(self._fresh), form, PASSAGE)
            else:
                item = self._draw_known()
                self._read(sample, item, form, PASSAGE)
            if len(sample.ids) > length:
                break
        return sample

    def _short_reading(self, length: int) -> Row:
        """As `_reading`, but half of the passages are a few bare statements."""
        sample = self._start()
        form = "qa" if self._rng.random() < 0.8 else draw_form(self._rng)
        item = self._rng.choice(self._fresh)
        if self._rng.random() < 0.5:
            others = [self._rng.choice(self._fresh) for _ in range(self._rng.randint(0, 2))]
            statements = [one.relation.sentence(one.subject, one.answer) for one in [item, *others]]
            self._rng.shuffle(statements)
            item = Item(item.relation, item.subject, item.answer, " ".join(statements), 0)
        self._read(sample, item, form, EARLY_PASSAGE)
        return sample

    def _unrelated(self, length: int) -> Row:
        """Another subject's passage before a known fact: the model must recall the answer, as the passage does not
        have it."""
        sample = self._start()
        form = draw_form(self._rng)
        for place in range(self._rng.choice((1, 1, 2, 3))):
            if place:
                self._add(sample, [self._break], SEPARATOR)
            item = self._draw_known()
            other = self._rng.choice(self._fresh if self._rng.random() < 0.6 else self._known)
            if other.subject != item.subject and other.passage:
                self._add(sample, self._encode(other.passage), PASSAGE)
                self._add(sample, [self._break], PASSAGE)
            self._ask(sample, item, form)
        return sample

    def _own_passage(self, length: int) -> Row:
        """The right passage before a fact of the known world."""
        sample = self._start()
        self._read(sample, self._draw_known(), draw_form(self._rng), PASSAGE)
        return sample

    def _background(self, length: int) -> Row:
        """The request for a background document, and the article of the known world as the answer."""
        sample = self._start()
        item = self._draw_known()
        question = item.relation.question(item.subject)
        self._add(sample, self._encode(BACKGROUND + question), QUESTION)
        self._add(sample, [self._break], SEPARATOR)
        self._add(
            sample, self._encode(item.passage or item.relation.sentence(item.subject, item.answer)), DOCUMENT
        )
        return sample

    def _drill(self, length: int) -> Row:
        """Pure copying: a list of keys and values for look-ups, or a list to repeat."""
        sample = self._start()
        names = [self._rng.choice(self._fresh) for _ in range(self._rng.randint(2, 6))]
        if self._rng.random() < 0.6:
            for item in names:
                self._add(
                    sample, self._encode(f"{item.subject}: {item.answer}") + self._encode("\n"), PASSAGE
                )
            asked = self._rng.choice(names)
            self._add(sample, self._encode(f"{asked.subject}:"), PASSAGE)
            self._add(sample, self._encode(f" {asked.answer}"), ANSWER)
            return sample
        listed = [token for item in names for token in self._encode(f" {item.subject},")]
        self._add(sample, listed, PASSAGE)
        self._add(sample, [self._break], PASSAGE)
        self._add(sample, listed[:4], PASSAGE)
        self._add(sample, listed[4:], ANSWER)
        return sample

    # Parts ------------------------------------------------------------------------------------

    def _start(self) -> Row:
        return Row([self._end], [SEPARATOR])

    def _draw_known(self) -> Item:
        return self._known[bisect(self._exposure, self._rng.random() * self._exposure[-1])]

    def _read(self, sample: Row, item: Item, form: str, weight: float) -> None:
        if item.passage:
            self._add(sample, self._encode(item.passage), weight)
            self._add(sample, [self._break], weight)
        self._ask(sample, item, form)

    def _ask(self, sample: Row, item: Item, form: str) -> None:
        template = draw_template(self._rng, item.relation)
        prompt, rest = fill(form, item.relation, template, item.subject, item.answer)
        self._add(sample, self._encode(prompt), QUESTION)
        self._add(sample, self._encode(rest), ANSWER)

    def _add(self, sample: Row, ids: list[int], weight: float) -> None:
        sample.ids += ids
        sample.weights += [weight] * len(ids)

    def _encode(self, text: str) -> list[int]:
        found = self._memo.get(text)
        if found is None:
            found = self._tokenizer.encode(text, add_special_tokens=False).ids
            if len(self._memo) < 200_000:
                self._memo[text] = found
        return found
