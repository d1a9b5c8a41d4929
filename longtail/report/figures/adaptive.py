"""Figures of adaptive retrieval: accuracy, thresholds, how well each signal tells right from wrong; latency and cost."""

from __future__ import annotations

from longtail.report.figure import Figure, bounds
from longtail.report.marks import (
    METHODS,
    categories,
    curves_in_panels,
    difference_x,
    names,
    panels,
    points,
    points_in_rows,
    popularity_x,
    quantity,
    relation_cells,
    relation_dots,
    series,
    share_y,
    value_x,
)

_SIGNALS = ["popularity", "confidence", "popularity_relation", "popularity_confidence", "consistency", "all"]
_OVER_ALL, _OVER_OWN = "gain_over_popularity_all", "gain_over_popularity_per_relation"

SIGNALS = Figure(
    key="adaptive_signals",
    title="Popularity, confidence, prediction, or both?",
    shows="Held-out gain over the better of always and never retrieving, if a passage is read where a signal is below "
    "its threshold. `popularity` is the signal of the figures above, `confidence` the mean probability of the tokens of "
    "the answer from memory. The others predict whether this answer is right: from popularity and relation, from these "
    "and confidence, from the consistency of the model's answers to paraphrases and samples, or from these, popularity "
    "and relation (`all`). All are fitted on the same training questions and scored on the same held-out ones. Bars are "
    "95 % intervals from a paired bootstrap over whole subjects. The table has the gain over thresholds on popularity, "
    "and the costs: what must be answered before a decision counts, be it paraphrases and samples or, for its "
    "confidence, the question from memory.",
    source="PopQA-TP; SPEC §7, retrieval by prediction; §11, deciding by a signal",
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, threshold_scope, signal, n_compared,
    accuracy, gain, gain_ci_low, gain_ci_high, share_retrieved, {_OVER_ALL}, {_OVER_ALL}_ci_low, {_OVER_ALL}_ci_high,
    {_OVER_OWN}, {_OVER_OWN}_ci_low, {_OVER_OWN}_ci_high, signal_tokens_per_1000,
    signal_device_seconds_per_1000, device_seconds_per_1000, cost_usd_per_1000,
    coalesce(undefined, gain_ci_undefined) as undefined
from marts.fct_adaptive_signals
order by dataset, prompt, model, retrieval_method, threshold_scope <> 'per_relation',
    list_position({_SIGNALS}, signal)""",  # noqa: S608
    spec=points_in_rows(
        "retrieval_method",
        difference_x("gain", "held-out gain", 5),
        "model",
        categories("signal", "signal", _SIGNALS),
        interval=bounds("gain"),
        side_by_side=True,
        mark_at=0,
        least=270,
        step=80,
    ),
    choose=("parametric_method", "threshold_scope"),
)

_MEASURED = ["popularity", "site_links", "confidence", "least_probability", "first_probability", "first_margin",
             "mean_entropy", "scons", "cert", "popularity_confidence"]  # fmt: skip

QUALITY = Figure(
    key="signal_quality",
    title="Which signal tells right answers from wrong ones?",
    shows="AUROC of each signal: the share of pairs of a right and a wrong answer in which the right one has the "
    "higher signal. A signal that says nothing has one half. `confidence` is the mean probability that the "
    "model gave the tokens of its own answer; `scons` and `cert` compare its answers to paraphrases and "
    "samples. `popularity_confidence` combines popularity, confidence and relation, fitted on other subjects. "
    "Counts with `pair` in their name have the subject and a right answer in one sentence, passage or article: "
    "no decision can know them. Bars are 95 % intervals over whole subjects. The table has the AUROC within "
    "relations, where knowing which relations are easy does not help.",
    source="SPEC §11",
    sql=f"""select dataset, prompt, model, method, signal, n, n_correct / n as accuracy, auroc,
    auroc_ci_low, auroc_ci_high, auroc_within, average_precision, brier, calibration_error, no_interval
from marts.fct_signal_quality
order by dataset, prompt, model, method, list_position({_MEASURED}, signal), signal""",  # noqa: S608
    spec=points_in_rows(
        "method",
        value_x("auroc"),
        "signal",
        series("model"),
        interval=bounds("auroc"),
        side_by_side=True,
        least=330,
        step=60,
    ),
)

_KINDS = ["never or always", "decides", "cannot be exceeded"]

ARENA = Figure(
    key="policies",
    title="Which policy, and how near to the best choice?",
    shows="Accuracy of each policy, one line each. The oracle retrieves where memory is wrong and "
    "the passage helps: no policy can exceed it. Thresholds are held-out; policies of others decide as their files say. "
    "Bars are 95 % intervals over whole subjects. The table has the gain over the better one of never and always, its "
    "interval with the variance of the fits, the part of the way from there to the oracle, p after Holm's "
    "correction, and the share of questions for which it retrieves.",
    source="SPEC §11",
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, policy,
    case policy when 'oracle' then '{_KINDS[2]}' when 'never' then '{_KINDS[0]}' when 'always' then '{_KINDS[0]}'
        else '{_KINDS[1]}' end as kind,
    n, accuracy, ci_low, ci_high,
    share_retrieved, cost_usd_per_1000, gain, gain_ci_low, gain_ci_high, gap_share, gap_ci_low, gap_ci_high, p_holm,
    coalesce(no_interval, no_gain_interval, no_gap_interval) as no_interval
from marts.fct_policies
order by dataset, prompt, model, retrieval_method, accuracy desc, policy""",  # noqa: S608
    spec=points_in_rows(
        "retrieval_method", value_x("accuracy"), "policy", categories("kind", None, _KINDS), least=230
    ),
    choose=("parametric_method", "model"),
)

