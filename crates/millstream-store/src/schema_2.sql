-- Version 2 of the tables: they record the files of a collection's table.

-- `files` is `OID:FILE` of the table, or of each of its partitions, as they were when a run last looked, and then
-- `unfilled:OID` for each that had no row and into which no load has written since; null if nobody has looked. `emptied`
-- counts how often the table or a partition was found truncated since the run before.
alter table {schema}.collection add column files text;
alter table {schema}.collection add column emptied integer not null default 0;

-- What was truncated, if that is not dealt with yet: the name of a partition, or an empty text for the whole table. The
-- load was at work when another run found out, or it had added up what cannot be added again alone.
alter table {schema}.load add column emptied text;

-- Finds the newest loads into a table.
drop index {schema}.load_table_oid;
create index load_table_oid on {schema}.load (table_oid, load_id);
