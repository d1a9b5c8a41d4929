select * replace (valid_from::date as valid_from)
from {{ source('lake', 'model_prices') }}
where {{ is_declared(['model']) }}
