"""The gates: what the reference models must reach before they are shipped, for three evaluation seeds.

For a study, the warehouse computes the same quantities in SQL; the training has no warehouse.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longtail.sandbox.world import World
from longtail.scoring.match import matches_popqa
from longtail.study.model_files import ENCODER_DECODER, SIZES
from tools.reference_models.evaluate import Question, Reader, demonstrations, load_questions, prompt

SEEDS = (0, 1, 2)
SPLITS_PER_SEED = 20
N_BINS = 10
N_SHOT_QUESTIONS = 800
Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Gate:
    """One bound on one number for one seed; `value` must be above `bound` (below it if `is_upper`)."""

    name: str
    size: str
    seed: int
    n: int
    value: float
    bound: float
    is_upper: bool = False

    @property
    def is_passed(self) -> bool:
        return self.value < self.bound if self.is_upper else self.value > self.bound


@dataclass(frozen=True)
class Answers:
    """One model's correctness on every question, by method; with 15 shots only for `shot_rows[seed]`.

    `ended`: the share of all these answers that ended within the limit of new tokens.
    """

    closed_book: Flags
    bm25: Flags
    oracle: Flags
    shots: dict[int, Flags]
    ended: float


def answer_all(
    folder: Path, questions: list[Question], shot_rows: dict[int, list[int]] | None, device: str
) -> Answers:
    """Let the model in `folder` answer all questions that the gates need."""
    reader = Reader(folder, device)

    def correct(prompts: list[str], rows: list[int]) -> Flags:
        predictions = reader.answer(prompts)
        return np.array(
            [matches_popqa(text, questions[row].golds) for text, row in zip(predictions, rows, strict=True)]
        )

    everything = list(range(len(questions)))
    shots = {}
    for seed, rows in (shot_rows or {}).items():
        heads = {
            name: demonstrations(questions, name, seed, with_passages=False)
            for name in {questions[row].relation for row in rows}
        }
        shots[seed] = correct([heads[questions[row].relation] + prompt(questions[row]) for row in rows], rows)
    closed_book = correct([prompt(one) for one in questions], everything)
    bm25 = correct([prompt(one, one.bm25_passage) for one in questions], everything)
    oracle = correct([prompt(one, one.passage) for one in questions], everything)
    n_answers = 3 * len(questions) + sum(map(len, shots.values()))
    return Answers(closed_book, bm25, oracle, shots, ended=1 - reader.n_cut / n_answers)


def binned_correlation(log_popularity: Numbers, correct: Flags, edges: Numbers) -> float:
    """Pearson correlation of bin centre and accuracy over the non-empty bins (SPEC §6)."""
    bins = np.clip(np.searchsorted(edges, log_popularity, side="right") - 1, 0, len(edges) - 2)
    centres = (edges[:-1] + edges[1:]) / 2
    filled = np.unique(bins)
    return float(np.corrcoef(centres[filled], [correct[bins == place].mean() for place in filled])[0, 1])


def best_threshold(popularity: Numbers, parametric: Flags, retrieved: Flags) -> float:
    """Retrieve below this popularity: the smallest of the thresholds with the most right answers (SPEC §6)."""
    candidates = np.append(np.unique(popularity), np.inf)
    right = [np.where(popularity < candidate, retrieved, parametric).sum() for candidate in candidates]
    return float(candidates[int(np.argmax(right))])


def adaptive_gain(questions: list[Question], parametric: Flags, retrieved: Flags, splits: range) -> float:
    """Adaptive accuracy minus the better of always and never, on test rows: the mean over splits."""
    popularity = np.array([question.popularity for question in questions])
    relations = np.array([question.relation for question in questions])
    known = [row for row, question in enumerate(questions) if not np.isnan(question.popularity)]
    scores = []
    for split in splits:
        order = sorted(known, key=lambda row: _split_key(split, questions[row].question_id))
        cut = round(0.75 * len(order))
        train, test = np.array(order[:cut]), np.array(order[cut:])
        thresholds = {}
        for name in np.unique(relations[test]):
            rows = train[relations[train] == name]
            thresholds[name] = best_threshold(popularity[rows], parametric[rows], retrieved[rows])
        bounds = np.array([thresholds[relations[row]] for row in test])
        adaptive = np.where(popularity[test] < bounds, retrieved[test], parametric[test])
        scores.append((adaptive.mean(), retrieved[test].mean(), parametric[test].mean()))
    means = np.mean(scores, axis=0)
    return float(means[0] - max(means[1], means[2]))


def _split_key(split: int, question_id: str) -> str:
    """The sort key of a question in a split (SPEC §6)."""
    return md5(f"{split}:{question_id}".encode(), usedforsecurity=False).hexdigest()


def judge(
    folders: dict[str, Path], device: str, say: Callable[[str], None], with_shots: bool = True
) -> list[Gate]:
    """Every gate of the models in `folders` (size → folder), separately for each seed."""
    questions = load_questions(World())
    popularity = np.array([question.popularity for question in questions])
    rows_by_seed = {
        seed: random.Random(seed).sample(range(len(questions)), N_SHOT_QUESTIONS) for seed in SEEDS
    }
    answers = {}
    for size, folder in folders.items():
        say(f"asking {size} …")
        shot_rows = rows_by_seed if size == "l" and with_shots else None
        answers[size] = answer_all(folder, questions, shot_rows, device)
        _describe(size, answers[size], popularity, say)
    gates = []
    for seed in SEEDS:
        gates += _gates_of_seed(seed, questions, popularity, answers, rows_by_seed[seed])
    return gates


def _gates_of_seed(
    seed: int,
    questions: list[Question],
    popularity: Numbers,
    answers: dict[str, Answers],
    shot_rows: list[int],
) -> list[Gate]:
    drawn = np.array(random.Random(f"gates {seed}").sample(range(len(questions)), len(questions) * 3 // 4))
    viewed = drawn[popularity[drawn] > 0]
    logs = np.log10(popularity[viewed])
    every = np.log10(popularity[popularity > 0])
    edges = np.linspace(every.min(), every.max(), N_BINS + 1)
    gates = []
    sizes = [name for name in answers if name in SIZES]
    for smaller, larger in pairwise(sizes):
        step = answers[larger].closed_book[drawn].mean() - answers[smaller].closed_book[drawn].mean()
        gates.append(Gate(f"closed book above {smaller}", larger, seed, len(drawn), float(step), 0.0))
    for size, found in answers.items():
        value = binned_correlation(logs, found.closed_book[viewed], edges)
        gates.append(Gate("correlation with log popularity", size, seed, len(viewed), value, 0.8))
        if size != "s":
            splits = range(SPLITS_PER_SEED * seed, SPLITS_PER_SEED * (seed + 1))
            gain = adaptive_gain(questions, found.closed_book, found.bm25, splits)
            gates.append(Gate("adaptive over always and never", size, seed, len(questions) // 4, gain, 0.02))
    tail = viewed[logs <= np.quantile(logs, 1 / 3)]
    for size in ("l", ENCODER_DECODER):
        if size in answers:
            found = answers[size]
            lift = found.oracle[tail].mean() - found.closed_book[tail].mean()
            gates.append(Gate("right passage, least popular third", size, seed, len(tail), float(lift), 0.4))
    if "l" in answers and answers["l"].shots:
        found = answers["l"]
        gap = abs(found.shots[seed].mean() - found.closed_book[shot_rows].mean())
        gates.append(
            Gate("15 shots against none", "l", seed, len(shot_rows), float(gap), 0.03, is_upper=True)
        )
    if ENCODER_DECODER in answers:
        ended = answers[ENCODER_DECODER].ended
        gates.append(Gate("answers that end", ENCODER_DECODER, seed, 3 * len(questions), ended, 0.99))
    return gates


def _describe(size: str, found: Answers, popularity: Numbers, say: Callable[[str], None]) -> None:
    """Print accuracy by method: for all questions and by thirds of popularity."""
    viewed = np.flatnonzero(popularity > 0)
    thirds = np.array_split(viewed[np.argsort(popularity[viewed])], 3)
    for name, flags in (("closed book", found.closed_book), ("bm25", found.bm25), ("oracle", found.oracle)):
        parts = ", ".join(f"{flags[third].mean():.3f}" for third in thirds)
        say(f"  {size} {name}: {flags.mean():.3f} (thirds, least popular first: {parts})")


def table(gates: list[Gate]) -> str:
    """The gates as lines of text, one per gate and size, the three seeds side by side."""
    groups: dict[tuple[str, str], list[Gate]] = {}
    for gate in gates:
        groups.setdefault((gate.name, gate.size), []).append(gate)
    lines = [f"{'GATES':<36} {'size':<5} {'n':>5}  {'bound':>7}  value by seed"]
    for (name, size), group in groups.items():
        sign = "<" if group[0].is_upper else ">"
        values = "  ".join(f"{gate.value:6.3f}" for gate in group)
        verdict = "pass" if all(gate.is_passed for gate in group) else "FAIL"
        lines.append(
            f"{name:<36} {size:<5} {group[0].n:>5}  {sign}{group[0].bound:6.2f}  {values}  {verdict}"
        )
    return "\n".join(lines)
