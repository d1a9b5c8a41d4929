"""The analyses of SPEC §6 a second time, in pandas, numpy and scipy, from rows of fct_answers alone.

Written from the definitions, not from the SQL: plain loops, brute force over candidates, no shared code.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats
from scipy.sparse.csgraph import connected_components
from scipy.stats import t
from sklearn.metrics.pairwise import cosine_similarity
from statsmodels.regression.linear_model import OLS

from longtail.storage.lake import Lake

GROUP = ["dataset", "prompt", "model", "method"]
COSTS = ["device_seconds", "cost_usd", "single_latency_ms"]
PAIR = ["dataset", "prompt", "model", "parametric_method", "retrieval_method"]


def with_all(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers twice: under their relation, and under `all`."""
    return pd.concat([answers, answers.assign(relation="all")], ignore_index=True)


def rate(right: pd.Series, rows: pd.DataFrame) -> tuple[float, float, float]:
    """The share of right rows and its interval of whole subjects (SPEC §12); NaN without rows.

    `rows` has columns subject_id and question_id. The variance is the cluster-robust one of statsmodels; the ends solve
    Wilson's quadratic equation.
    """
    if rows.empty:
        return math.nan, math.nan, math.nan
    p, k = float(right.astype(float).mean()), n_clusters(rows)
    if k == 1:
        return p, math.nan, math.nan
    return p, *wilson(p, len(rows) / design_effect(right, rows), k - 1)


def clusters_of(rows: pd.DataFrame) -> pd.Series:
    """What each row is about: its subject, or its own question."""
    return rows.subject_id.fillna("question " + rows.question_id.astype(str))


def n_clusters(rows: pd.DataFrame) -> int:
    return int(clusters_of(rows).nunique())


