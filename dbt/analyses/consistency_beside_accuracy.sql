-- PopQA-TP, Figures 1 to 3: how often do paraphrases of a question get answers with the same meaning, per relation, and
-- does that correlate with accuracy?
select
    dataset,
    prompt,
    relation,
    model,
    n,
    round(accuracy, 3) as accuracy,
    n_scons,
    round(scons, 3) as scons,
    n_cert,
    round(cert, 3) as cert
from {{ ref('fct_semantic_consistency') }}
order by dataset, prompt, relation = 'all', relation, model
