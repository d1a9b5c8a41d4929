"""BM25 over title and text.

Tokens are runs of letters, marks and digits in NFKC, case-folded. By default they are not stemmed, and stop words stay:
recall@1 is 0.733 on the sandbox's 2,240 questions, and it moves by less than half a point without stop words or with
other usual k₁ and b. Chinese, Japanese, Thai and others are written without spaces between words, so that a run may be a
sentence. With `tokens: cjk_bigrams` such a run gives each pair of neighbouring characters, as in Lucene's CJKAnalyzer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import regex

from longtail.needs import check_package
from longtail.progress import Progress
from longtail.retrieval.base import Context, Hit, Query, Retriever
from longtail.retrieval.bm25_shards import (
    Shard,
    build_shards,
    open_shard,
    share_of_tokens,
)
from longtail.retrieval.retrievers.bm25 import CJK_BIGRAMS, WORDS, Bm25Settings
from longtail.threads import thread_count

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_PART = regex.compile(rf"(?P<run>[{_UNSPACED}][{_UNSPACED}\p{{M}}]*)|[^{_UNSPACED}]+")
_RUN = f"[{_UNSPACED}]{{2}}"
_LETTER, _UNSPACED_LETTER = regex.compile(r"\p{L}"), regex.compile(rf"[{_UNSPACED}&&\p{{L}}]", regex.VERSION1)
_CHARACTER = regex.compile(r"\X")
_MANY = 0.01  # of the tokens; English Wikipedia has a hundredth of this
_BLOCK = 512  # scores whose maximum bounds the best k from below
_AT_ONCE = 64  # questions that one thread takes


NO_BOUNDARIES = (
    "runs of Chinese, Japanese, Thai or the like, which have no word boundaries, so that each counts as one word; "
    f"a retriever with kind: bm25 and tokens: {CJK_BIGRAMS} counts pairs of characters"
)


def tokens_of(text: str) -> list[str]:
    """The tokens of a passage or a question."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    else:
        text = text.lower()
    return _TOKEN.findall(text)


def bigrams_of(text: str) -> list[str]:
    """The tokens of a text, in which pairs of characters stand for words where these have no boundaries."""
    tokens = tokens_of(text)
    if text.isascii():
        return tokens
    pairs: list[str] = []
    for part in (part for token in tokens for part in _PART.finditer(token)):
        characters = _CHARACTER.findall(part[0]) if part["run"] else ()
        pairs += map("".join, pairwise(characters)) if len(characters) > 1 else [part[0]]
    return pairs


def share_without_spaces(text: str) -> float:
    """The share of a text's letters that belong to scripts without spaces between words."""
    n = sum(1 for _ in _LETTER.finditer(text))
    return sum(1 for _ in _UNSPACED_LETTER.finditer(text)) / n if n else 0.0


def tokeniser(settings: Bm25Settings) -> Callable[[str], list[str]]:
    """From a text to the tokens that count: without stop words, stemmed, as the settings say."""
    tokens_of_text = bigrams_of if settings.tokens == CJK_BIGRAMS else tokens_of
    if settings.stop_words is None and settings.stemmer is None:
        return tokens_of_text
    import bm25s.stopwords

    name = (settings.stop_words or "").upper().replace("ENGLISH", "EN")
    left_out = frozenset(getattr(bm25s.stopwords, f"STOPWORDS_{name}") if name else ())
    if settings.stemmer is None:
        return lambda text: [token for token in tokens_of_text(text) if token not in left_out]
    import Stemmer

    stem = Stemmer.Stemmer(settings.stemmer).stemWords
    return lambda text: stem([token for token in tokens_of_text(text) if token not in left_out])


