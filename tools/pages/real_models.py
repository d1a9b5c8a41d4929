# ruff: noqa: E501 (sentences of the page)
"""docs/real_models.md and its picture, from the published marts of studies/real_models.yaml.

python -m tools.pages.real_models <home>/real_models/published/warehouse.duckdb
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from longtail.report.figures.memory import ACROSS
from longtail.report.figures.verdicts import ALL_AUROCS, GAIN
from longtail.report.published import list_tables, read_dimensions, read_figure
from longtail.report.report import png, specification
from longtail.storage.home import PROJECT_ROOT
from longtail.warehouse.publication import open_publication

PLACE, PICTURE = "docs/real_models.md", "docs/real_models.png"
_UNKNOWN = "– (– to –)"
_NAMES = {
    "gpt_3_5_turbo": "GPT-3.5 turbo", "llama_3_8b": "Llama 3 8B", "qwen2_5_7b": "Qwen2.5 7B",
    "llama_8b_it": "Llama 8B Instruct", "llama_3_1_8b": "Llama 3.1 8B", "llama_3_70b": "Llama 3 70B",
    "gemma_4_e4b": "Gemma 4 e4b", "gemma_4_12b": "Gemma 4 12B", "gemma_4_12b_abliterated": "Gemma 4 12B, abliterated",
    "gemma_4_26b": "Gemma 4 26B", "gemma_4_31b": "Gemma 4 31B", "mistral_small_24b": "Mistral small 24B",
    "qwen3_6_27b": "Qwen3.6 27B", "selfrag_7b": "Self-RAG 7B", "selfrag_own_7b": "Self-RAG 7B, own training",
    "selfrag_own_qwen2_5_7b": "Self-RAG Qwen2.5 7B, own training", "llama_2_7b": "Llama 2 7B", "gpt_3_5": "GPT-3.5",
    "chatgpt": "ChatGPT", "gpt_4": "GPT-4", "fusion_in_decoder": "Fusion-in-Decoder (DPR)", "new_bing": "New Bing (web search)",
}  # fmt: skip
_VERDICTS = """
select dataset, model, retrieval_method, n, memory_accuracy, memory_ci_low, memory_ci_high, passages_accuracy, passages_ci_low,
    passages_ci_high, either_accuracy, either_ci_low, either_ci_high, popularity_auroc, popularity_auroc_ci_low,
    popularity_auroc_ci_high, best_signal_auroc, best_signal_auroc_ci_low, best_signal_auroc_ci_high, chosen_signals,
    popularity_gain, popularity_gain_ci_low, popularity_gain_ci_high, verdict, best_signal_gain, best_signal_gain_ci_low,
    best_signal_gain_ci_high, best_signal_verdict
from fct_verdicts order by dataset, model, retrieval_method
"""
_QUARTERS = """
select model, dataset, n_parameters, bin, bin_low, bin_high, n, accuracy, ci_low, ci_high, share_declined
from fct_accuracy_by_popularity_quantile inner join dim_models using (model)
where binning = 'quarters' and method = 'closed_book' order by n_parameters, model, dataset, bin
"""
_WITHIN = """
select model, dataset, spearman, spearman_ci_low, spearman_ci_high, spearman_within, spearman_within_ci_low, spearman_within_ci_high
from fct_popularity_correlation where relation = 'all' and method = 'closed_book' and spearman is not null order by dataset, model
"""
_WITHOUT_SIZE = "select model from dim_models where n_parameters is null order by model"
_N_OF_SAMPLE = "select count(*) from dim_questions where dataset = 'popqa_sample'"
_SAMPLED = ("popularity", "confidence", "least_probability", "first_probability", "best_signal")
_SAMPLE = """
select model, signal, n, auroc, auroc_ci_low, auroc_ci_high, verdict from fct_signal_quality
where dataset = 'popqa_sample' and method = 'closed_book'
"""
_HUMANS = """
select model, rule, n, agreement, ci_low, ci_high, n_rule_only, n_verdict_only, accuracy_by_rule, accuracy_by_rule_ci_low,
    accuracy_by_rule_ci_high, accuracy_by_verdict, accuracy_by_verdict_ci_low, accuracy_by_verdict_ci_high, kappa,
    difference, difference_ci_low, difference_ci_high
