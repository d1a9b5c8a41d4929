"""Figure of grounding: texts with a passage in front against texts from memory, and texts of equal length."""

from __future__ import annotations

from dagster_project.core.report.figure import Column, Figure, bounds
from dagster_project.core.report.figures.according_to import PROMPT_KEY
from dagster_project.core.report.figures.grounding import MEASURE
from dagster_project.core.report.marks import difference_x, names, panels, points, series

COMPARISONS = Figure(
    key="grounding_comparisons",
    section="grounding",
    title="A passage in front, and texts of equal length",
    shows=f"{MEASURE}Explanations with a passage in front are compared with those from memory, under the same grounding "
    "prompt; and explanations under a grounding prompt with those under the null prompt, by the same method. At equal "
    "length, QUIP counts as many 25-grams of both texts, from the start, as the shorter one has. Bars are 95 % intervals "
    "from a paired bootstrap over questions. Holm's adjustment is over a model's grounding prompts.",
    source="According-to prompting, Tables 1 and 2",
    tables=("fct_grounding_comparisons", "dim_grounding_prompts"),
    sql="""select found.dataset, found.model, found.method, found.grounding_prompt,
    replace(found.compared_with, '_', ' ') as compared_with,
    case found.measure when 'quip_difference' then 'whole texts' else 'equal length' end as length,
    found.n_paired, found.base_value, found.mean_value, found.value as difference,
    found.value_ci_low as difference_ci_low, found.value_ci_high as difference_ci_high, found.p_value, found.p_holm
from marts.fct_grounding_comparisons as found
inner join marts.dim_grounding_prompts as prompts on found.grounding_prompt = prompts.grounding_prompt
where found.measure in ('quip_difference', 'same_length_difference') and found.value is not null
order by found.dataset, found.model, compared_with, length desc, prompts.position_in_study, found.method""",
    columns=(
        *PROMPT_KEY,
        Column("compared_with", "compared with"),
        Column("length", "compared over"),
        Column("n_paired", "pairs", "count"),
        Column("base_value", "QUIP of the others", "share"),
        Column("mean_value", "mean QUIP", "share"),
        Column("difference", "difference", "signed", bounds("difference")),
        Column("p_value", "p", "p"),
        Column("p_holm", "p after Holm", "p"),
    ),
    spec=panels(
        "model",
        points(
            difference_x("difference", "difference of QUIP", 5),
            names("grounding_prompt"),
            series("method", "method"),
            interval=bounds("difference"),
            zero=True,
            offset="method",
        ),
        least=340,
        rows="grounding_prompt",
        step=46,
        axis=190,
    ),
    choose=("compared_with", "length"),
    plot_on="fct_grounding_comparisons",
)

FIGURES = (COMPARISONS,)
