-- Version 3 of the tables: loads know when they began, what they have deleted beside their documents, and what their files
-- held.

-- What is visible in `began` was written before the load began; null if that is not known. `deleted_missing` counts rows
-- that were deleted because no document has their key. Of those, all up to the key `missing_mark` are done; it is in
-- canonical bytes.
alter table {schema}.load add column began pg_snapshot;
alter table {schema}.load add column deleted_missing bigint not null default 0;
alter table {schema}.load add column missing_mark bytea;

-- Of each source that is a file, its size and the hash of its bytes on disk, once the load has finished.
alter table {schema}.load add column source_bytes bigint[];
alter table {schema}.load add column source_hashes bytea[];