from fct_rule_agreement where dataset = 'nq_judged' and rule in ('is_correct', 'is_exact_match')
order by accuracy_by_verdict desc, model, rule
"""
_EFFECTS = """
select model, bin, bin_low, bin_high, n, parametric_accuracy, retrieval_accuracy, difference, ci_low, ci_high, effect
from fct_retrieval_effect_by_popularity
where dataset = 'popqa_least_popular' and relation = 'all' and binning = 'deciles' order by model, bin
"""
_BY_RELATION = """
select relation, n, accuracy, ci_low, ci_high from fct_accuracy
where dataset = 'popqa_least_popular' and model = 'selfrag_7b' and method = 'closed_book' and relation != 'all'
order by accuracy desc
"""
_SONGS = """
select quality.model, accuracy.n, accuracy.accuracy, accuracy.ci_low, accuracy.ci_high,
    max(auroc) filter (signal = 'popularity'), max(auroc_ci_low) filter (signal = 'popularity'),
    max(auroc_ci_high) filter (signal = 'popularity'), max(auroc) filter (signal = 'confidence'),
    max(auroc_ci_low) filter (signal = 'confidence'), max(auroc_ci_high) filter (signal = 'confidence'),
    max(auroc) filter (signal = 'popularity_confidence'), max(auroc_ci_low) filter (signal = 'popularity_confidence'),
    max(auroc_ci_high) filter (signal = 'popularity_confidence')
from fct_signal_quality as quality
inner join fct_accuracy as accuracy using (dataset, prompt, model, method)
where dataset = 'songs' and accuracy.relation = 'all'
group by all order by accuracy.accuracy desc
"""
_POPULARITIES = {
    "songs": ("popularity", "occurrence_count", "cooccurrence_count", "leads_subject_articles", "leads_pair_articles"),
    "popqa_500": (
        "popularity", "leads_subject_sentences", "leads_pair_sentences", "leads_subject_articles", "leads_pair_articles",
    ),
}  # fmt: skip
_COUNTED = """
select dataset, signal, model, n, auroc, auroc_ci_low, auroc_ci_high, auroc_within
from fct_signal_quality where method = 'closed_book' and dataset in ('songs', 'popqa_500')
order by all
"""
_CORRELATIONS = """
select dataset, signal, other_signal, n, spearman, spearman_ci_low, spearman_ci_high from fct_popularity_measures
where dataset in ('songs', 'popqa_500')
"""
_ABSTAINING = """
select model, signal, max(n), max(area), max(coverage_at_risk_10), max(coverage_at_risk_20),
    max(coverage) filter (promised_risk <= .1), max(coverage) filter (promised_risk <= .2)
from fct_risk_coverage where dataset = 'songs' and signal in ('popularity', 'confidence')
group by model, signal
"""
_RULES = """
select avg(is_correct::int), (select n_verdict_only from fct_rule_agreement
    where model = 'llama_3_70b' and method = 'closed_book' and rule = 'is_correct'), count(*)
from fct_answers where model = 'llama_3_70b' and method = 'closed_book'
"""
_DECLINED = """
select n_declined, share_declined, accuracy_attempted, accuracy_attempted_ci_low, accuracy_attempted_ci_high
from fct_accuracy where model = 'llama_3_70b' and method = 'closed_book' and relation = 'all'
"""
_PAIRS = """
with fixed as (
    select dataset, model, max(n),
        max(accuracy) filter (policy = 'never') as never, max(ci_low) filter (policy = 'never') as never_low,
        max(ci_high) filter (policy = 'never') as never_high,
        max(accuracy) filter (policy = 'always') as always, max(ci_low) filter (policy = 'always') as always_low,
        max(ci_high) filter (policy = 'always') as always_high,
        max(accuracy) filter (policy = 'oracle') as either, max(ci_low) filter (policy = 'oracle') as either_low,
        max(ci_high) filter (policy = 'oracle') as either_high
    from fct_policies where retrieval_method = 'bm25' group by all
), answers as (
    select dataset, question_id, bool_or(is_correct_normalized) filter (method = 'closed_book') as memory,
        bool_or(is_correct_normalized) filter (method = 'bm25') as passage
    from fct_answers where method in ('closed_book', 'bm25') group by all
), normalised as (
    select dataset, avg(memory::int), avg(passage::int), avg((memory or passage)::int) as either_normalised
    from answers group by dataset
)
from fixed inner join normalised using (dataset) order by dataset
"""
_ARENA = """
select policy, n, accuracy, ci_low, ci_high, share_retrieved, gain, gain_ci_low, gain_ci_high, p_holm
from fct_policies where dataset = 'hotpotqa_test' order by accuracy, policy
"""

QUESTIONS = {
    "Which of these models may I trust on popular facts?": """
