"""Correlations within relations and their bootstrap over subjects agree with statsmodels, pandas and scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from longtail.statistics.correlation_intervals import (
    MEASURES,
    N_RESAMPLES,
    bootstrap_correlations,
    resample_correlations,
)
from longtail.statistics.resampling import draws, percentiles, seed_of
from longtail.study.study import Study
from tests.dbt.recomputation import within_relations
from tests.warehouses import AWKWARD, built_study, mart


@pytest.fixture
def awkward(monkeypatch: pytest.MonkeyPatch) -> Study:
    return built_study(AWKWARD, monkeypatch)


def questions(seed: int = 5, n: int = 120) -> pd.DataFrame:
    """Relations of unequal size and difficulty, ties, a relation of one question, questions without a relation; one to
    five questions a subject.
    """
    rng = np.random.default_rng(seed)
    relation = np.array([*rng.choice(["easy", "hard", "rare", ""], n - 1, p=[0.5, 0.3, 0.1, 0.1]), "single"])
    popularity = np.round(10 ** (rng.uniform(0, 2, n) + 2 * (relation == "hard")))
    ease = np.log10(popularity) - 3.5 * (relation == "hard")
    right = {f"right_{k}": rng.uniform(size=n) < 1 / (1 + np.exp(-ease + k)) for k in range(3)}
    subject = np.unique(rng.integers(0, n // 2, n), return_inverse=True)[1]
    own = {"relation": relation, "subject": subject, "popularity": popularity}
    return pd.DataFrame({**own, **right, "always": True})


def resampled(rows: pd.DataFrame, n_resamples: int = N_RESAMPLES) -> dict[str, dict[str, Any]]:
    correct = rows.drop(columns=["relation", "subject", "popularity"]).to_numpy(dtype=float)
    logs, (relation, subject) = (
        np.log10(rows.popularity.to_numpy()),
        rows[["relation", "subject"]].to_numpy().T,
    )
    return dict(resample_correlations(relation, subject.astype(int), logs, correct, 7, n_resamples))


def pooled(rows: pd.DataFrame, right: pd.Series) -> list[float]:
    if rows.popularity.nunique() < 2 or right.nunique() < 2:
        return [math.nan, math.nan]
    return [
        stats.pointbiserialr(right, np.log10(rows.popularity))[0],
        stats.spearmanr(rows.popularity, right)[0],
    ]


def test_every_resample_equals_statsmodels_and_scipy() -> None:
    rows = questions()
    found = resampled(rows, n_resamples=12)
    weights = draws(rows.subject.nunique(), 12, np.random.default_rng(7))[:, rows.subject]
    assert set(found) == {"easy", "hard", "rare", "single", "all"}
    for number, weight in enumerate(weights):
        drawn = rows.loc[rows.index.repeat(weight)].reset_index(drop=True)
        for at, column in enumerate(rows.columns[3:]):
            for name, actual in found.items():
                mine = drawn if name == "all" else drawn[drawn.relation == name]
                expected = pooled(mine, mine[column])
                np.testing.assert_allclose(actual["pooled"][number, :, at], expected, atol=1e-9)
            known = drawn[drawn.relation != ""]
            expected = within_relations(known.relation, known.popularity, known[column])
            np.testing.assert_allclose(found["all"]["within"][number, :, at], expected, atol=1e-9)
    assert np.isnan(found["all"]["within"][:, :, 3]).all(), "an always right model has no correlation"
    assert np.isnan(found["single"]["pooled"]).all()


def test_a_little_variance_is_enough() -> None:
    rows = pd.DataFrame({"relation": "a", "popularity": [10.0, 10.1, 10.2, 10.3], "right": [0, 1, 0, 1]})
    (_, found), *_ = resample_correlations(
        rows.relation.to_numpy(), np.arange(4), np.log10(rows.popularity.to_numpy()), rows[["right"]].to_numpy(float),
        0, 50,
    )  # fmt: skip
    weights = draws(4, 50, np.random.default_rng(0))
    expected = [
        pooled(drawn, drawn.right) for weight in weights if len(drawn := rows.loc[rows.index.repeat(weight)])
    ]
    np.testing.assert_allclose(found["pooled"][:, :, 0], expected, atol=1e-6)


def test_within_relations_is_the_regression_with_relation_dummies() -> None:
    """Frisch, Waugh and Lovell: the partial correlation follows from the slope of the regression with dummies."""
    rows = questions().query("relation != ''")
    logs, right = np.log10(rows.popularity), rows.right_0.astype(float)
    dummies = pd.get_dummies(rows.relation, dtype=float)
    fit = OLS(right, dummies.assign(popularity=logs)).fit()
    t, df = fit.tvalues["popularity"], fit.df_resid
    expected = t / math.sqrt(t**2 + df)
    assert within_relations(rows.relation, rows.popularity, rows.right_0)[0] == pytest.approx(expected)


def test_marts_have_the_quantiles_of_the_resamples(awkward: Study) -> None:
    found = mart(awkward, "fct_popularity_correlation")
    measures = [*MEASURES, *(f"{measure}_within" for measure in MEASURES)]
    for measure in measures:
        low, value, high = found[f"{measure}_ci_low"], found[measure], found[f"{measure}_ci_high"]
        has = low.notna()
        assert has.any()
        assert (low[has] <= value[has]).all(), measure
        assert (value[has] <= high[has]).all(), measure
        assert (low[has] < high[has]).all()
    assert set(found.no_interval.dropna()) >= {"too few answers", "no variance of correctness"}
    assert (found.n_subjects.dropna() <= found.n[found.n_subjects.notna()]).all()
    every = found[found.relation == "all"]
    assert set(every.within_undefined.dropna()) == {"no variance of correctness"}
    assert set(found[found.relation != "all"].within_undefined) == {"one relation"}
    assert (every.n == every.n_within + every.n_missing_relation).all()


def test_intervals_are_percentiles_of_the_resamples_or_tell_why_there_are_none() -> None:
    """Ten wrong answers are enough, nine are not; and 19 subjects are not."""
    rows = questions()
    right = {"often": rows.right_0, **{f"all but {n}": np.arange(len(rows)) >= n for n in (9, 10)}}
    named = {"few": rows.subject % 19, "many": rows.subject}
    groups = [
        {**dict.fromkeys(("dataset", "method"), "x"), "prompt": prompt, "model": model, "is_correct": list(own),
         "cluster_id": [f"{prompt} {one:03}" for one in subject],
         "question_id": [f"{prompt} {i}" for i in range(len(rows))],
         "relation": [one or None for one in rows.relation], "subject_popularity": list(rows.popularity)}
        for prompt, subject in named.items()
        for model, own in right.items()
    ]  # fmt: skip
    found = bootstrap_correlations(pa.Table.from_pylist(groups), 3).to_pylist()
    every = {(row["prompt"], row["model"]): row for row in found if row["relation"] == "all"}
    correct = np.array(list(right.values()), dtype=float).T
    logs, relation = np.log10(rows.popularity.to_numpy()), rows.relation.to_numpy()
    drawn = dict(resample_correlations(relation, rows.subject.to_numpy(), logs, correct, seed_of(3, ["x"])))[
        "all"
    ]
    for suffix, values in (("", drawn["pooled"]), ("_within", drawn["within"])):
        for at, model in enumerate(right):
            row = every["many", model]
            reason = row[f"no_interval{suffix}"]
            assert reason == ("fewer than 10 wrong answers" if model == "all but 9" else None) or suffix
            for number, measure in enumerate(MEASURES):
                ends = [row[f"{measure}{suffix}_{end}"] for end in ("low", "high")]
                if reason:
                    assert ends == [None, None]
                else:
                    own = rows[rows.relation != ""] if suffix else rows
                    n_rarer = own.groupby(right[model][own.index]).subject.nunique().min()
                    expected = percentiles(values[:, number, at], n_rarer)
                    np.testing.assert_allclose(ends, expected, atol=1e-12)
    assert every["few", "often"]["no_interval"] == "fewer than 20 subjects"
    assert every["few", "often"]["n_subjects"] == 19
    assert (every["many", "often"]["n_answers"], every["many", "often"]["n_within"]) == (
        120,
        int((rows.relation != "").sum()),
    )
    assert every["many", "often"]["n_subjects"] == rows.subject.nunique()
