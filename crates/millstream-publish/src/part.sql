-- Creates one generation of a model, which nobody sees yet. Replicas must find changed rows without a primary key, so
-- the replica identity is the whole row. The check constraint saves a scan when the generation is attached. Autovacuum
-- is off until then, because its lock would block the short attempts to attach.
create {persistence} table {part} with (autovacuum_enabled = off, toast.autovacuum_enabled = off) as
select {generation}::smallint as millstream_generation, derived.* from ({rows}) as derived
with no data;
alter table {part}
    alter millstream_generation set not null,
    add constraint millstream_generation check (millstream_generation = {generation}),
    replica identity full
