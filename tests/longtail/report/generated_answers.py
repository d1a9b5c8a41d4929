"""A warehouse with 30,000 answers that are known: hostile labels, long texts, prompts that share their beginnings."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.longtail.report.generated_marts import World, write_marts

MARKUP = "</script><img src=x onerror=window.pwned=1>"
MODELS, METHODS = ("plain", MARKUP, "__proto__"), ("memory", "'\"\\ {x}", "\u202eעברית 👩‍🚀", "none")
N_QUESTIONS = 2_500
N_ANSWERS = N_QUESTIONS * len(MODELS) * len(METHODS)
KEY = "dataset, question_id, prompt, model, method"
_TABLES = frozenset({"fct_answers", "fct_prompts", "dim_passages", "fct_question_consistency", "dim_methods"})
_ROWS = """with asked as (
    select unnest(range($n)) as i, 'q' || lpad(i::varchar, 5, '0') as question_id
)
select case when i < 2400 then 'd' else 'Nun' || chr(0) || 'Mark' end as dataset, question_id, 'p' as prompt, model,
    method, 'Where is <b>place</b> ' || i || '?' as question, ['the gold of ' || i, 'x'] as gold_answers,
    2.0 ** (i % 11) as subject_popularity,
    case when i % 5 > 0 then 'r' || i % 5 end as relation, ('answer ' || i % 90) || ' of ' || method as prediction,
    (hash(question_id, model, method) % 2)::boolean as is_correct, (i % 101) / 100 as confidence,
    if(i = 7, repeat('long <i>text</i> ', 700000), 'raw' || chr(0) || i) as raw_text, ['s' || i % 50] as passage_ids
from asked cross join (select unnest($models) as model) cross join (select unnest($methods) as method)"""


def write_answers_marts(path: Path) -> Path:
    """A published warehouse whose answers follow from their keys. Question 7 has 10 MB in `raw_text`."""
    write_marts(path, World(study=MARKUP, empty=_TABLES, n_questions=2))
    with duckdb.connect(str(path)) as connection:
        values = {"n": N_QUESTIONS, "models": list(MODELS), "methods": list(METHODS)}
        connection.execute(f"insert into marts.fct_answers by name {_ROWS}", values)
        for statement in (
            "insert into marts.dim_methods by name "
            "select distinct method, method = 'memory' as is_parametric from marts.fct_answers",
            f"insert into marts.fct_prompts by name select 'answers' as table_name, {KEY}, "
            "method = 'memory' as is_exact, 'Shown to all.' || chr(10) || chr(10) || question || ' <u>' as prompt_text "
            "from marts.fct_answers where method != 'none'",
            "insert into marts.dim_passages by name select 's' || unnest(range(49)) as passage_id, 'T <img>' as title, "
            "'It says THE GOLD OF 7, javascript:1' as text, 'source' as collection_source",
            "insert into marts.fct_question_consistency by name select distinct dataset, question_id, model, "
            "'other' as prompt, 0.5 as scons from marts.fct_answers where model = 'plain'",
        ):
            connection.execute(statement)
    return path
