select name, date_trunc('day', made_at) as day from {{ ref('small') }}
