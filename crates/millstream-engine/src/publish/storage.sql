create {persistence} table {first} as
select 1::smallint as generation, derived.* from ({rows}) as derived
with no data;
create {persistence} table {second} (like {first});
alter table {first} alter generation set not null;
alter table {second} alter generation set not null;
create unique index on {first} ({key});
create unique index on {second} ({key});
create table {parts} (like {first}) partition by list (generation);
alter table {parts} attach partition {first} for values in (1);
alter table {parts} attach partition {second} for values in (2)
