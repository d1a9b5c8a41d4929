"""Accuracy by every rule, guessing, the leaderboard and what passages change, a second time, in pandas and numpy.

Written from the definitions of SPEC §6, not from the SQL: plain loops over rows of fct_answers, dim_questions,
dim_passages and dim_entities. Whether one guess is right is asked of longtail/scoring, which scored the answers too.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pandas as pd

from longtail.scoring.match import score_answer
from tests.dbt.recomputation import GROUP, PAIR, design_effect, n_clusters, pairs, rate, wilson, with_all

DECLINING = [
    "n_declined", "share_declined", "share_declined_ci_low", "share_declined_ci_high", "accuracy_attempted",
    "accuracy_attempted_ci_low", "accuracy_attempted_ci_high",
]  # fmt: skip


def declining(group: pd.DataFrame) -> tuple[float, ...]:
    """Declined answers, and the accuracy of the others."""
    attempted = group[~group.is_declined.astype(bool)]
    return (
        len(group) - len(attempted),
        *rate(group.is_declined, group),
        *rate(attempted.is_correct, attempted),
    )


def variants(answers: pd.DataFrame, questions: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by every rule, and the numbers beside it."""
    guesses = guessing(questions).set_index(["dataset", "relation"])
    rows = []
    for key, group in with_all(answers).groupby([*GROUP, "relation"]):
        guess = guesses.loc[(key[0], key[-1])]
        rules = ("is_correct", "is_correct_case_sensitive", "is_correct_normalized", "is_exact_match")
        shares = [value for rule in rules for value in rate(group[rule], group)]
        means = (group.token_f1.mean(), group.rouge_l.mean())
        counts = (len(group), int(group.is_correct.sum()), guess.n)
        rows.append((*key, *counts, *shares, *means, guess.share_answer_in_subject, guess.accuracy_majority,
                     *declining(group)))  # fmt: skip
    names = ["accuracy", "ci_low", "ci_high"]
    for rule in ("case_sensitive", "normalized", "exact_match"):
        names += [f"accuracy_{rule}", f"accuracy_{rule}_ci_low", f"accuracy_{rule}_ci_high"]
    names += ["mean_token_f1", "mean_rouge_l", "share_answer_in_subject", "accuracy_majority", *DECLINING]
    return pd.DataFrame(rows, columns=[*GROUP, "relation", "n", "n_correct", "n_questions", *names])


