-- One generation of a model, that nobody is shown yet. The rows of a change have to be found by replicas too: no
-- index is a primary key. The check spares looking at every row when it is attached. Autovacuum keeps away until then:
-- its lock would be in the way of those tries to attach it that readers do not notice.
create {persistence} table {part} with (autovacuum_enabled = off, toast.autovacuum_enabled = off) as
select {generation}::smallint as millstream_generation, derived.* from ({rows}) as derived
with no data;
alter table {part}
    alter millstream_generation set not null,
    add constraint millstream_generation check (millstream_generation = {generation}),
    replica identity full
