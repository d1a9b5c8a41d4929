"""The time of performance prediction at PopQA's size: the regression with all interactions, and all ablations.

The questions are as many and as unevenly distributed over relations as PopQA's, with one relation that a plane separates
and one that is never answered right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.harness import last_line, machine, say, table
from longtail.statistics.prediction import cross_fit
from longtail.statistics.prediction_fit import ABLATIONS, Questions, fit_all, score
from longtail.statistics.prediction_tables import by_subject, coefficients, likelihood, terms

N_OF_RELATIONS = (532, 584, 1619, 570, 838, 1520, 1999, 363, 1999, 978, 34, 338, 547, 1514, 187, 645)
"""PopQA's questions by relation: 14,267."""


def generated_questions(seed: int) -> Questions:
    """Questions of one model."""
    rng = np.random.default_rng(seed)
    relation = np.repeat([f"relation {number:02d}" for number in range(len(N_OF_RELATIONS))], N_OF_RELATIONS)
    n = len(relation)
    predictors = np.column_stack([rng.normal(7, 2.5, n), rng.beta(5, 2, (n, 2)).round(6)])
    level, slope = (np.repeat(rng.normal(size=len(N_OF_RELATIONS)), N_OF_RELATIONS) for _ in range(2))
    logit = level - 1 + 0.4 * (1 + slope / 2) * (predictors[:, 0] - 7) + 3 * (predictors[:, 2] - 0.7)
    correct = rng.uniform(size=n) < 1 / (1 + np.exp(-logit))
    correct = np.where(relation == "relation 10", predictors[:, 2] > 0.7, correct)
    return Questions(relation, correct & (relation != "relation 14"), predictors)


def regress(questions: Questions, n_ablations: int) -> None:
    """The tables of the first ablations on all questions, and their scores on a fifth."""
    is_test = np.arange(len(questions.correct)) % 5 == 0
    training, test = questions.where(~is_test), questions.where(is_test)
    for ablation in ABLATIONS[:n_ablations]:
        fits = fit_all(questions, ablation)
        clusters = by_subject(questions, np.arange(len(questions.correct)) // 3, fits, ablation)
        list(terms(fits, ablation, clusters)), list(coefficients(fits, ablation, clusters))
        likelihood(fits, ablation)
        score(training, fit_all(training, ablation), test, ablation, np.arange(len(test.correct)) // 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=10, help="models whose ablations are timed")
    parser.add_argument(
        "--probabilities", action="store_true", help="also time scikit-learn's estimators, for one model"
    )
    chosen = parser.parse_args()
    models = [generated_questions(seed) for seed in range(chosen.models)]
    regress(
        generated_questions(seed=0).where(np.arange(sum(N_OF_RELATIONS)) % 50 == 0), 1
    )  # imports statsmodels
    seconds: dict[str, float | None] = {"regression_s": None, "ablations_s": None, "probabilities_s": None}
    say("the regression with all interactions …")
    seconds["regression_s"] = _timed(lambda: regress(models[0], 1))
    say(f"all ablations, {chosen.models} models …")
    # Both settings: the second one has fewer rows, and is timed as if it had all.
    seconds["ablations_s"] = _timed(lambda: _regress_twice(models))
    if chosen.probabilities:
        say("probabilities of one model …")
        subject = np.arange(len(models[0].correct)).astype(str)
        seconds["probabilities_s"] = _timed(lambda: list(cross_fit(models[0], subject, seed=1)))
    print(machine("statsmodels", "scikit-learn", "numpy"))
    shown = [(name, f"{value:.2f}") for name, value in seconds.items() if value is not None]
    table(f"{sum(N_OF_RELATIONS):,} questions, {chosen.models} models", ("measured", "seconds"), shown)
    last_line(seconds)


def _regress_twice(models: Sequence[Questions]) -> None:
    for one in models:
        for _ in range(2):
            regress(one, len(ABLATIONS))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