def guessing(questions: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (dataset, relation), group in questions.groupby(["dataset", "relation"]):
        tally = Counter(label for objects in group.objects for label in set(objects))
        best = min(tally, key=lambda label: (-tally[label], label)) if tally else ""
        asked = zip(group.question_id, group.subject_id, group.subject, group.gold_answers, strict=True)
        for question_id, subject_id, subject, golds in asked:
            in_subject, majority = (score_answer(text, list(golds)).is_correct for text in (subject, best))
            rows.append((dataset, relation, question_id, subject_id, in_subject, majority))
    names = ["dataset", "relation", "question_id", "subject_id", "in_subject", "majority"]
    judged = with_all(pd.DataFrame(rows, columns=names))
    counted = []
    for key, group in judged.groupby(["dataset", "relation"]):
        n, named, common = len(group), int(group.in_subject.sum()), int(group.majority.sum())
        shares = rate(group.in_subject, group), rate(group.majority, group)
        counted.append((*key, n, named, *shares[0], common, *shares[1]))
    names = ["n", "n_answer_in_subject", "share_answer_in_subject", "share_answer_in_subject_ci_low"]
    names += ["share_answer_in_subject_ci_high", "n_correct_majority", "accuracy_majority"]
    names += ["accuracy_majority_ci_low", "accuracy_majority_ci_high"]
    return pd.DataFrame(counted, columns=["dataset", "relation", *names])


def quadrant_intervals(answers: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for key, group in pairs(answers).groupby(PAIR):
        for closed in (True, False):
            for retrieved in (True, False):
                is_in = (group.is_correct == closed) & (group.is_correct_retrieval == retrieved)
                cell = group[is_in]
                known = cell.dropna(subset=["has_answer_retrieval"])
                shares = (*rate(is_in, group), *rate(known.has_answer_retrieval, known))
                rows.append((*key, closed, retrieved, len(group), len(cell), *shares))
    names = ["n_questions", "n", "share", "share_ci_low", "share_ci_high", "recall_at_1"]
    names += ["recall_at_1_ci_low", "recall_at_1_ci_high"]
    return pd.DataFrame(rows, columns=[*PAIR, "parametric_correct", "retrieval_correct", *names])


def passages_by_quadrant(
    answers: pd.DataFrame, passages: pd.DataFrame, entities: pd.DataFrame
) -> pd.DataFrame:
    """Whose passages were read in each quadrant."""
    articles = {row["passage_id"]: row for row in passages.to_dict("records")}
    known = {row["entity_id"]: row for row in entities.to_dict("records")}
    read = answers.assign(
        passage_of=[_about(row, articles.get(row["passage_id"]), known) for row in answers.to_dict("records")]
    )
    on = ["dataset", "prompt", "model", "question_id"]
    from_memory = read.method.isin(["closed_book", "genread"])
    both = read[from_memory].merge(read[~from_memory], on=on, suffixes=("_memory", ""))
    both = both.rename(columns={"method_memory": "parametric_method", "method": "retrieval_method"})
    both = both.rename(columns={"is_correct_memory": "parametric_correct", "is_correct": "retrieval_correct"})
    keys = [*PAIR, "parametric_correct", "retrieval_correct"]
    counted = both.groupby(keys).passage_of.value_counts().unstack(fill_value=0)
    return counted.add_prefix("n_passage_of_").reset_index()


def leaderboard(answers: pd.DataFrame, adaptive: pd.DataFrame) -> pd.DataFrame:
    """Methods, and pairs of fct_adaptive_accuracy; nulls of the key are empty texts here."""
    groups = dict(list(answers.groupby(GROUP)))
    entries = []
    for key, group in groups.items():
        accuracy, low, high = rate(group.is_correct, group)
        ends = {"accuracy": accuracy, "ci_low": low, "ci_high": high}
        entries.append({**dict(zip(GROUP, key, strict=True)), "n": len(group), **ends})
    for row in adaptive[adaptive.threshold_scope == "per_relation"].to_dict("records"):
        n, accuracy = int(row["n_questions"]), row["accuracy_adaptive"]
        retrieval = groups[row["dataset"], row["prompt"], row["model"], row["retrieval_method"]]
        low, high = wilson(
            accuracy, n / design_effect(retrieval.is_correct, retrieval), n_clusters(retrieval) - 1
        )
        ends = {"accuracy": accuracy, "ci_low": low, "ci_high": high}
        entries.append({**row, "method": "adaptive", "n": n, **ends})
    names = ["parametric_method", "retrieval_method", "search"]
    frame = pd.DataFrame(entries).fillna(dict.fromkeys(names, ""))
    is_bound = (frame.method == "oracle") | (frame.retrieval_method == "oracle")
    among = frame.dataset + (frame.method == "adaptive").astype(str)
    ranked = frame.accuracy.round(12).where(~is_bound)
    frame["rank"] = ranked.groupby(among).rank(method="min", ascending=False)
    return frame[[*GROUP, *names, "rank", "n", "accuracy", "ci_low", "ci_high", "gain"]]


def passage_effects(answers: pd.DataFrame, passages: pd.DataFrame, entities: pd.DataFrame) -> pd.DataFrame:
    """One row per (pair of methods, question) with different verdicts; what is unknown is None."""
    articles = {row["passage_id"]: row for row in passages.to_dict("records")}
    known = {row["entity_id"]: row for row in entities.to_dict("records")}
    from_memory = answers.method.isin(["closed_book", "genread"])
    on = ["dataset", "prompt", "model", "question_id"]
    both = answers[from_memory].merge(answers[~from_memory], on=on, suffixes=("_memory", ""))
    rows = []
    for row in both[both.is_correct_memory != both.is_correct].to_dict("records"):
        rows.append((
            row["dataset"], row["prompt"], row["model"], row["method_memory"], row["method"], row["question_id"],
            "rescued" if row["is_correct"] else "misled", row["prediction_memory"], row["prediction"],
            _about(row, articles.get(row["passage_id"]), known),
        ))  # fmt: skip
    names = ["question_id", "effect", "parametric_prediction", "retrieval_prediction", "passage_of"]
    return pd.DataFrame(rows, columns=[*PAIR, *names])


def _about(answer: dict[str, Any], article: dict[str, Any] | None, known: dict[str, Any]) -> str | None:
    if article is None:
        return None
    own_title = known.get(answer["subject_id"], {}).get("article_title")
    if article["entity_id"] == answer["subject_id"]:
        return "subject"
    if article["entity_id"] is None and (own_title is None or article["title"] == own_title):
        return "subject" if own_title else None
    entity = known.get(article["entity_id"], {"label": "", "aliases": []})
    title = article["title"]
    names = {title, re.sub(r"\s*\([^()]*\)$", "", title), title.split(", ")[0], entity["label"]}
    is_namesake = answer["subject"].lower() in {name.lower() for name in (*names, *entity["aliases"])}
    return "namesake" if is_namesake else "other"
