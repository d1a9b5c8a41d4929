"""BM25 over title and text.

Tokens are runs of letters, marks and digits in NFKC, case-folded. By default they are not stemmed, and stop words stay:
recall@1 is 0.733 on the sandbox's 2,240 questions, and it moves by less than half a point without stop words or with
other usual k₁ and b. Chinese, Japanese, Thai and others are written without spaces between words, so that a run may be a
sentence. With `tokens: cjk_bigrams` such a run gives each pair of neighbouring characters, as in Lucene's CJKAnalyzer.

Each shard of passages is a bm25s index. First each shard is counted alone, several at a time in processes. Then the
frequencies of all shards are added up. Last, each shard's counts become weights, which equal those of one index of all
passages to the last digit: the same formula, in bm25s's precisions. Every shard has a vocabulary of its own, so that
memory does not grow with the collection. What is there is not made again.

The weights are those of bm25s's default, Lucene's (Kamphuis et al., 2020: Which BM25 Do You Mean?). score(q, d) = Σ over
the query's tokens t of idf(t) · tf(t, d), where n of N passages hold t, and f is its count in d, with
idf = ln(1 + (N − n + ½)/(n + ½)) and tf = f/(f + k₁(1 − b + b·|d|/avg|d|)).
"""

from __future__ import annotations

import logging
import math
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex

from longtail.models.workers import map_in_processes
from longtail.needs import check_package
from longtail.progress import Progress
from longtail.retrieval.base import Context, Hit, Query, Retriever
from longtail.retrieval.retrievers.bm25 import CJK_BIGRAMS, WORDS, Bm25Settings
from longtail.retrieval.stored_passages import StoredPassages, texts_to_index
from longtail.storage.files import remove, remove_leftovers, whole, write_array
from longtail.threads import thread_count

_FREQUENCIES = "frequencies.arrow"
_TOKENS = "tokens.arrow"
_OFTEN = 1 / 8
"""A token in more of a shard's passages than this is kept as one weight a passage while questions ask for it."""
_MOST_OFTEN = 64
Tokens = Callable[[str], list[str]]


def idf(frequencies: np.ndarray, n_passages: int) -> np.ndarray:
    """The weight of tokens by the number of passages that have them, in float32 as bm25s keeps it."""
    distinct, places = np.unique(frequencies, return_inverse=True)
    weights = [math.log(1 + (n_passages - n + 0.5) / (n + 0.5)) for n in distinct.tolist()]
    return np.array(weights, dtype=np.float32)[places]


@dataclass(frozen=True)
class Shard:
    """An open shard. `columns`: the number in this shard of each distinct token that is asked for; -1: not there.

    `whole` holds the weights of frequent tokens for every passage of the shard.
    """

    index: Any
    columns: np.ndarray
    whole: dict[int, np.ndarray]

    @property
    def n_passages(self) -> int:
        return int(self.index.scores["num_docs"])

    def score(self, asked: np.ndarray, scores: np.ndarray) -> None:
        """Set `scores` (n_passages float32) to those of a question with the tokens `asked`, in their order."""
        weights, rows, ends = (self.index.scores[name] for name in ("data", "indices", "indptr"))
        scores.fill(0)
        for column in self.columns[asked]:
            if column in self.whole:
                scores += self.whole[column]
            elif column >= 0:
                start, end = ends[column], ends[column + 1]
                scores[rows[start:end]] += weights[start:end]  # a row stands once in a column


