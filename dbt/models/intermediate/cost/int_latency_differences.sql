-- The waiting time that a passage adds for one user: the difference of the times of both methods on the same question.
with latencies as (select * from {{ ref('stg_generation__single_latencies') }}),
methods as (select * from {{ ref('stg_study__methods') }}),

timed as (

    select
        latencies.*,
        methods.is_parametric
    from latencies
    inner join methods using (method)

),

differences as (

    select
        retrieval.model,
        retrieval.prompt,
        retrieval.device,
        parametric.method as parametric_method,
        retrieval.method as retrieval_method,
        retrieval.single_latency_ms - parametric.single_latency_ms as difference_ms,
        retrieval.round_number = parametric.round_number as is_same_round
    from timed as retrieval
    inner join timed as parametric
        on
            retrieval.dataset = parametric.dataset
            and retrieval.question_id = parametric.question_id
            and retrieval.model = parametric.model
            and retrieval.prompt = parametric.prompt
            and parametric.is_parametric
    where not retrieval.is_parametric

),

final as (

    {{ medians(
        'differences',
        'model, prompt, device, parametric_method, retrieval_method',
        'difference_ms',
        also=['coalesce(bool_and(is_same_round), false) as is_interleaved']
    ) }}

)

select * from final
