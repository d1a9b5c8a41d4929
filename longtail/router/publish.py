"""What router files say, from the marts of a published warehouse, and their publication in a folder that appears whole.

A file has one pair of methods. A threshold decides only if its held-out gain is surely above zero: the interval of the
gain excludes it. Otherwise the better fixed method does, always or never retrieving. Confidence or a predicted
probability decides if it is surely better than all of these (`is_surely_better` of fct_adaptive_signals): its features
are dear, since the model answers, or paraphrases and samples too, before each decision. A bound (`oracle`) is no method
to use, and gets no router.

`published/router` is a link to the newest of `published/routers`. It changes in one step, and the previous folder
stays for its readers. All files of a folder are of one publication.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from longtail.progress import Progress
from longtail.router.decisions import (
    ALL,
    CONFIDENCE,
    FEATURES,
    FORMAT,
    POPULARITY,
    VERSION,
    Candidate,
    names_file,
    seal,
)
from longtail.router.service import NAMES
from longtail.study.study import Study
from longtail.warehouse.publication import open_publication, publication_of, publish_folder

_SIGNALS = """
select
    dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope, n_compared, n_splits, accuracy,
    accuracy_always, accuracy_never, accuracy_fixed, share_retrieved, gain, gain_ci_low, gain_ci_high,
    gain_over_popularity_all, gain_over_popularity_all_ci_low, gain_over_popularity_all_ci_high,
    gain_over_popularity_per_relation, gain_over_popularity_per_relation_ci_low,
    gain_over_popularity_per_relation_ci_high, signal_tokens_per_1000, signal_device_seconds_per_1000,
    signal_cost_usd_per_1000, signal_latency_ms
from marts.fct_adaptive_signals
where is_surely_better
order by all
"""
_SIGNAL_RULES = """
select
    rules.* exclude (n_questions)
from marts.fct_adaptive_signal_rules as rules
inner join marts.fct_adaptive_signals as signals
    using (dataset, prompt, model, parametric_method, retrieval_method, signal, threshold_scope)
where signals.is_surely_better
order by all
"""
_COUNTED = {"n": "", "n_with": "_with", "n_without": "_without"}
_HAS_RELATION = ("popularity_relation", "popularity_confidence", "all")


def prediction_fields(signals: Sequence[Row], rules: Sequence[Row]) -> Row:
    """Fields `signal`, `features` and `prediction` of a router; none if no signal beside popularity is surely better.

    `signals`: those that are. The most accurate one is chosen; among equals one that costs no tokens, then one with a
    single threshold.
    """
    if not signals:
        return {}
    best = max(
        signals,
        key=lambda row: (row["accuracy"], not row["signal_tokens_per_1000"], row["threshold_scope"] == "all"),
    )
    policy = (best["signal"], best["threshold_scope"])
    mine = [row for row in rules if (row["signal"], row["threshold_scope"]) == policy]
    first = mine[0]
    uses_relation = best["signal"] in _HAS_RELATION or best["threshold_scope"] == "per_relation"
    return {
        "signal": best["signal"],
        "features": [*first["predictor_names"], *(["relation"] if uses_relation else [])],
        "prediction": {
            "why": _explain(best),
            "held_out": best,
            "signal_prompt": first["signal_prompt"],
            "predictors": first["predictor_names"],
            "means": first["predictor_means"],
            "deviations": first["predictor_deviations"],
            "rules": {row["relation"]: _prediction_rule(row) for row in mine},
        },
    }


def _explain(best: Row) -> str:
    gains = (
        (name, *(100 * best[f"{column}{end}"] for end in ("", "_ci_low", "_ci_high")))
        for name, column in (
            ("always or never", "gain"),
            ("one threshold on popularity", "gain_over_popularity_all"),
            ("thresholds per relation", "gain_over_popularity_per_relation"),
        )
    )
    said = "; ".join(
        f"over {name} {gain:+.1f} points ({low:+.1f} to {high:+.1f})" for name, gain, low, high in gains
    )
    what = "confidence" if best["signal"] == "confidence" else "the predicted probability"
    return f"{what} is surely better than what needs no prediction: held-out gain {said}"


def _prediction_rule(row: Mapping[str, Any]) -> Row:
    rule: Row = {
        "coefficients": row["rule_coefficients"],
        **{
            side: _segment([{name: row[f"n_{side}{part}"] for name, part in _COUNTED.items()}])
            for side in ("below", "above")
        },
    }
    if math.isfinite(row["threshold_probability"]):  # else always: every probability is below infinity
        rule["threshold_probability"] = row["threshold_probability"]
    return rule


Row = dict[str, Any]
Pair = tuple[str, ...]
"""dataset, prompt, model, parametric_method, retrieval_method: the name of a router, and of its file."""

_PAIR = ("dataset", "prompt", "model", "parametric_method", "retrieval_method")
_OF_PAIR = ("n_questions", "n_missing_popularity")  # the same in all gains of a pair
_SCOPES = {"per_relation": FEATURES, ALL: FEATURES[:1]}
"""By policy: what it decides by. The fixed policies, always and never, need nothing."""

_GAINS = """
select
    gains.dataset, gains.prompt, gains.model, gains.parametric_method, gains.retrieval_method,
    gains.n_questions, gains.n_missing_popularity, gains.threshold_scope, gains.n_splits, gains.accuracy_adaptive,
    gains.accuracy_always, gains.accuracy_never, gains.accuracy_fixed, gains.share_retrieved,
    gains.gain, gains.gain_ci_low, gains.gain_ci_high, gains.gain_ci_undefined
