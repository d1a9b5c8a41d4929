select
    *,
    {{ generation_key() }} as generation_key
from {{ source('lake', 'paraphrase_answers') }}
where {{ is_declared(['dataset', 'model', 'prompt'], generations='paraphrases') }}
