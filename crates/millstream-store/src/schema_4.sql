-- Version 4 of the tables: a collection knows what it stores of its documents. `without-key` leaves out the members that
-- columns of the key have. A program that does not know this would store whole documents, and read others than were loaded.
alter table {schema}.collection add column doc text not null default 'whole';

-- A writer of a cluster records a load for each of its tasks, and looks for the loads of a stream before each. By hash,
-- because a name may be longer than a row of another index.
create index load_sources on {schema}.load using hash (sources);