_DRAWN = ["popularity", "confidence", "popularity_confidence", "scons", "cert"]

RISK_COVERAGE = Figure(
    key="risk_coverage",
    title="How many answers are wrong if the uncertain ones are not given?",
    shows="Risk, the share of wrong answers among those that are given, against coverage, the share of questions that "
    "are answered: first those with the highest signal, at the right all of them. Where two methods stand, memory "
    "answers if its confidence is above the threshold, else the passage's answer is given if its own is, else none. "
    "Bands are 95 % intervals of whole subjects. The table has the greatest coverage with at most 5, 10 and 20 % "
    "wrong among these answers, and what a threshold promises for new questions of the same mixture.",
    source="SPEC §11; Learn then Test",
    sql=f"""select dataset, prompt, model, method || coalesce(', else ' || fallback_method, '') as answers, signal, n,
    n_answered, coverage, risk, risk_ci_low, risk_ci_high, threshold, promised_risk, coverage_at_risk_5,
    coverage_at_risk_10, coverage_at_risk_20, area, excess_area
from marts.fct_risk_coverage
where signal in {tuple(_DRAWN)}
order by dataset, prompt, model, method, fallback_method nulls first, list_position({_DRAWN}, signal), coverage_step""",  # noqa: S608
    spec=curves_in_panels(
        "model",
        share_y("coverage", "coverage"),
        share_y("risk", "risk"),
        categories("signal", "signal", _DRAWN),
        interval=bounds("risk"),
        least=220,
    ),
    choose=("answers",),
)


_POLICIES = ["never", "always", "adaptive", "best of both"]
_VARIANT = "if(threshold_scope = 'all', 'one threshold', 'per relation') || ', ' || search"
_VARIANT_ORDER = "search <> 'exact', threshold_scope <> 'per_relation'"