from marts.fct_adaptive_accuracy as gains
inner join marts.dim_methods as methods on gains.retrieval_method = methods.method
where gains.search = 'exact' and not methods.is_bound
order by all
"""
_THRESHOLDS = """
select dataset, prompt, model, parametric_method, retrieval_method, relation, decision, threshold_popularity
from marts.fct_adaptive_thresholds where search = 'exact'
"""
_COUNTS = f"""
with thresholds as ({_THRESHOLDS}),
pairs as (
    select
        memory.dataset, memory.prompt, memory.model, memory.method as parametric_method,
        retrieval.method as retrieval_method, memory.relation, memory.subject_popularity as popularity,
        memory.is_correct as is_right_without, retrieval.is_correct as is_right_with
    from marts.fct_answers as memory
    inner join marts.fct_answers as retrieval using (dataset, prompt, model, question_id)
    inner join marts.dim_methods as ours on memory.method = ours.method and ours.is_parametric
    inner join marts.dim_methods as theirs on retrieval.method = theirs.method and not theirs.is_parametric
)
select
    {", ".join(f"pairs.{name}" for name in _PAIR)}, pairs.relation,
    pairs.popularity is not null as has_popularity,
    coalesce(pairs.popularity < own.threshold_popularity, false) as is_below_own,
    coalesce(pairs.popularity < overall.threshold_popularity, false) as is_below_all,
    count(*) as n,
    count(*) filter (where is_right_with) as n_with,
    count(*) filter (where is_right_without) as n_without
from pairs
left join thresholds as own using ({", ".join(_PAIR)}, relation)
left join (from thresholds where relation = '{ALL}') as overall using ({", ".join(_PAIR)})
group by all
"""  # noqa: S608
_PROMISES = """
select
    risks.dataset, risks.prompt, risks.model, risks.method as parametric_method, methods.method as retrieval_method,
    risks.signal, risks.promised_risk, risks.threshold, risks.n_answered, risks.n_wrong
from marts.fct_risk_coverage as risks
inner join marts.dim_methods as methods
    on (risks.signal = 'confidence' and risks.fallback_method = methods.method)
    or (risks.signal = 'popularity' and risks.fallback_method is null and not methods.is_parametric)
