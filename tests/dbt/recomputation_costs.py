"""What generations cost and how long one user waits, a second time: in pandas and scipy, from the lake's rows.

Written from the definitions, not from the SQL: plain loops, no shared code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd
from scipy import stats

from longtail.storage.lake import Lake
from tests.dbt.recomputation import GROUP, PAIR

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
