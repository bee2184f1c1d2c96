-- Which of these keys are stored.
select pg_catalog.array_agg(stored.{key})
from {table} as stored
where stored.{key} = any ($1::{type}[])