select model, dataset, bin_low as popularity_from, bin_high as popularity_to, n, accuracy, ci_low, ci_high
from fct_accuracy_by_popularity_quantile
where method = 'closed_book' and binning = 'quarters' and bin = 3
order by accuracy desc, model
""",
    "Does retrieval hurt GPT-4 anywhere?": """
select verdicts.model, verdicts.dataset, verdicts.retrieval_method, verdicts.verdict, count(bin) as tenths,
    count(*) filter (effect = 'helps') as helps_in, count(*) filter (effect = 'hurts') as hurts_in
from fct_verdicts as verdicts
left join fct_retrieval_effect_by_popularity as effects
    on verdicts.dataset = effects.dataset and verdicts.model = effects.model
    and verdicts.retrieval_method = effects.retrieval_method and relation = 'all' and binning = 'deciles'
where verdicts.model = 'gpt_4' or effects.bin is not null
group by all
order by tenths, verdicts.model
""",
    "What does the mean probability tell for Gemma?": """
select model, signal, n, n_unknown, auroc, auroc_ci_low, auroc_ci_high, verdict
from fct_signal_quality
where model like 'gemma%' and method = 'closed_book' and signal in ('confidence', 'first_probability')
order by signal, model
""",
}  # fmt: skip
"""Questions that one query answers, as a reader may paste it into `make sql`."""


def page(marts: duckdb.DuckDBPyConnection) -> str:
    """The whole page. `marts`: a published warehouse of the study, with its marts in the search path."""
    songs, quarters = marts.sql(_SONGS).fetchall(), marts.sql(_QUARTERS).fetchall()
    remembered = [row for row in quarters if row[:2] == ("llama_3_70b", "popqa_500")]
    pairs, arena = marts.sql(_PAIRS).fetchall(), marts.sql(_ARENA).fetchall()
    ours, only_file, n_asked = marts.sql(_RULES).fetchall()[0]
    n_declined, share_declined, *attempted = marts.sql(_DECLINED).fetchall()[0]
    by_policy = {row[0]: row for row in arena}
    known, least = songs[:-1], songs[-1]
    chosen, always = by_policy["adaptive_rag"], by_policy["always"]
    return "\n".join([
        "# Real models",
        "",
        *wrap(
            "Models that others asked, scored by our rules: `studies/real_models.yaml` imports their published answers",
            "and loads no model. `python -m tools.pages.real_models` with the study's published warehouse writes this page.",
            "Intervals are 95 % intervals over whole subjects.",
        ),
        "",
        "![Above: accuracy against popularity for each model. Below: AUROC of popularity and of the best signal; what a "
        "decision by them gains, held out](real_models.png)",
        "",
        *_verdicts(marts),
        *_questions(marts),
        *_sample(marts, [row for row in quarters if row[1] == "popqa_sample"]),
        *_sizes(marts, quarters),
        *_relations(marts),
        *_effects(marts),
        *_humans(marts),
        "## Which signal tells right answers from wrong ones, on songs?",
        "",
        *wrap(
            f"Three models said who performs each of {songs[0][1]:,} songs. AUROC is the share of pairs of a right and a",
            "wrong answer in which the right one has the higher signal. `confidence` is the geometric mean of the",
            "probabilities that the model gave the tokens of its answer, `popularity` the number of site links of the song,",
            "`both` a regression on the two, fitted on other songs.",
        ),
        "",
        *rows_of(
            ("model", "n", "accuracy", "popularity", "confidence", "both"),
            [[_NAMES[row[0]], f"{row[1]:,}", *(_estimate(row[at : at + 3]) for at in (2, 5, 8, 11))] for row in songs],
        ),
        "",
        *wrap(
            f"**Confidence tells more than popularity for every model: {_range(row[8] for row in songs)} against",
            f"{_range(row[5] for row in songs)}.** With popularity beside it, {_NAMES[least[0]]}, which knows least, goes from",
            f"{_share(least[8])} to {_share(least[11])}; the others change by",
            f"{' and '.join(_signed(row[11] - row[8]) for row in known)}.",
        ),
        "",
        *_abstaining(marts, [row[0] for row in songs]),
        "## Memory and popularity",
        "",
        *wrap(
            f"{_NAMES['llama_3_70b']} answered {n_asked} questions of PopQA from memory. By quarter of popularity (page views):"
        ),
        "",
        *rows_of(
            ("quarter", "popularity", "n", "accuracy", "declined"),
            [
                [
                    str(row[3] + 1), f"{row[4]:,.0f} to {row[5]:,.0f}", str(row[6]), _estimate(row[7:10]), _share(row[10]),
                ]
                for row in remembered
            ],
        ),
        "",
        *wrap(
            f"PopQA's rule calls {_share(ours)} right, the source's own rule {_share(ours + only_file / n_asked)}: the",
            f"{only_file} answers on which they differ are right by the source alone. To {n_declined} questions the model said",
            f'"No idea.", which its prompt allowed ({_share(share_declined)}); of its other answers {_estimate(attempted)} are',
            f"right. The models of the papers had no such way out: beside them, {_share(ours)} is a lower bound.",
        ),
        "",
        *_popularities(marts),
        "## Memory or passage?",
        "",
        *wrap(
            "The same model from memory (`never`) and with retrieved passages (`always`). `either`: the share that one of the",
            "two answers right, which an oracle that picks the right one would reach. In square brackets: by the rule that a",
            "normalised gold answer stands in the answer as whole words.",
        ),
        "",
        *rows_of(
            ("questions", "model", "n", "never", "always", "either"),
            [
                [
                    f"`{row[0]}`", _NAMES[row[1]], str(row[2]),
                    *(f"{_estimate(row[at : at + 3])} [{_share(row[12 + i])}]" for i, at in enumerate((3, 6, 9))),
                ]
                for row in pairs
            ],
        ),
        "",
        *wrap(
            f"**Either is right for {_range(row[9] - max(row[3], row[6]) for row in pairs)} more than the better single",
            "method: here a decision can gain something.** The sources have neither popularity nor confidence for these",
            "questions, so no threshold on them can be fitted.",
        ),
        "",
        "## Policies of others",
        "",
        *wrap(
            "Adaptive-RAG and SeaKR decided the test questions of HotpotQA themselves. Here each decision picks one of the two",
            "answers above; their own answers, after several steps, are others. `seakr_score` retrieves above a threshold on",
            "the score of SeaKR's last step, fitted on other questions. p is corrected by Holm's method.",
        ),
        "",
        *rows_of(
            ("policy", "n", "accuracy", "retrieved", "gain over the better fixed method", "p"),
            [
                [
                    f"`{row[0]}`", str(row[1]), _estimate(row[2:5]), f"{row[5]:.0%}",
                    f"{_signed(row[6])} ({f'{_signed(row[7])} to {_signed(row[8])}' if row[7] is not None else '–'})",
                    "–" if row[9] is None else f"{row[9]:.4f}".removeprefix("0"),
                ]
                for row in arena
            ],
        ),
        "",
        *wrap(
            f"Adaptive-RAG retrieves for {chosen[5]:.0%} and is right for {_share(chosen[2])}; always retrieving is right for",
            f"{_share(always[2])}. SeaKR retrieves for {by_policy['seakr'][5]:.0%}. The oracle retrieves for",
            f"{by_policy['oracle'][5]:.0%} and is right for {_share(by_policy['oracle'][2])}.",
        ),
        "",
        "## What this cannot show",
        "",
        "- Songs are one relation, and were asked from memory alone: nothing is decided there.",
        "- The 70B model's other answers had the fact itself in the prompt (`oracle`): an upper bound, no retrieval.",
        "- Which Llama answered HotpotQA and 2WikiMultihopQA, and what found its passages, the source does not state.",
        "- The passages of Self-RAG and of New Bing are not published: whether they held the answer is not known.",
        "- Three sources state no licence, so what they say of single questions is not exported; rates over them are.",
        "",
    ])  # fmt: skip


def _verdicts(marts: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """The table at the top: one row for each data set and model."""
    yield from (
        "## A verdict for each data set and model",
        "",
        *wrap(
            "From memory, with passages, and right by either of the two; how well popularity, and the best of all known signals,",
            "tell right answers from wrong ones (AUROC; the best signal is chosen on other subjects); and what a threshold on",
            "popularity, and one on the best signal, gains, held out, over the better one of never and always retrieving. Mart",
            "`fct_verdicts`.",
        ),
        "",
        *rows_of(
            ("questions", "model", "n", "memory", "passages", "either", "popularity", "best signal", "gain by popularity", "gain by the best signal"),
            [
                [
                    f"`{row[0]}`", _NAMES[row[1]], f"{row[3]:,}",
                    *(_estimate(row[at : at + 3]) if row[at] is not None else "–" for at in (4, 7, 10, 13)),
                    "–" if row[16] is None else f"{_estimate(row[16:19])}: {row[19]}",
                    _gain(*row[20:24]), _gain(*row[24:]),
                ]
                for row in marts.sql(_VERDICTS).fetchall()
            ],
        ),
        "",
    )  # fmt: skip


def _gain(gain: float | None, low: float | None, high: float | None, verdict: str) -> str:
    return verdict if low is None else f"{verdict}: {_signed(gain)} ({_signed(low)} to {_signed(high)})"


def _sample(marts: duckdb.DuckDBPyConnection, quarters: Sequence[Any]) -> Iterator[str]:
    """Seven models on the same questions of PopQA: accuracy by quarter, and what each signal tells."""
    areas = {row[:2]: row[2:] for row in marts.sql(_SAMPLE).fetchall()}
    accuracies: dict[str, list[Any]] = {}
    for row in quarters:
        accuracies.setdefault(row[0], []).append(row[7:10])
    models = list(accuracies)
    popularity = [areas[model, "popularity"][1] for model in models]
    best = [areas[model, "best_signal"][1] for model in models]
    worse = [
        model for model in models if areas.get((model, "confidence"), ("",))[-1] == "no better than chance"
    ]
    yield from (
        "## Seven models on the same questions",
        "",
        *wrap(
            f"Questions of PopQA (`popqa_sample`), a random {marts.sql(_N_OF_SAMPLE).fetchall()[0][0]} of them, from memory. Accuracy by quarter of popularity, the least popular first, {_n_range(quarters)} questions each:"
        ),
        "",
        *rows_of(
            ("model", "quarter 1", "2", "3", "4"),
            [[_NAMES[model], *map(_estimate, accuracies[model])] for model in models],
        ),
        "",
        "What tells right answers from wrong ones (AUROC, and the number of answers for which it is known):",
        "",
        *rows_of(
            ("model", *(f"`{signal}`" for signal in _SAMPLED)),
            [
                [
                    _NAMES[model],
                    *(
                        f"{_estimate(area[1:4])}, n {area[0]}" if (area := areas.get((model, signal))) else "–"
                        for signal in _SAMPLED
                    ),
                ]
                for model in models
            ],
        ),
        "",
        *wrap(
            f"**The best signal tells more than popularity for each of them: an AUROC of {_range(best)} against",
            f"{_range(popularity)}.** In the most popular quarter they are right for {_range(row[-1][0] for row in accuracies.values())}, in the",
            f"least popular one for {_range(row[0][0] for row in accuracies.values())}. The Gemmas go on after their answer (`Rock`, a line break, `thought`), so",
            "that the probabilities of their later tokens are those of other text: these answers count for the first token alone.",
            *(f"The mean probability of {_NAMES[model]} is no better than chance." for model in worse),
        ),
        "",
    )  # fmt: skip


def _n_range(rows: Sequence[Any]) -> str:
    return " or ".join(str(n) for n in sorted({row[6] for row in rows}))


def _questions(marts: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Questions, each with the query that answers it, its rows, and what they say."""
    yield from (
        "## Three questions, one query each",
        "",
        "`make sql STUDY=studies/real_models.yaml` asks the published warehouse.",
        "",
    )
    for (question, sql), says in zip(QUESTIONS.items(), (_trusted, _hurt, _mean_probability), strict=True):
        found = marts.sql(sql)
        rows = found.fetchall()
        lines = [[_cell(value) for value in row] for row in rows]
        yield from (f"### {question}", "", *(f"    {line}" for line in sql.strip().splitlines()), "")
        yield from (*rows_of([f"`{name}`" for name in found.columns], lines), "", *wrap(says(rows)), "")


