-- Sixth version of the tables: they record the stages that changed documents before they were stored.

-- `transforms` names the stages of a load in order. `outcomes` counts what became of the documents in them: an equal
-- number of counts for each stage. It is null if there are no stages.
alter table {schema}.load add column transforms text[] not null default '{}';
alter table {schema}.load add column outcomes bigint[];
alter table {schema}.lane add column outcomes bigint[];
