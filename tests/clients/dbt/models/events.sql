{{ config(materialized='incremental', unique_key='id', incremental_strategy=var('strategy', 'delete+insert')) }}
select id, customer, amount, at from {{ ref('orders') }}
{% if is_incremental() %}
where at > (select max(at) from {{ this }})
{% endif %}