def _cell(value: Any) -> str:
    return (
        "–"
        if value is None
        else _share(value)
        if isinstance(value, float) and abs(value) <= 1
        else f"{value:,.0f}"
        if isinstance(value, (int, float))
        else str(value)
    )


def _trusted(rows: Sequence[Any]) -> str:
    sure = [
        f"{_NAMES[row[0]]} (`{row[1]}`, {_estimate(row[5:8])})"
        for row in rows
        if row[6] is not None and row[6] > 0.5
    ]
    return (
        f"Surely right for more than half of the most popular quarter: {' and '.join(sure) or 'none'}. Data sets differ in their "
        "questions and in their measure of popularity: compare models within one of them."
    )


def _hurt(rows: Sequence[Any]) -> str:
    (gpt_4,) = (row for row in rows if row[0] == "gpt_4")
    others = [f"{_NAMES[row[0]]} in {row[6]} of {row[4]} tenths" for row in rows if row[4]]
    return (
        f"For GPT-4 it is {gpt_4[3]}: it was asked from memory alone. New Bing, which answers with GPT-4 and the web, is another "
        "system, and its questions have no popularity. Where one model was asked both ways, its interval is below zero for "
        f"{', '.join(others)} (`oracle` showed the fact itself)."
    )


def _mean_probability(rows: Sequence[Any]) -> str:
    by_verdict: dict[str, list[str]] = {}
    for row in rows:
        if row[1] == "confidence":
            by_verdict.setdefault(row[7], []).append(
                f"{_NAMES[row[0]]} ({_share(row[4]) if row[4] is not None else '–'})"
            )
    first = _range(row[4] for row in rows if row[1] == "first_probability" and row[4] is not None)
    said = "; ".join(f"{verdict}, {' and '.join(names)}" for verdict, names in by_verdict.items())
    return (
        f"By its AUROC, the mean probability (`confidence`) says: {said}. It is unknown for the answers after which a model went on; "
        f"the probability of the first token is known for all, with an AUROC of {first}."
    )


