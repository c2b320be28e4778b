{{ config(materialized='ephemeral') }}
select * from {{ ref('totals') }} where total < 100
