-- Samples from a time when the study asked for more samples or another temperature do not belong to this study.
select
    sampled_answers.*,
    {{ generation_key() }} as generation_key,
    prompts.n_samples
from {{ source('lake', 'sampled_answers') }} as sampled_answers
inner join {{ source('lake', 'prompts') }} as prompts
    on
        sampled_answers.prompt = prompts.prompt
        and sampled_answers.temperature = prompts.temperature
        and sampled_answers.sample < prompts.n_samples
where
    {{ is_declared(['dataset', 'model']) }}
    and list_contains(prompts.generations, 'samples')
