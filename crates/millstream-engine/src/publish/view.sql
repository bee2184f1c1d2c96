-- A scalar subquery, so that the generation not shown is not read: which one it is is known when the
-- statement runs, and the other is pruned.
create view {view} as
select {columns}
from {parts}
where millstream_generation = (select model.serving from {schema}.model where model.model_id = {model_id});
update {schema}.model set view_oid = {view_literal}::pg_catalog.regclass where model_id = {model_id}
