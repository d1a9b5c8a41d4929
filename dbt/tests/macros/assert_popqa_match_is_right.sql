{{ config(meta={'dagster': {'ref': {'name': 'fct_guessing_baselines'}}}) }}

-- PopQA's rule: as written, in lower case, or capitalised. Parts of words count, blanks do not.
with cases as (

    select listed.*
    from (
        values
        ('Paris, of course', 'Paris', true),
        ('paris', 'Paris', true),
        ('PARIS', 'Paris', false),
        ('An Actor', 'actor', true),
        ('an aCtor', 'actor', false),
        ('New york', 'new York', true),
        ('Interpol', 'pol', true),
        ('Éire', 'éire', true),
        ('anything', ' ', false),
        ('anything', '', false),
        ('', 'Paris', false),
        (nfc_normalize('Beyoncé'), 'Beyonce' || chr(769), true),
        ('Oslo', chr(8203) || 'Oslo', true),
        ('Ro' || chr(173) || 'me', chr(65279) || 'Rome', true),
        ('Beyonce', 'Beyoncé', false),
        ('anything', chr(8203) || ' ', false)
    ) as listed (prediction, gold, is_right)

)

select *
from cases
where {{ popqa_match('prediction', 'gold') }} != is_right
