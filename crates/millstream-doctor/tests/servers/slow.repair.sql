-- The repairs of the faults in slow.plant.sql.
create index on purchase (customer);
create index on modem (mac);
create index on visit (customer);
drop index paper_twin, paper_beginning, paper_idle, device_mca;
alter table poor alter column a set statistics -1;
alter table crowded set (fillfactor = 90);
drop table counter;

reindex index paper_broken;

analyze;

vacuum littered;

select pg_stat_statements_reset();
select pg_stat_reset();
