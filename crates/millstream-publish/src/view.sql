view {view} {options} as
-- A scalar subquery: its value is known when the statement runs, and the generation that is not shown is pruned.
select {columns}
from {parts}
where millstream_generation = (select model.serving from {schema}.model where model.model_id = {model_id})
