-- PopQA, Figure 1: accuracy by popularity, from memory and with a passage. Above which popularity is memory better?
-- Bins with fewer than 40 rows are left out, as in the paper's plots.
select
    memory.dataset,
    memory.prompt,
    memory.model,
    retrieved.method as retrieval_method,
    memory.bin,
    round(memory.bin_low) as popularity_low,
    round(memory.bin_high) as popularity_high,
    memory.n as n_memory,
    retrieved.n as n_retrieval,
    round(memory.accuracy, 3) as accuracy_memory,
    round(retrieved.accuracy, 3) as accuracy_retrieval,
    round(retrieved.accuracy - memory.accuracy, 3) as gain_of_retrieval,
    retrieved.ci_low > memory.ci_high as is_retrieval_clearly_better,
    memory.ci_low > retrieved.ci_high as is_memory_clearly_better
from {{ ref('fct_accuracy_by_popularity') }} as memory
inner join {{ ref('fct_accuracy_by_popularity') }} as retrieved using (dataset, prompt, model, relation, bin)
inner join {{ ref('dim_methods') }} as methods on retrieved.method = methods.method
where
    memory.method in (
        select alone.method from {{ ref('dim_methods') }} as alone
        where alone.kind = 'memory'
    )
    and memory.relation = 'all'
    and not methods.is_parametric
    and memory.n >= 40
    and retrieved.n >= 40
order by memory.dataset, memory.prompt, memory.model, retrieval_method, memory.bin
