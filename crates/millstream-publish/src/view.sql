view {view} {options} as
-- A scalar subquery, so that the generation not shown is not read: which one it is is known when the
-- statement runs, and the other is pruned.
select {columns}
from {parts}
where millstream_generation = (select model.serving from {schema}.model where model.model_id = {model_id})
