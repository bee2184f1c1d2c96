-- The rows of one change of a model have to be found by replicas too: no index is a primary key.
create {persistence} table {first} as
select 1::smallint as millstream_generation, derived.* from ({rows}) as derived
with no data;
create {persistence} table {second} (like {first});
alter table {first} alter millstream_generation set not null, replica identity full;
alter table {second} alter millstream_generation set not null, replica identity full;
create unique index on {first} ({key});
create unique index on {second} ({key});
create table {parts} (like {first}) partition by list (millstream_generation);
alter table {parts} attach partition {first} for values in (1);
alter table {parts} attach partition {second} for values in (2)