def build_shards(passages: StoredPassages, folder: Path, log: logging.Logger, settings: Bm25Settings) -> None:
    """Write the index into `folder`; whole parts that are there stay.

    Errors: `OSError` where the disk has no room, `BackendError` where a process is killed again and again.
    """
    remove_leftovers(folder)
    frequencies = folder / _FREQUENCIES
    numbers = range(len(passages.starts))
    with Progress(log, "bm25: passages counted", len(passages)) as progress:
        is_weighed = frequencies.exists()
        uncounted = [
            number
            for number in numbers
            if not ((is_weighed and _shard(folder, number).exists()) or _counts(folder, number).exists())
        ]
        sizes = np.diff([*passages.starts, len(passages)])
        progress.add(len(passages) - int(sizes[uncounted].sum()))
        counts = map_in_processes(partial(_count, settings), map(passages.shard, uncounted), "bm25")
        for number, counted in zip(uncounted, counts, strict=True):
            with whole(_counts(folder, number)) as target:
                _write_counts(counted, target)
            progress.add(len(counted.lengths))
    if not frequencies.exists():
        with whole(frequencies) as target:
            _write_table(target, _add_up(_counts(folder, number) for number in numbers))
    everywhere = _read_table(frequencies)
    with Progress(log, "bm25: shards weighed", len(numbers)) as progress:
        for number in numbers:
            if not _shard(folder, number).exists():
                with whole(_shard(folder, number)) as target:
                    _weigh(_counts(folder, number), everywhere, len(passages), settings, target)
            remove(_counts(folder, number))
            progress.add(1)
    log.info("bm25: %d passages, %d distinct tokens", len(passages), everywhere.num_rows)


def open_shard(folder: Path, number: int, distinct: Sequence[str], asked: Sequence[np.ndarray]) -> Shard:
    """A shard for questions with these distinct tokens, whose places `asked` has for each question."""
    path = _shard(folder, number)
    index = _load(path)
    index.scores |= {name: np.asarray(index.scores[name]) for name in ("data", "indices", "indptr")}
    tokens = _read_table(path / _TOKENS)["token"].combine_chunks()
    places = pc.index_in(tokens, value_set=pa.array(distinct, pa.string())).fill_null(-1).to_numpy()
    asked_columns = np.flatnonzero(places >= 0)
    columns = np.full(len(distinct), -1, dtype=np.int64)
    columns[places[asked_columns]] = asked_columns
    return Shard(index, columns, _whole(index, columns, asked))