class Bm25(Retriever):
    """BM25 as a `Retriever`. A passage that shares no token with the question is no hit."""

    def __init__(self, settings: Bm25Settings, name: str) -> None:
        self._settings, self._name = settings, name

    def version(self) -> str:
        import bm25s

        settings = self._settings
        others = f", without {settings.stop_words} stop words" if settings.stop_words else ""
        others += f", {settings.stemmer} stems" if settings.stemmer else ""
        others += f", {settings.tokens}" if settings.tokens != WORDS else ""
        return f"bm25s {bm25s.__version__}, k1 {settings.k1}, b {settings.b}{others}"

    def check(self) -> None:
        if self._settings.stemmer is not None:
            check_package("Stemmer", "[stemming]")

    def build(self, context: Context) -> None:
        tokens = tokeniser(self._settings)
        build_shards(context.passages, context.folder, tokens, context.log, self._settings)
        share = share_of_tokens(context.folder, _RUN) if self._settings.tokens == WORDS else 0
        if share > _MANY:
            context.log.warning(
                "%s: %.0f %% of the tokens of the passages are %s", self._name, 100 * share, NO_BOUNDARIES
            )

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        tokens_of_question = tokeniser(self._settings)
        questions = [tokens_of_question(query.text) for query in queries]
        distinct = list(dict.fromkeys(token for tokens in questions for token in tokens))
        place = {token: number for number, token in enumerate(distinct)}
        asked = [np.array([place[token] for token in tokens], dtype=np.int64) for tokens in questions]
        best = [_Best.none() for _ in queries]
        starts = context.passages.starts
        with (
            Progress(
                context.log, f"{self._name}: questions in shards", len(queries) * len(starts)
            ) as progress,
            ThreadPoolExecutor(thread_count()) as threads,
        ):
            for number, start in enumerate(starts):
                shard = open_shard(context.folder, number, distinct, asked)

                def some(first: int, shard: Shard = shard, start: int = start) -> None:
                    scores = np.empty(shard.n_passages, dtype=np.float32)
                    for place in range(first, min(first + _AT_ONCE, len(queries))):
                        shard.score(asked[place], scores)
                        best[place] = best[place].join_with(scores, start, context.k)
                        progress.add(1)

                for _ in threads.map(some, range(0, len(queries), _AT_ONCE)):
                    pass
        return _hits(context, best)


@dataclass(frozen=True)
class _Best:
    """The best passages of one question in the shards so far: rows of all passages, and scores, best first."""

    rows: np.ndarray
    scores: np.ndarray

    @classmethod
    def none(cls) -> _Best:
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))

    def join_with(self, scores: np.ndarray, start: int, k: int) -> _Best:
        """With the scores of the next shard, whose rows begin at `start`. Of equal scores the lower row comes first."""
        floor = float(self.scores[-1]) if len(self.scores) == k else 0.0
        rows = best_rows(scores, k, floor)
        if not len(rows):
            return self
        all_rows = np.concatenate([self.rows, rows + start])
        all_scores = np.concatenate([self.scores, scores[rows]])
        order = np.argsort(-all_scores, kind="stable")[:k]
        return _Best(all_rows[order], all_scores[order])


def best_rows(scores: np.ndarray, k: int, floor: float = 0.0) -> np.ndarray:
    """Rows of the `k` largest scores above `floor`, best first; of equal scores the lower row comes first."""
    bound = _bound(scores, k)
    rows = np.flatnonzero(scores >= bound if bound > floor else scores > floor)
    if len(rows) > k:
        least = np.partition(scores[rows], -k)[-k]
        rows = rows[scores[rows] >= least]
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def _bound(scores: np.ndarray, k: int) -> float:
    """A score that at least `k` rows reach, as fast as reading all; -1 where blocks do not tell."""
    n_blocks = len(scores) // _BLOCK
    if n_blocks < k:
        return -1.0
    largest = scores[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK).max(axis=1)
    return float(np.partition(largest, -k)[-k])


def _hits(context: Context, best: Sequence[_Best]) -> list[list[Hit]]:
    rows = np.concatenate([of_question.rows for of_question in best]) if best else np.empty(0, dtype=np.int64)
    ids = iter(context.passages.ids(rows))
    return [[Hit(next(ids), float(score)) for score in of_question.scores] for of_question in best]
