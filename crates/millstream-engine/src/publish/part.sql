-- One generation of a model, that nobody is shown yet. The rows of a change have to be found by replicas too: no
-- index is a primary key. The check spares looking at every row when it is attached.
create {persistence} table {part} as
select {generation}::smallint as millstream_generation, derived.* from ({rows}) as derived
with no data;
alter table {part}
    alter millstream_generation set not null,
    add constraint millstream_generation check (millstream_generation = {generation}),
    replica identity full
