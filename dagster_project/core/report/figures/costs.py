"""Figures of latency and cost."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure
from dagster_project.core.report.figures.adaptive import VARIANT, VARIANT_ORDER
from dagster_project.core.report.figures.memory import KEY, N
from dagster_project.core.report.figures.retrieval import PAIR
from dagster_project.core.report.marks import fixed, names, panels, tooltip

_POLICIES = ["never", "adaptive", "always"]


def _policies(key: str, measure: str, title: str, shows: str, source: str, axis: str, number: str) -> Figure:
    return Figure(
        key=key,
        section="cost",
        title=title,
        shows=shows,
        source=source,
        tables=("fct_adaptive_costs",),
        sql=f"""with policies as (
    unpivot (
        select *, {measure}_never as never, {measure}_adaptive as adaptive, {measure}_always as "always"
        from marts.fct_adaptive_costs
    ) on never, adaptive, "always" into name policy value amount
)
select dataset, prompt, model, parametric_method, retrieval_method, {VARIANT} as variant, policy, n_questions,
    amount, case when policy = 'adaptive' then share_retrieved end as share_retrieved
from policies
where amount is not null
order by dataset, prompt, model, retrieval_method, {VARIANT_ORDER}, policy""",  # noqa: S608
        columns=(
            *PAIR,
            Column("variant", "thresholds"),
            Column("policy", "policy"),
            Column("n_questions", "n", "count"),
            Column("amount", axis, "number"),
            Column("share_retrieved", "retrieved", "share"),
        ),
        spec=panels(
            "retrieval_method",
            {
                "mark": {"type": "bar", "cornerRadiusEnd": 2},
                "encoding": {
                    "y": names("model"),
                    "yOffset": {"field": "policy", "type": "nominal", "scale": {"domain": _POLICIES}},
                    "x": {
                        "field": "amount",
                        "type": "quantitative",
                        "title": axis,
                        "axis": {"grid": True, "tickCount": 4, "labelOverlap": True},
                    },
                    "color": fixed("policy", "policy", _POLICIES),
                    "tooltip": tooltip(
                        ("model", "model"),
                        ("retrieval_method", "retrieval"),
                        ("policy", "policy"),
                        ("amount", axis, number),
                        ("share_retrieved", "retrieved", ".0%"),
                        ("n_questions", "questions", ","),
                    ),
                },
            },
            least=270,
            rows="model",
            step=64,
            axis=110,
        ),
        choose=("parametric_method", "variant"),
        plot_on="fct_adaptive_costs",
    )


LATENCY = _policies(
    "latency",
    "single_latency_ms",
    "Latency of one question",
    "Milliseconds that one user waits for one answer, from a calibration at batch size 1 on the machine of the study; "
    "adaptive is the mix of the two methods at its share of questions looked up. Searching for the passage is not in "
    "it. No interval: medians of up to 50 questions a model and method.",
    "PopQA, Figure 11",
    "ms a question",
    ",.1f",
)
COST = _policies(
    "cost",
    "cost_usd_per_1000",
    "Cost of a thousand questions",
    "Dollars for a thousand questions: the tokens' price where a service has one, else the time on the device at its "
    "price an hour, as study.yaml or the price list gives them. Methods without a price are left out.",
    "PopQA, Figures 11 and 12",
    "USD a thousand questions",
    ",.6f",
)

TOKENS = Figure(
    key="tokens",
    section="cost",
    title="Tokens, time and money by method",
    shows="What a thousand questions took. Shared tokens were computed once for several prompts. Time on the device is "
    "that of the study's own batches.",
    source="PopQA, Figure 11",
    tables=("fct_costs",),
    sql="""select dataset, prompt, model, method, n, prompt_tokens_per_1000, new_tokens_per_1000,
    share_of_prompt_tokens_shared, single_latency_ms, device_seconds_per_1000, cost_usd_per_1000
from marts.fct_costs
order by dataset, prompt, model, method""",
    columns=(
        *KEY,
        N,
        Column("prompt_tokens_per_1000", "prompt tokens a 1,000", "count"),
        Column("new_tokens_per_1000", "new tokens a 1,000", "count"),
        Column("share_of_prompt_tokens_shared", "shared", "share"),
        Column("single_latency_ms", "ms a question", "number"),
        Column("device_seconds_per_1000", "device s a 1,000", "number"),
        Column("cost_usd_per_1000", "USD a 1,000", "number"),
    ),
    kind="table",
)

FIGURES = (LATENCY, COST, TOKENS)