where risks.promised_risk is not null
order by risks.coverage_step
"""
_MODELS = "select model, family, revision, dtype, quantisation, engine from marts.dim_models"
_DATASETS = "select dataset, source, snapshot from marts.dim_datasets"
_POPULARITY = "select distinct measure, n_months, first_month, last_month, redirects from marts.dim_datasets"


_OF_PAIRS = {
    "gains": _GAINS, "thresholds": _THRESHOLDS, "counts": _COUNTS, "signals": _SIGNALS, "signal_rules": _SIGNAL_RULES,
    "promises": _PROMISES,
}  # fmt: skip
Marts = Mapping[str, Any]
"""What routers are made from: the rows of each pair of methods, by the names in `_OF_PAIRS`; `models` and `datasets`, by
name; and `popularity`, its measure and months, the same for all datasets."""


def read_marts(connection: duckdb.DuckDBPyConnection) -> Marts:
    """The rows of an opened published warehouse."""
    return {
        **{name: _by_pair(_rows(connection, query)) for name, query in _OF_PAIRS.items()},
        "models": {row.pop("model"): row for row in _rows(connection, _MODELS)},
        "datasets": {row.pop("dataset"): row for row in _rows(connection, _DATASETS)},
        "popularity": _rows(connection, _POPULARITY)[0],
    }


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    return connection.execute(query).to_arrow_table().to_pylist()


def _by_pair(rows: Iterable[Row]) -> dict[Pair, list[Row]]:
    by_pair: dict[Pair, list[Row]] = {}
    for row in rows:
        by_pair.setdefault(tuple(row.pop(name) for name in _PAIR), []).append(row)
    return by_pair


def documents(marts: Marts, warehouse: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    """The name and fields of every router. `warehouse`: what it was published from, for `fitted_on`."""
    for pair, gains in marts["gains"].items():
        named = dict(zip(_PAIR, pair, strict=True))
        fitted_on = {
            **warehouse,
            "dataset": marts["datasets"][named["dataset"]],
            "model": marts["models"][named["model"]],
            "popularity": marts["popularity"],
            **{name: gains[0][name] for name in _OF_PAIR},
        }
        decided = _decide(gains, marts["thresholds"].get(pair, ()), marts["counts"][pair])
        predicted = prediction_fields(marts["signals"].get(pair, ()), marts["signal_rules"].get(pair, ()))
        steps = marts["promises"].get(pair, ())
        promises = {
            signal: [row for row in steps if row["signal"] == signal] for signal in (CONFIDENCE, POPULARITY)
        }
        fields = {
            **named,
            "signal": POPULARITY,
            **decided,
            **predicted,
            "promises": promises,
            "fitted_on": fitted_on,
        }
        yield ".".join(pair), fields


def _decide(gains: Sequence[Row], thresholds: Sequence[Row], counts: Sequence[Row]) -> Row:
    """Policy, rules and gains of one pair. Questions without popularity count only if no question has one."""
    counts = [row for row in counts if row["has_popularity"]] or counts
    overall = _segment(counts)
    fixed = "always" if overall["accuracy_with"] > overall["accuracy_without"] else "never"
    policy, why = _policy(gains, fixed, overall)
    return {
        "features": _SCOPES.get(policy, ()),
        "policy": policy,
        "why": why,
        "fixed": fixed,
        "gains": [{name: value for name, value in row.items() if name not in _OF_PAIR} for row in gains],
        "rules": _rules(policy, {row["relation"]: row for row in thresholds}, counts),
    }


def _policy(gains: Sequence[Row], fixed: str, overall: Row) -> tuple[str, str]:
    """The scope of thresholds with the highest held-out accuracy among those that surely gain, or the fixed method."""
    sure = [row for row in gains if row["gain_ci_low"] is not None and row["gain_ci_low"] > 0]
    if not sure:
        said = "; ".join(f"{row['threshold_scope']}: {_gain(row)}" for row in gains)
        return fixed, (
            f"{fixed} retrieve: {overall['accuracy_with']:.1%} of the answers are right with retrieval,"
            f" {overall['accuracy_without']:.1%} without, and no threshold is surely better ({said})"
        )
    best = max(sure, key=lambda row: (row["accuracy_adaptive"], row["threshold_scope"] == ALL))
    why = f"thresholds are surely better than always or never retrieving: {_gain(best)}"
    return str(best["threshold_scope"]), why


def _gain(row: Row) -> str:
    if row["gain_ci_low"] is None:
        return f"no interval, because {row['gain_ci_undefined']}"
    low, high = (f"{100 * row[name]:+.1f}" for name in ("gain_ci_low", "gain_ci_high"))
    return f"held-out gain {100 * row['gain']:+.1f} points, 95 % interval {low} to {high}"


def _rules(policy: str, thresholds: Mapping[str, Row], counts: Sequence[Row]) -> dict[str, Row]:
    """The rule for all relations, and one for each relation that the questions have."""
    if policy not in _SCOPES:
        thresholds = {}
    rules = {ALL: _rule(policy, thresholds.get(ALL), counts, "is_below_all")}
    for relation in sorted({row["relation"] for row in counts if row["relation"] is not None}):
        scope, side = (relation, "is_below_own") if policy == "per_relation" else (ALL, "is_below_all")
        if scope in thresholds or not thresholds:  # else the rule for all decides
            mine = [row for row in counts if row["relation"] == relation]
            rules[relation] = _rule(policy, thresholds.get(scope), mine, side)
    return rules


def _rule(policy: str, threshold: Row | None, counts: Sequence[Row], side: str) -> Row:
    """As in the marts, the threshold of decision `never` is the lowest popularity: only a rarer subject is below it."""
    rule = {"decision": threshold["decision"] if threshold else policy, "overall": _segment(counts)}
    if threshold and math.isfinite(threshold["threshold_popularity"]):
        rule["threshold_popularity"] = threshold["threshold_popularity"]
        rule["below"] = _segment([row for row in counts if row[side]])
        rule["above"] = _segment([row for row in counts if not row[side]])
    return rule


def _segment(counts: Sequence[Row]) -> Row:
    """Right answers with and without retrieval on the same questions."""
    n = sum(row["n"] for row in counts)
    rates = {name: sum(row[f"n_{name}"] for row in counts) / n if n else None for name in ("with", "without")}
    return {"n": n, "accuracy_with": rates["with"], "accuracy_without": rates["without"]}


_BATCH = 10_000  # entities read at once


@dataclass(frozen=True)
class RouterReport:
    """The published folder, the policy of each router by its name, and the number of names."""

    path: Path
    invocation_id: str
    policies: Mapping[str, str]
    n_names: int


def publish_routers(study: Study, log: logging.Logger) -> RouterReport:
    """Publish the routers and names of the study's published warehouse to `published/router`.

    Errors: `PublishError` if nothing is published yet or the disk fails. The previous routers then stay.
    """
    published, target = study.home.published_warehouse, study.home.published_router
    with Progress(log, "publication of routers"), open_publication(published) as connection:
        publication = publication_of(connection)
        warehouse = {
            "study": publication.study,
            "published_at": publication.published_at.isoformat(),
            "invocation_id": publication.invocation_id,
            "code_version": publication.code_version,
        }
        marts = read_marts(connection)
        routers = dict(documents(marts, warehouse))
        about = {**warehouse, "popularity": marts["popularity"]}
        content, n_names = names_file(_entities(connection), about)
    publish_folder(target, publication, "longtail.router", lambda folder: _write(folder, routers, content))
    policies = {name: str(router["policy"]) for name, router in routers.items()}
    log.info("published %d routers and %d names to %s", len(policies), n_names, target)
    return RouterReport(target, publication.invocation_id, policies, n_names)


def _write(folder: Path, routers: Mapping[str, Row], names: bytes) -> None:
    folder.mkdir()
    for name, fields in routers.items():
        (folder / f"{name}.json").write_bytes(seal(FORMAT, VERSION, fields, indent=1))
    (folder / NAMES).write_bytes(names)
    for file in folder.iterdir():
        file.chmod(0o444)


def _entities(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Candidate, list[str]]]:
    result: Any = connection.execute(
        "select entity_id, label, description, popularity, aliases from marts.dim_entities"
    )
    while rows := result.fetchmany(_BATCH):
        for *values, aliases in rows:
            yield Candidate(*values), aliases