ACCURACY = Figure(
    key="adaptive_accuracy",
    title="Adaptive retrieval against always and never",
    shows="Accuracy on held-out questions, means over random splits (75 % fit the thresholds, 25 % are scored). `best "
    "of both` counts a question as right if one of the two answers is right: no policy can exceed it. The bar on "
    "`adaptive` spans the central 95 % of splits. It is their spread, not a confidence interval. The table has the gain "
    "of each search over these splits, with the interval of a bootstrap over whole subjects; the gain that the report "
    "speaks of is that of the figure `What deciding when to retrieve gains`.",
    source="PopQA, Figures 9 and 12",
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, {_VARIANT} as variant, policy,
    n_questions, n_splits, policies.accuracy, splits.* exclude (decides)
from marts.fct_adaptive_accuracy
cross join lateral (
    from (values ('never', accuracy_never), ('always', accuracy_always), ('adaptive', accuracy_adaptive),
        ('best of both', accuracy_best_of_both)) as values_of (policy, accuracy)
) as policies
left join lateral (
    select 'adaptive' as decides, split_low, split_high, share_retrieved, gain, gain_ci_low, gain_ci_high,
        gain_ci_undefined
) as splits on policies.policy = splits.decides
where policies.accuracy is not null
order by dataset, prompt, model, retrieval_method, {_VARIANT_ORDER}, policy""",  # noqa: S608
    labels={"accuracy": "accuracy (spread of splits)", "gain": "gain over these splits"},
    spec=panels(
        "retrieval_method",
        points(
            names("model", labelAngle=-35, labelAlign="right"),
            share_y("accuracy", "accuracy, held out"),
            categories("policy", "policy", _POLICIES),
            interval=("split_low", "split_high"),
            side_by_side=True,
        ),
        least=270,
        ratio=0.85,
    ),
    choose=("parametric_method", "variant"),
)

THRESHOLDS = Figure(
    key="adaptive_thresholds",
    title="Where the thresholds are",
    shows="Adaptive retrieval retrieves for questions below their threshold and trusts memory for the others. The "
    "thresholds are fitted on all questions with both answers (search `exact`). A point at the right edge of a panel "
    "means that nearly all questions get a passage, at the left edge nearly none. Pairs that give all questions a "
    "passage, or none, have no point; the table says `always` or `never`, and which thresholds are chosen on fewer than "
    "20 questions. A question without a relation takes the threshold for all.",
    source="PopQA, section 6.1",
    sql="""select dataset, prompt, model, parametric_method, retrieval_method, relation, n,
    if(is_chosen_on_few, 'fewer than 20 questions', null) as few,
    case when decision = 'below' then threshold_popularity end as threshold_popularity,
    if(decision = 'below', 'below the threshold', decision) as retrieves, share_retrieved,
    accuracy, accuracy_always, accuracy_never
from marts.fct_adaptive_thresholds
where search = 'exact'
order by dataset, prompt, model, retrieval_method, relation""",
    labels={"share_retrieved": "retrieved, in sample", "accuracy": "accuracy, in sample", "few": "chosen on"},
    spec=relation_dots(
        "retrieval_method", popularity_x("threshold_popularity", {"$label": "threshold"}), least=270
    ),
    choose=("parametric_method",),
)

USAGE = Figure(
    key="share_retrieved",
    title="How often adaptive retrieval retrieves",
    shows="Share of held-out questions for which adaptive retrieval retrieves, means over splits, by relation and model.",
    source="PopQA, Figures 10 and 15",
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, {_VARIANT} as variant, relation, n,
    n_splits, share_retrieved, accuracy_adaptive, undefined
from marts.fct_adaptive_usage
order by dataset, prompt, model, retrieval_method, {_VARIANT_ORDER}, relation""",  # noqa: S608
    labels={"accuracy_adaptive": "accuracy"},
    spec=relation_cells("retrieval_method", "share_retrieved", "share retrieved"),
    choose=("parametric_method", "variant"),
)


_PRICED = _POLICIES[:3]
_CLAIMS = ["saves", "undecided", "takes_longer"]


def _amount(field: str, title: str, **axis: str) -> dict[str, object]:
    return quantity(field, title, {"grid": True, "tickCount": 4, "labelOverlap": True, **axis})


LATENCY = Figure(
    key="latency",
    title="How long one user waits",
    shows="Median time of one answer, from up to 50 questions that the model was asked one at a time, with nothing "
    "shared. All methods answered a question before the next one was asked. The search for the passage is not "
    "included. Bars are 95 % intervals of the median, between order statistics. The figure `Does adaptive "
    "retrieval save a user's time?` compares methods question by question. Models were timed at different moments.",
    source="PopQA, Figure 11",
    sql="""select prompt, model, method, device, n, median_ms, ci_low, ci_high, p95_ms, is_interleaved
from marts.fct_latency
order by prompt, model, method, device""",
    spec=points_in_rows(
        "model", _amount("median_ms", "milliseconds per question"), "method", METHODS, least=215, step=34
    ),
    choose=("prompt",),
)

