"""Figures of latency and cost."""

from __future__ import annotations

from longtail.report.figure import Figure
from longtail.report.figures.adaptive import VARIANT, VARIANT_ORDER
from longtail.report.marks import METHODS, categories, names, panels, points_in_rows, quantity

_POLICIES = ["never", "always", "adaptive"]
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
    sql=f"""select dataset, prompt, model, parametric_method, retrieval_method, {VARIANT} as variant, n_questions,
    n_reused, n_timed, share_retrieved, single_latency_ms_never, single_latency_ms_always, single_latency_ms_adaptive,
    single_latency_ms_saved, single_latency_ms_saved_low, single_latency_ms_saved_high, latency_claim
from marts.fct_adaptive_costs
where single_latency_ms_saved is not null
order by dataset, prompt, model, retrieval_method, {VARIANT_ORDER}""",  # noqa: S608
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
select dataset, prompt, model, parametric_method, retrieval_method, {VARIANT} as variant, policy, n_questions, n_reused,
    amount, case when policy = 'adaptive' then cost_usd_per_1000_saved end as saved,
    case when policy = 'adaptive' then share_retrieved end as share_retrieved
from policies
where amount is not null
order by dataset, prompt, model, retrieval_method, {VARIANT_ORDER}, policy""",  # noqa: S608
    spec=panels(
        "retrieval_method",
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "y": names("model"),
                "yOffset": {"field": "policy", "type": "nominal", "scale": {"domain": _POLICIES}},
                "x": _amount("amount", "USD per 1,000 questions", format=".2~r"),
                "color": categories("policy", "policy", _POLICIES),
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
