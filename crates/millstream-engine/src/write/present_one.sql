-- Which of these keys are stored.
select pg_catalog.array_agg(stored.{key})
from {table} as stored
where stored.{key} operator(pg_catalog.=) any ($1::{type}[])