SAVED = Figure(
    key="latency_saved",
    title="Does adaptive retrieval save a user's time?",
    shows="Milliseconds that one waiting user saves compared with always retrieving: the median difference of the two "
    "methods on the same question, times the share of questions that need no passage. Bars are 95 % intervals "
    "of that median, between order statistics. A saving or a loss is claimed only if the interval excludes zero and "
    "the methods were asked in turn; otherwise it is undecided. `n timed` counts the questions that both methods were "
    "asked, `n reused` the answers of both methods that came from the row cache.",
    source="PopQA, Figure 11",
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, {_VARIANT} as variant, n_questions,
    n_reused, n_timed, share_retrieved, single_latency_ms_never, single_latency_ms_always, single_latency_ms_adaptive,
    single_latency_ms_saved, single_latency_ms_saved_low, single_latency_ms_saved_high, latency_claim
from marts.fct_adaptive_costs
where single_latency_ms_saved is not null
order by dataset, prompt, model, retrieval_method, {_VARIANT_ORDER}""",  # noqa: S608
    spec=points_in_rows(
        "retrieval_method",
        _amount("single_latency_ms_saved", "milliseconds saved per question"),
        "model",
        categories("latency_claim", "claim", _CLAIMS),
        interval=("single_latency_ms_saved_low", "single_latency_ms_saved_high"),
        mark_at=0,
        least=270,
        step=40,
    ),
    choose=("parametric_method", "variant"),
)

COST = Figure(
    key="cost",
    title="Cost per thousand questions",
    shows="US dollars per thousand questions: the price of the tokens for a service, or the time on the device at its "
    "price per hour, from study.yaml or the price list. Methods without a price are left out. Each method counts as "
    "if it ran alone. Reused answers (`n reused`, of both methods) count with the cost of their first computation. "
    "Time on a device is measured once, in batches that ran one after another: a saving is claimed only if the "
    "previous figure agrees.",
    source="PopQA, Figures 11 and 12",
    sql=f"""with policies as (
    unpivot (
        select *, cost_usd_per_1000_never as never, cost_usd_per_1000_adaptive as adaptive,
            cost_usd_per_1000_always as "always"
        from marts.fct_adaptive_costs
    ) on never, adaptive, "always" into name policy value amount
)
select dataset, prompt, model, parametric_method, retrieval_method, {_VARIANT} as variant, policy, n_questions, n_reused,
    amount, case when policy = 'adaptive' then cost_usd_per_1000_saved end as saved,
    case when policy = 'adaptive' then share_retrieved end as share_retrieved
from policies
where amount is not null
order by dataset, prompt, model, retrieval_method, {_VARIANT_ORDER}, policy""",  # noqa: S608
    spec=panels(
        "retrieval_method",
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "y": names("model"),
                "yOffset": {"field": "policy", "type": "nominal", "scale": {"domain": _PRICED}},
                "x": _amount("amount", "USD per 1,000 questions", format=".2~r"),
                "color": categories("policy", "policy", _PRICED),
            },
        },
        least=270,
        rows="model",
        step=64,
    ),
    choose=("parametric_method", "variant"),
)

TOKENS = Figure(
    key="tokens",
    title="Tokens, time and money by method",
    shows="Tokens, time and cost per thousand questions if each method ran alone. Shared tokens were computed once for "
    "several prompts. Time on the device is that of the study's own batches. Methods share work: `n reused` counts "
    "answers that came from the row cache (two methods may have a prompt in common). `device s spent` divides such work "
    "among all rows that share it, so that its sum is what the study spent.",
    source="PopQA, Figure 11",
    sql="""select dataset, prompt, model, method, n, n_reused, prompt_tokens_per_1000, new_tokens_per_1000,
    share_of_prompt_tokens_shared, single_latency_ms, device_seconds_per_1000, cost_usd_per_1000, device_seconds
from marts.fct_costs
order by dataset, prompt, model, method""",
)