def _whole(index: Any, columns: np.ndarray, asked: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """The weights of the tokens that many passages have and several questions ask for."""
    ends, n = index.scores["indptr"], index.scores["num_docs"]
    uses = Counter(int(column) for tokens in asked for column in columns[tokens] if column >= 0)
    weights: dict[int, np.ndarray] = {}
    for column, n_uses in uses.most_common():
        start, end = ends[column], ends[column + 1]
        if n_uses > 1 and end - start > n * _OFTEN and len(weights) < _MOST_OFTEN:
            weights[column] = np.zeros(n, dtype=np.float32)
            weights[column][index.scores["indices"][start:end]] = index.scores["data"][start:end]
    return weights


@dataclass(frozen=True)
class _Counts:
    """How often each token stands in each passage of a shard, ordered by token, then by passage.

    `tokens`: each token, by first appearance, and in how many passages it stands. `rows` and `counts`: the passages, and
    how often. `lengths`: the number of tokens of each passage.
    """

    tokens: pa.Table
    rows: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray


def _count(settings: Bm25Settings, table: pa.Table) -> _Counts:
    tokens_of_text = tokeniser(settings)
    vocabulary: dict[str, int] = {}
    numbers, lengths = array("i"), np.empty(table.num_rows, dtype=np.int32)
    for row, text in enumerate(texts_to_index(table)):
        tokens = tokens_of_text(text)
        lengths[row] = len(tokens)
        numbers.extend([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
    keys = np.frombuffer(numbers, dtype=np.int32).astype(np.int64)
    keys *= table.num_rows
    keys += np.repeat(np.arange(table.num_rows), lengths)
    keys.sort()
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(first, append=len(keys)).astype(np.int32)
    columns, rows = np.divmod(keys[first], table.num_rows)
    frequencies = np.bincount(columns, minlength=len(vocabulary))
    counted = pa.table({"token": pa.array(list(vocabulary), pa.string()), "n": frequencies})
    return _Counts(counted, rows.astype(np.int32), counts, lengths)


def _write_counts(counts: _Counts, target: Path) -> None:
    target.mkdir()
    _write_table(target / _TOKENS, counts.tokens)
    for name in ("rows", "counts", "lengths"):
        write_array(target / f"{name}.npy", getattr(counts, name))


def _add_up(counts: Iterable[Path]) -> pa.Table:
    """In how many passages of all shards each token stands; the schema holds the number of tokens in all."""
    added = pa.table({"token": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
    n_tokens = 0
    for path in counts:
        n_tokens += int(np.load(path / "lengths.npy").sum())
        both = pa.concat_tables([added, _read_table(path / _TOKENS)])
        added = both.group_by("token", use_threads=False).aggregate([("n", "sum")])
        added = added.select(["token", "n_sum"]).rename_columns(["token", "n"])
    return added.replace_schema_metadata({"n_tokens": str(n_tokens)})


def _weigh(
    counted: Path, everywhere: pa.Table, n_passages: int, settings: Bm25Settings, target: Path
) -> None:
    import bm25s

    tokens = _read_table(counted / _TOKENS)
    rows, counts, lengths = (np.load(counted / f"{name}.npy") for name in ("rows", "counts", "lengths"))
    places = pc.index_in(tokens["token"], value_set=everywhere["token"]).combine_chunks().to_numpy()
    weights = idf(everywhere["n"].combine_chunks().to_numpy()[places], n_passages)
    frequencies = tokens["n"].combine_chunks().to_numpy()
    n_tokens = int(everywhere.schema.metadata[b"n_tokens"])
    mean = np.float64(n_tokens) / n_passages if n_tokens else np.float64(1)
    index = bm25s.BM25(k1=settings.k1, b=settings.b, dtype="float32", backend="numpy", csc_backend="numpy")
    share = counts / (settings.k1 * ((1 - settings.b) + settings.b * lengths[rows] / mean) + counts)
    index.scores = {
        "data": (np.repeat(weights, frequencies) * share).astype(np.float32),
        "indices": rows,
        "indptr": np.concatenate([[0], np.cumsum(frequencies)]).astype(np.int64),
        "num_docs": len(lengths),
    }
    index.nonoccurrence_array = (
        None  # bm25s sets it when it counts passages itself, and asks for it when it saves
    )
    index.vocab_dict = {}  # in a file of its own, which is mapped into memory
    index.save(target, show_progress=False)
    _write_table(target / _TOKENS, tokens.select(["token"]))
    try:
        _load(target)
    except (
        ValueError,
        EOFError,
    ) as error:  # numpy is silent where a disk has no room for a file's last bytes
        raise OSError(f"the disk is full, an array was cut: {error}") from error


def _load(folder: Path) -> Any:
    import bm25s

    return bm25s.BM25.load(folder, mmap=True, allow_pickle=False, load_vocab=False, show_progress=False)


def _write_table(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)


def _read_table(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def _counts(folder: Path, number: int) -> Path:
    return folder / f"counts-{number:05}"


def _shard(folder: Path, number: int) -> Path:
    return folder / f"{number:05}"


_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_PART = regex.compile(rf"(?P<run>[{_UNSPACED}][{_UNSPACED}\p{{M}}]*)|[^{_UNSPACED}]+")
_LETTER, _UNSPACED_LETTER = regex.compile(r"\p{L}"), regex.compile(rf"[{_UNSPACED}&&\p{{L}}]", regex.VERSION1)
_CHARACTER = regex.compile(r"\X")
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
        build_shards(context.passages, context.folder, context.log, self._settings)

    def search(self, context: Context, queries: Sequence[Query]) -> list[list[Hit]]:
        tokens_of_question = tokeniser(self._settings)
        questions = [tokens_of_question(query.text) for query in queries]
        distinct = list(dict.fromkeys(token for tokens in questions for token in tokens))
        place = {token: number for number, token in enumerate(distinct)}
        asked = [np.array([place[token] for token in tokens], dtype=np.int64) for tokens in questions]
        best = [_Best() for _ in queries]
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
        rows = np.concatenate([np.empty(0, dtype=np.int64), *(of_question.rows for of_question in best)])
        ids = iter(context.passages.ids(rows))
        return [[Hit(next(ids), float(score)) for score in of_question.scores] for of_question in best]


@dataclass(frozen=True)
class _Best:
    """The best passages of one question in the shards so far: rows of all passages, and scores, best first."""

    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scores: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.float32))

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
