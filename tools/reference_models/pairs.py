"""Training pairs of the encoder-decoder model: what the encoder reads, and what the decoder writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.reference_models.forms import draw_form
from tools.reference_models.samples import ANSWER, PASSAGE, Item, Row, Sampler
from tools.reference_models.tokenizer import VOCABULARY_SIZE

_POOL = 64
"""Batches that are drawn together: their pairs are sorted by length, so that batches have little padding."""


@dataclass(frozen=True)
class Pair:
    """Token ids of one sample: `source` is everything before the answer; both end with the end token."""

    source: list[int]
    target: list[int]


class PairSampler(Sampler):
    """Draws single questions, with and without passages, by the rules of the decoder-only models' sampler."""

    def batches(self, n_tokens: int, shares: dict[str, float], count: int) -> Iterator[list[Pair]]:
        """About `count` batches of at most `n_tokens` padded source tokens, in random order; `shares` gives the
        share of pairs of each kind."""
        made = 0
        while made < count:
            pairs: list[Pair] = []
            n_drawn = 0
            while n_drawn < _POOL * n_tokens:
                pairs.append(self.pair(self._rng.choices(list(shares), list(shares.values()))[0]))
                n_drawn += len(pairs[-1].source)
            pool = list(_by_length(pairs, n_tokens))
            self._rng.shuffle(pool)
            yield from pool[: count - made]
            made += len(pool)

    def pair(self, kind: str) -> Pair:
        """One sample of a kind, cut where its answer begins."""
        makers: dict[str, Callable[[], Row]] = {
            "questions": self._question,
            "reading": self._fresh_passage,
            "short_reading": lambda: self._short_reading(0),
            "unrelated": self._unrelated_passage,
            "own_passage": lambda: self._own_passage(0),
            "look_up": self._look_up,
            "repeat": self._repeat,
        }
        sample = makers[kind]()
        cut = sample.weights.index(ANSWER)
        return Pair([*sample.ids[1:cut], self._end], [*sample.ids[cut:], self._end])

    def _question(self) -> Row:
        sample = self._start()
        self._ask(sample, self._draw_known(), draw_form(self._rng))
        return sample

    def _fresh_passage(self) -> Row:
        sample = self._start()
        self._read(sample, self._rng.choice(self._fresh), draw_form(self._rng), PASSAGE)
        return sample

    def _unrelated_passage(self) -> Row:
        """Another subject's passage before a known fact."""
        sample = self._start()
        item = self._draw_known()
        other = self._rng.choice(self._fresh if self._rng.random() < 0.6 else self._known)
        if other.passage and other.subject != item.subject:
            self._add(sample, [*self._encode(other.passage), self._break], PASSAGE)
        self._ask(sample, item, draw_form(self._rng))
        return sample

    def _look_up(self) -> Row:
        """A list of keys and values, then one of the keys."""
        sample = self._start()
        names: list[Item] = [self._rng.choice(self._fresh) for _ in range(self._rng.randint(2, 6))]
        asked = self._rng.choice(names)
        for item in names:
            self._add(sample, self._encode(f"{item.subject}: {item.answer}\n"), PASSAGE)
        self._add(sample, self._encode(f"{asked.subject}:"), PASSAGE)
        self._add(sample, self._encode(f" {asked.answer}"), ANSWER)
        return sample

    def _repeat(self) -> Row:
        """A few random tokens to repeat: nothing but copying helps."""
        sample = self._start()
        listed = [self._rng.randrange(1, VOCABULARY_SIZE) for _ in range(self._rng.randint(2, 12))]
        self._add(sample, listed, PASSAGE)
        self._add(sample, listed, ANSWER)
        return sample


def _by_length(pairs: list[Pair], n_tokens: int) -> Iterator[list[Pair]]:
    """Batches of similar source lengths, padded to at most `n_tokens`."""
    batch: list[Pair] = []
    for pair in sorted(pairs, key=lambda one: len(one.source)):
        if batch and (len(batch) + 1) * len(pair.source) > n_tokens:
            yield batch
            batch = []
        batch.append(pair)
    yield batch
