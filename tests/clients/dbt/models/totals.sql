{{ config(materialized='table') }}
with paid as (
    select customer, sum(amount) as total, count(*) as orders from {{ ref('orders') }} group by customer
)
select c.id, c.name, coalesce(p.total, 0) as total, coalesce(p.orders, 0) as orders, current_timestamp as made_at
from {{ ref('active_customers') }} c left join paid p on p.customer = c.id