def _sizes(marts: duckdb.DuckDBPyConnection, quarters: Sequence[Any]) -> Iterator[str]:
    """The least and the most popular quarter, by the number of parameters."""
    known = [row for row in quarters if row[2] is not None and row[3] in (0, 3)]
    pairs = list(zip(known[::2], known[1::2], strict=True))
    yield from (
        "## Does size help in the long tail?",
        "",
        *wrap(
            "Accuracy from memory in the least and in the most popular quarter of each data set, for all models whose size is known.",
            f"Left out, because their size is not known: {', '.join(_NAMES[model] for (model,) in marts.sql(_WITHOUT_SIZE).fetchall())}.",
        ),
        "",
        *rows_of(
            ("parameters", "model", "questions", "n", "least popular quarter", "most popular quarter"),
            [
                [
                    f"{least[2] / 1e9:.0f}B", _NAMES[least[0]], f"`{least[1]}`", f"{least[6]:,} and {most[6]:,}",
                    _estimate(least[7:10]), _estimate(most[7:10]),
                ]
                for least, most in pairs
            ],
        ),
        "",
    )  # fmt: skip


def _relations(marts: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Rank correlation of popularity and correctness, over all answers and within relations."""
    rows = marts.sql(_WITHIN).fetchall()
    turned = [row for row in rows if None not in (row[4], row[6]) and row[4] < 0 < row[7]]
    yield from (
        "## Does popularity help, or do relations differ?",
        "",
        *wrap(
            "Spearman's rank correlation of popularity with a right answer from memory: over all answers, which also follows how",
            "difficult the relations are, and within relations. A mixture of relations can turn the sign.",
        ),
        "",
        *rows_of(
            ("questions", "model", "over all answers", "within relations"),
            [
                [f"`{row[1]}`", _NAMES[row[0]], *(_signed_estimate(row[at : at + 3]) for at in (2, 5))]
                for row in rows
            ],
        ),
        "",
        *wrap(
            "It is below zero over all answers, and not within relations, for"
            f" {', '.join(f'{_NAMES[row[0]]} (`{row[1]}`)' for row in turned)}."
            if turned
            else "The sign is turned for no model."
        ),
        "",
    )


def _effects(marts: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Where retrieval helps and hurts: Self-RAG on the least popular subjects of PopQA."""
    rows = marts.sql(_EFFECTS).fetchall()
    relations = marts.sql(_BY_RELATION).fetchall()
    hurts = [row for row in rows if row[10] == "hurts"]
    models = list(dict.fromkeys(row[0] for row in rows))
    yield from (
        "## Where retrieval helps and hurts",
        "",
        *wrap(
            "Self-RAG on all questions of PopQA whose subject has fewer than 100 page views. What its passages add to accuracy, by",
            "tenth of popularity; tenths with the same popularity fall together. Mart `fct_retrieval_effect_by_popularity`.",
        ),
        "",
        *rows_of(
            ("popularity", "n", *(_NAMES[model] for model in models)),
            [
                [
                    f"{low:,.0f} to {high:,.0f}", str(n),
                    *(_signed_estimate(row[7:10]) for row in rows if row[1] == number),
                ]
                for number, low, high, n in dict.fromkeys(row[1:5] for row in rows)
            ],
        ),
        "",
        *wrap(
            *([f"Retrieval hurts {_NAMES[row[0]]} from {row[2]:,.0f} to {row[3]:,.0f}." for row in hurts] or ["Retrieval hurts in none of them."]),
            "Below 100 page views accuracy does not rise with popularity, because relations differ: from memory, Self-RAG 7B is right",
            f"for {_estimate(relations[0][2:5])} of {relations[0][1]} questions of relation {relations[0][0]}, and for",
            f"{_estimate(relations[-1][2:5])} of {relations[-1][1]} of relation {relations[-1][0]}.",
        ),
        "",
    )  # fmt: skip


def _signed_estimate(values: Sequence[Any]) -> str:
    value, low, high = values
    return f"{_signed(value)} ({f'{_signed(low)} to {_signed(high)}' if low is not None else '–'})"


def _humans(marts: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Rules beside the verdicts of humans."""
    rows = marts.sql(_HUMANS).fetchall()
    ours = {row[0]: row for row in rows if row[1] == "is_correct"}
    lost = [row[11] - row[8] for row in ours.values()]
    yield from (
        "## Rules and humans",
        "",
        *wrap(
            "Five systems on Natural Questions, judged by humans (EVOUNA). Containment (`is_correct`, PopQA's rule) and exact match",
            "beside the humans' verdict. Mart `fct_rule_agreement`.",
        ),
        "",
        *rows_of(
            ("system", "rule", "n", "by humans", "by the rule", "error of the rule", "agreement", "only the rule", "only humans", "κ"),
            [
                [
                    _NAMES[row[0]], f"`{row[1]}`", f"{row[2]:,}", _estimate(row[11:14]), _estimate(row[8:11]),
                    _signed_estimate(row[15:18]), _estimate(row[3:6]), str(row[6]), str(row[7]), _share(row[14]),
                ]
                for row in rows
            ],
        ),
        "",
        *wrap(
            f"What containment costs: it calls {_range(lost)} fewer answers right than humans do, and nearly all of its errors are answers",
            "that only humans call right. It costs the most where answers are long and say the",
            "same in other words; the order of the systems stays the same." if _is_same_order(ours.values()) else "same in other words, and it changes the order of the systems.",
        ),
        "",
    )  # fmt: skip


def _is_same_order(rows: Any) -> bool:
    listed = list(rows)
    return sorted(listed, key=lambda row: row[8]) == sorted(listed, key=lambda row: row[11])


def _abstaining(marts: duckdb.DuckDBPyConnection, models: Sequence[str]) -> Iterator[str]:
    """The section on answering or abstaining, by popularity and by confidence."""
    rows = {row[:2]: row[2:] for row in marts.sql(_ABSTAINING).fetchall()}
    yield from (
        "## Answer or abstain?",
        "",
        *wrap(
            "Only songs whose signal is above a threshold are answered. The table has the share of songs that can be answered if at",
            "most 10 or 20 % of the answers may be wrong: on these songs, and promised for new ones like them with a probability of",
            "90 %. A dash: no threshold does that, so the model abstains always. `risk`: the mean share wrong over all thresholds.",
        ),
        "",
        *rows_of(
            ("model, signal", "n", "risk", "10 % wrong", "20 % wrong", "10 % promised", "20 % promised"),
            [
                [
                    f"{_NAMES[model]}, {signal}", f"{rows[model, signal][0]:,}", _share(rows[model, signal][1]),
                    *("–" if one is None else _share(one) for one in rows[model, signal][2:]),
                ]
                for model in models for signal in ("popularity", "confidence")
            ],
        ),
        "",
    )  # fmt: skip
    best = models[0]
    by = {signal: rows[best, signal][3] or 0 for signal in ("popularity", "confidence")}
    yield from (
        *wrap(
            f"**With at most 20 % wrong, {_NAMES[best]} can answer {by['confidence']:.0%} of the songs by its confidence, and",
            f"{by['popularity']:.0%} by popularity.** A model that knows little has nothing to answer under such limits.",
        ),
        "",
    )


def _popularities(marts: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """The section on counts: which one tells right from wrong, and their rank correlations with popularity."""
    areas = {row[:3]: row[3:] for row in marts.sql(_COUNTED).fetchall()}
    ranks = {(row[0], *sorted(row[1:3])): row[3:] for row in marts.sql(_CORRELATIONS).fetchall()}
    models = {name: sorted({key[2] for key in areas if key[0] == name}) for name in _POPULARITIES}
    yield from (
        "## Which popularity?",
        "",
        *wrap(
            "Counts beside popularity: the authors' number of Wikipedia documents with the song (`occurrence_count`) and with",
            "song and performer (`cooccurrence_count`), and how many openings of 10,033 Wikipedia articles have the subject",
            "(`leads_subject_…`) and subject and right answer (`leads_pair_…`) in one sentence or article. AUROC for each model; ρ is Spearman's rank correlation with popularity (songs: site links, PopQA: page views).",
        ),
    )
    for dataset, signals in _POPULARITIES.items():
        yield from (
            "",
            *rows_of(
                (f"`{dataset}`", "n", "ρ with popularity", *(_NAMES[model] for model in models[dataset])),
                [
                    [
                        f"`{signal}`", f"{areas[dataset, signal, models[dataset][0]][0]:,}",
                        _correlation(ranks.get((dataset, *sorted(("popularity", signal))))),
                        *(_estimate(areas[dataset, signal, model][1:4]) for model in models[dataset]),
                    ]
                    for signal in signals if (dataset, signal, models[dataset][0]) in areas
                ],
            ),
        )  # fmt: skip
    own, together = (
        [areas["songs", signal, model][1] for model in models["songs"]]
        for signal in ("popularity", "cooccurrence_count")
    )
    yield from (
        "",
        *wrap(
            f"Co-occurrence has an AUROC of {_range(together)} and site links of {_range(own)}, although co-occurrence knows",
            "the right answer. How often a song's name alone stands in Wikipedia tells much less; many such names are",
            "ordinary words. No count in the openings tells as much as site links or page views.",
        ),
        "",
    )


def _correlation(row: Sequence[Any] | None) -> str:
    if row is None or row[1] is None:
        return "–" if row is None else _UNKNOWN
    return f"{_signed(row[1])} ({_signed(row[2])} to {_signed(row[3])})"


def wrap(*parts: str) -> list[str]:
    return textwrap.wrap(" ".join(parts), 118, break_long_words=False, break_on_hyphens=False)


def rows_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}".replace("0.", ".", 1).replace("-", "−")


def _estimate(values: Sequence[Any]) -> str:
    value, low, high = values
    if value is None:
        return _UNKNOWN
    return f"{_share(value)} ({_share(low)} to {_share(high)})" if low is not None else f"{_share(value)} (–)"


def _range(values: Any) -> str:
    found = sorted(values)
    return f"{_share(found[0])} to {_share(found[-1])}"


_BY_PAGE_VIEWS = ("popqa_sample", "popqa_500", "popqa", "popqa_least_popular")


def picture(published: Path) -> bytes:
    """PNG: accuracy against popularity; below it the AUROC of signals, beside what deciding by them gains."""
    with open_publication(published) as connection:
        tables, dimensions = list_tables(connection), read_dimensions(connection)
        drawn = []
        titles = ("Accuracy against monthly page views, questions of PopQA", ALL_AUROCS.title, GAIN.title)
        for figure, width, title in zip((ACROSS, ALL_AUROCS, GAIN), (1060, 520, 520), titles, strict=True):
            rows = [
                {**row, "system": f"{_NAMES[row['model']]}\n{row['questions_of']}"}
                for row in read_figure(connection, figure, tables).rows
                if figure is not ACROSS or row["questions_of"] in _BY_PAGE_VIEWS
            ]
            assert figure.spec
            spec = specification(figure.spec, rows, dimensions, width)
            config = {**spec.pop("config"), "padding": spec.pop("padding")}
            spec.pop("autosize", None)
            drawn.append({**spec, "title": {"text": title, "anchor": "start", "fontSize": 15, "offset": 12}})
    apart = {"scale": {channel: "independent" for channel in ("color", "shape")}}
    apart["legend"] = apart["scale"]
    below = {"hconcat": drawn[1:], "spacing": 30, "resolve": apart}
    return png({"vconcat": [drawn[0], below], "config": config, "spacing": 30, "resolve": apart})


if __name__ == "__main__":
    place = Path(sys.argv[1])
    with duckdb.connect(str(place), read_only=True) as found:
        found.execute("set search_path = 'marts'")
        (PROJECT_ROOT / PLACE).write_text(page(found), encoding="utf-8")
    (PROJECT_ROOT / PICTURE).write_bytes(picture(place))