def design_effect(right: pd.Series, rows: pd.DataFrame) -> float:
    values, clusters = right.to_numpy(dtype=float), clusters_of(rows)
    sizes, n, p = clusters.value_counts(), len(values), values.mean()
    if len(sizes) < 5 or p in (0, 1):
        return float((sizes**2).sum() / n)
    groups = clusters.astype("category").cat.codes.to_numpy()
    fit = sm.OLS(values, np.ones(n)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    return max(1.0, fit.cov_params()[0, 0] / (p * (1 - p) / n))


def wilson(p: float, n: float, degrees: int) -> tuple[float, float]:
    """Both x with (p - x)² = t² x (1 - x) / n."""
    ratio = t.ppf(0.975, degrees) ** 2 / n
    low, high = sorted(np.roots([1 + ratio, -(2 * p + ratio), p * p]).real)
    return max(0.0, low), min(1.0, high)


def bins(answers: pd.DataFrame, n_bins: int = 10) -> pd.DataFrame:
    """One row per (dataset, relation, question) with popularity above 0: its bin, with edges and centre."""
    questions = answers.drop_duplicates(["dataset", "question_id"])
    questions = questions[questions.subject_popularity > 0]
    rows = []
    for (dataset, relation), group in with_all(questions).groupby(["dataset", "relation"]):
        logs = np.log10(group.subject_popularity)
        n = n_bins if logs.max() > logs.min() else 1
        edges = [logs.min() + (logs.max() - logs.min()) * i / n for i in range(n + 1)]
        for question_id, value in zip(group.question_id, logs, strict=True):
            number = n - 1
            while number > 0 and value < edges[number]:
                number -= 1
            low, high = edges[number], edges[number + 1]
            rows.append((dataset, relation, question_id, number, 10**low, 10**high, (low + high) / 2))
    columns = ["dataset", "relation", "question_id", "bin", "bin_low", "bin_high", "bin_center_log10"]
    return pd.DataFrame(rows, columns=columns)


def accuracy_by_popularity(answers: pd.DataFrame) -> pd.DataFrame:
    joined = with_all(answers).merge(bins(answers), on=["dataset", "relation", "question_id"])
    rows = []
    for key, group in joined.groupby([*GROUP, "relation", "bin"]):
        first = group.iloc[0]
        place = (first.bin_low, first.bin_high, first.bin_center_log10)
        rows.append((*key, *place, len(group), *rate(group.is_correct, group)))
    columns = ["bin_low", "bin_high", "bin_center_log10", "n", "accuracy", "ci_low", "ci_high"]
    return pd.DataFrame(rows, columns=[*GROUP, "relation", "bin", *columns])


def correlations(answers: pd.DataFrame) -> pd.DataFrame:
    joined = with_all(answers).merge(bins(answers), on=["dataset", "relation", "question_id"])
    points = joined.groupby([*GROUP, "relation", "bin"]).agg(
        bin_center_log10=("bin_center_log10", "first"), accuracy=("is_correct", "mean")
    )
    curves = {key: group for key, group in points.groupby([*GROUP, "relation"])}
    rows = []
    for key, group in with_all(answers.assign(relation_asked=answers.relation)).groupby([*GROUP, "relation"]):
        known = group[group.subject_popularity > 0]
        logs, right = np.log10(known.subject_popularity), known.is_correct.astype(int)
        curve = curves.get(key, pd.DataFrame(columns=["bin_center_log10", "accuracy"]))
        inside = known[known.relation_asked.notna()] if key[-1] == "all" else known[:0]
        varied = len(known) > 1 and logs.nunique() > 1 and right.nunique() > 1
        rows.append((
            *key, len(known), len(curve),
            stats.pearsonr(curve.bin_center_log10, curve.accuracy)[0]
            if len(curve) >= 3 and curve.accuracy.nunique() > 1 else math.nan,
            stats.pointbiserialr(right, logs)[0] if varied else math.nan,
            stats.spearmanr(known.subject_popularity, right)[0] if varied else math.nan,
            *within_relations(inside.relation_asked, inside.subject_popularity, inside.is_correct),
        ))  # fmt: skip
    names = [
        "n",
        "n_bins",
        "pearson_binned",
        "point_biserial",
        "spearman",
        "point_biserial_within",
        "spearman_within",
    ]
    return pd.DataFrame(rows, columns=[*GROUP, "relation", *names])


def within_relations(relation: pd.Series, popularity: pd.Series, is_correct: pd.Series) -> list[float]:
    """Point-biserial and Spearman correlation of the residuals of regressions on relation dummies; nan if undefined.

    The rank of an answer in its relation counts as a share of the answers there.
    """
    groups = is_correct.astype(float).groupby(relation)
    varies = popularity.groupby(relation).nunique().gt(1).any() and groups.nunique().gt(1).any()
    if not varies:
        return [math.nan, math.nan]
    share = popularity.groupby(relation).transform(lambda values: stats.rankdata(values) / len(values))
    dummies = pd.get_dummies(relation, dtype=float)
    right, logs, ranks = (
        OLS(values, dummies).fit().resid for values in (is_correct.astype(float), np.log10(popularity), share)
    )
    return [stats.pearsonr(right, logs)[0], stats.pearsonr(right, ranks)[0]]


def pairs(answers: pd.DataFrame) -> pd.DataFrame:
    """One row per (pair of methods, question answered by both)."""
    from_memory = answers.method.isin(["closed_book", "genread"])
    parametric = answers[from_memory].rename(columns={"method": "parametric_method"})
    other = answers[~from_memory].rename(columns={"method": "retrieval_method"})
    on = ["dataset", "prompt", "model", "question_id"]
    costs = [name for name in COSTS if name in answers]
    keep = [*on, "retrieval_method", "is_correct", "has_answer", *costs]
    return parametric.merge(other[keep], on=on, suffixes=("", "_retrieval"))


def candidates(rows: pd.DataFrame, everything: pd.DataFrame, search: str) -> list[float]:
    """Thresholds to try, ascending; `rows` are fitted on, `everything` is all rows of the relation."""
    if search == "exact":
        return [*sorted(set(rows.subject_popularity)), math.inf]
    values = everything.subject_popularity
    logs = np.log(values[values > 0])
    edges = (
        [math.exp(logs.min() + (logs.max() - logs.min()) * i / 10) for i in range(10)] if len(logs) else []
    )
    if len(logs) and logs.max() == logs.min():
        edges = [float(values.max())]
    return [
        *sorted({float(values.min()), *edges[1:], float(values[values > 0].min())} if edges else {0.0}),
        math.inf,
    ]


def adaptive_right(rows: pd.DataFrame, threshold: Any) -> int:
    retrieve = rows["subject_popularity"] < threshold
    return int(np.where(retrieve, rows["is_correct_retrieval"], rows["is_correct"]).sum())


def best_threshold(rows: pd.DataFrame, tried: list[float]) -> float:
    """The smallest of the thresholds, which ascend, under which most answers are right."""
    retrieve = rows.subject_popularity.to_numpy()[:, None] < np.array(tried)
    memory, found = (rows[name].to_numpy()[:, None] for name in ("is_correct", "is_correct_retrieval"))
    return tried[int(np.where(retrieve, found, memory).sum(axis=0).argmax())]


def thresholds(answers: pd.DataFrame) -> pd.DataFrame:
    known = pairs(answers).dropna(subset=["subject_popularity"])
    rows = []
    for (*key, relation), group in with_all(known).groupby([*PAIR, "relation"]):
        for search in ("exact", "binned10"):
            best = best_threshold(group, candidates(group, group, search))
            share = (group.subject_popularity < best).mean()
            right = adaptive_right(group, best)
            rows.append((*key, relation, search, best, share, len(group), right / len(group)))
    names = ["relation", "search", "threshold_popularity", "share_retrieved", "n", "accuracy"]
    return pd.DataFrame(rows, columns=[*PAIR, *names])


def training_questions(answers: pd.DataFrame, split: int) -> dict[str, set[str]]:
    """By dataset, the questions that split `split` trains on."""
    known = answers.dropna(subset=["subject_popularity"])
    train = {}
    for dataset, group in known.groupby("dataset"):
        ids = sorted(
            set(group.question_id), key=lambda id_: hashlib.md5(f"{split}:{id_}".encode()).hexdigest()
        )
        train[dataset] = set(ids[: math.floor(0.75 * len(ids) + 0.5)])
    return train


def adaptive_costs(test: pd.DataFrame, limits: Any) -> dict[str, float]:
    """What the test rows took, retrieving below their limits, always and never; NaN where one is not known."""
    found = {}
    for cost in COSTS:
        always, never = test[f"{cost}_retrieval"].to_numpy(float), test[cost].to_numpy(float)
        mixed = np.where(test.subject_popularity < limits, always, never)
        factor, unit = (1, cost) if cost == "single_latency_ms" else (1000, f"{cost}_per_1000")
        for name, values in (("adaptive", mixed), ("always", always), ("never", never)):
            found[f"{unit}_{name}"] = factor * values.mean()
    return found


def split_results(answers: pd.DataFrame, n_splits: int) -> Iterator[dict[str, Any]]:
    """One row per (pair, search, scope, split): accuracies over the pooled test rows."""
    trained = [training_questions(answers, split) for split in range(n_splits)]
    for key, group in pairs(answers).groupby(PAIR):
        known, missing = group.dropna(subset=["subject_popularity"]), group[group.subject_popularity.isna()]
        by_relation = {"all": known, **dict(list(known.groupby("relation")))}
        binned = {relation: candidates(rows, rows, "binned10") for relation, rows in by_relation.items()}

        def best(rows: pd.DataFrame, relation: str, search: str, binned: Any = binned) -> float:
            return best_threshold(
                rows, candidates(rows, rows, search) if search == "exact" else binned[relation]
            )

        for split in range(n_splits):
            is_train = known.question_id.isin(trained[split][key[0]])
            train, test = known[is_train], known[~is_train]
            fixed = (
                "is_correct_retrieval"
                if train.is_correct_retrieval.sum() > train.is_correct.sum()
                else "is_correct"
            )
            for search in ("exact", "binned10"):
                overall = best(train, "all", search)
                own = {relation: best(rows, relation, search) for relation, rows in train.groupby("relation")}
                for scope in ("per_relation", "all"):
                    limits = test.relation.map(own).fillna(overall) if scope == "per_relation" else overall
                    adaptive = adaptive_right(test, limits) / len(test)
                    yield dict(zip(PAIR, key, strict=True)) | {
                        "search": search, "threshold_scope": scope, "accuracy_adaptive": adaptive,
                        "accuracy_always": test.is_correct_retrieval.mean(),
                        "accuracy_never": test.is_correct.mean(),
                        "accuracy_fixed": test[fixed].mean(),
                        "accuracy_best_of_both": (test.is_correct | test.is_correct_retrieval).mean(),
                        "share_retrieved": (test.subject_popularity < limits).mean(),
                        "accuracy_overall": (adaptive * len(known) + missing[fixed].sum()) / len(group),
                        "n_questions": len(known), "n_missing_popularity": len(missing),
                        **adaptive_costs(test, limits),
                    }  # fmt: skip


def adaptive(answers: pd.DataFrame, n_splits: int = 100) -> pd.DataFrame:
    results = pd.DataFrame(split_results(answers, n_splits))
    grouped = results.groupby([*PAIR, "search", "threshold_scope"])
    spread = grouped.accuracy_adaptive
    return (
        grouped.mean()
        .assign(
            n_splits=n_splits,
            sd_over_splits=spread.std(),
            split_low=spread.quantile(0.025),
            split_high=spread.quantile(0.975),
        )
        .reset_index()
    )


def certainty(
    sampled: pd.DataFrame, vectors: dict[tuple[str, str], np.ndarray], n_samples: int, threshold: float
) -> pd.DataFrame:
    """The measures of a question's samples, from all their pairs; NaN where one of `n_samples` is missing."""
    key = ["dataset", "prompt", "question_id", "model"]
    rows = []
    for names, group in sampled.groupby(key):
        n, texts = len(group), list(group.prediction)
        found = [math.nan] * 4
        if n == n_samples:
            cosines = cosine_similarity([vectors[names[-1], text] for text in texts])
            pairs = np.triu_indices(n, 1)
            n_clusters, labels = connected_components(cosines >= threshold)
            found = [cosines[pairs].mean(), np.equal.outer(texts, texts)[pairs].mean(), n_clusters,
                     stats.entropy(np.bincount(labels))]  # fmt: skip
        rows.append((*names, n, texts.count(""), *found))
    measures = ["cert", "identical_samples", "n_clusters", "semantic_entropy"]
    return pd.DataFrame(rows, columns=[*key, "n_samples", "n_empty_samples", *measures])


def assert_equal(actual: pd.DataFrame, expected: pd.DataFrame, key: list[str]) -> None:
    """The same keys, a null of the key agreeing with a null, and every column of `expected` to 1e-9."""
    assert len(actual) == len(expected) > 0
    both = expected.merge(actual, on=key, suffixes=("_expected", ""), how="outer", validate="one_to_one")
    assert len(both) == len(expected)
    for column in (name for name in expected.columns if name not in key):
        got, wanted = (both[name].to_numpy(dtype=float) for name in (column, f"{column}_expected"))
        # Student's quantile in SQL is an expansion.
        off = 1e-7 if column.endswith(("_low", "_high")) else 1e-9
        np.testing.assert_allclose(got, wanted, rtol=off, atol=off, equal_nan=True, err_msg=column)


ACCOUNTS = ["prompt_tokens", "shared_tokens", "new_tokens", "latency_ms", "device_seconds", "cost_usd"]
SPENT = ["device_seconds", "cost_usd"]
GENERATED = ("answers", "paraphrase_answers", "sampled_answers", "generated_passages")


def as_told_by_the_lake(answers: pd.DataFrame, lake: Lake) -> pd.DataFrame:
    """Rows of fct_answers with what their generations took, whoever has them in common."""
    key = ["dataset", "question_id", "model", "method", "prompt"]
    own = lake.read_all("answers", [*key, *ACCOUNTS]).to_pandas()
    return answers.drop(columns=ACCOUNTS).merge(own, on=key, validate="one_to_one")


def with_backgrounds(answers: pd.DataFrame, backgrounds: pd.DataFrame) -> pd.DataFrame:
    """The answers, those of genread with what their background text took on top; `has_background` says which."""
    key = ["dataset", "question_id", "model"]
    written = {tuple(row[name] for name in key): row for row in backgrounds.to_dict("records")}
    rows = []
    for row in answers.to_dict("records"):
        own = written.get(tuple(row[name] for name in key)) if row["method"] == "genread" else None
        sums = {name: row[name] + own[name] for name in ACCOUNTS} if own else {}
        rows.append({**row, **sums, "has_background": own is not None})
    return pd.DataFrame(rows)


def costs(answers: pd.DataFrame, backgrounds: pd.DataFrame) -> pd.DataFrame:
    """Per 1,000 questions, as measured and as estimated had nothing been shared."""
    rows = []
    for key, group in with_backgrounds(answers, backgrounds).groupby(GROUP):
        total = group[ACCOUNTS].sum(skipna=False)
        processed = total.prompt_tokens + total.new_tokens
        ratio = processed / (processed - total.shared_tokens)
        a_thousand = 1000 / len(group)
        rows.append((
            *key, len(group), group.is_reused.sum(), group.has_background.sum(),
            *(a_thousand * total[name] for name in ("prompt_tokens", "shared_tokens", "new_tokens")),
            total.shared_tokens / total.prompt_tokens,
            total.latency_ms / len(group),
            group.single_latency_ms.iloc[0],
            a_thousand * total.device_seconds, a_thousand * total.cost_usd,
            a_thousand * total.device_seconds * ratio,
            a_thousand * total.cost_usd * (ratio if group.device_seconds.notna().any() else 1),
        ))  # fmt: skip
    names = [
        "n", "n_reused", "n_background_texts", "prompt_tokens_per_1000", "shared_tokens_per_1000",
        "new_tokens_per_1000", "share_of_prompt_tokens_shared", "latency_seconds_per_1000", "single_latency_ms",
        "device_seconds_per_1000", "cost_usd_per_1000", "device_seconds_unshared_estimate_per_1000",
        "cost_usd_unshared_estimate_per_1000",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=[*GROUP, *names])


def spent(lake: Lake, tables: Iterable[str], model: str) -> dict[str, float]:
    """What a model's generations took, each once: by one of the partitions that have it, whose rows tell it all."""
    seen: set[tuple[str, str, int]] = set()
    total = dict.fromkeys(SPENT, 0.0)
    for table in tables:
        for partition in lake.partitions(table):
            if partition.split("|")[0] != model:
                continue
            rows = lake.read(table, partition).to_pylist()
            keys = [(row["generated_for"], row["prompt_hash"], row["seed"]) for row in rows]
            for name in SPENT:
                new = [row[name] for key, row in zip(keys, rows, strict=True) if key not in seen]
                total[name] += sum(math.nan if value is None else value for value in new)
            seen.update(keys)
    return total


def medians(times: pd.Series) -> tuple[float, float, float]:
    """A median and its 95 % interval between order statistics, as scipy has it."""
    interval = stats.quantile_test(times, q=0, p=0.5).confidence_interval(0.95)
    return times.median(), interval.low, interval.high


def latencies(lake: Lake) -> pd.DataFrame:
    """fct_latency from single times."""
    key = ["model", "method", "prompt", "device"]
    rows = [
        (*names, len(group), *medians(group.single_latency_ms), group.single_latency_ms.quantile(0.95))
        for names, group in lake.read_all("single_latencies").to_pandas().groupby(key)
    ]
    return pd.DataFrame(rows, columns=[*key, "n", "median_ms", "ci_low", "ci_high", "p95_ms"])


def savings(lake: Lake, adaptive: pd.DataFrame) -> pd.DataFrame:
    """What adaptive retrieval saves one user, for the rows of fct_adaptive_costs whose methods were timed."""
    times = lake.read_all("single_latencies").to_pandas()
    by_way = {key: group for key, group in times.groupby(["model", "prompt", "method"])}
    rows = []
    for row in adaptive.itertuples():
        both = [
            by_way.get((row.model, row.prompt, name))
            for name in (row.parametric_method, row.retrieval_method)
        ]
        if both[0] is None or both[1] is None:
            continue
        pairs = both[0].merge(both[1], on=["dataset", "question_id", "round_number"])
        difference = pairs.single_latency_ms_y - pairs.single_latency_ms_x
        saved = [(1 - row.share_retrieved) * value for value in medians(difference)]
        claim = "saves" if saved[1] > 0 else "takes_longer" if saved[2] < 0 else "undecided"
        names = {name: getattr(row, name) for name in (*PAIR, "search", "threshold_scope")}
        rows.append((*names.values(), len(pairs), *saved, claim))
    columns = [
        "n_timed",
        *(f"single_latency_ms_saved{end}" for end in ("", "_low", "_high")),
        "latency_claim",
    ]
    return pd.DataFrame(rows, columns=[*PAIR, "search", "threshold_scope", *columns])
