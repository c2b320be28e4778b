select id, name, since from {{ ref('customers') }} where active
