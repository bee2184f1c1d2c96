-- Second version of the tables: streams with names, unlogged collections, merge modes.

-- Only a load whose sources can be given again is resumable: files, and a stream with a name.
alter table {schema}.load add column resumable boolean not null default true;
update {schema}.load set resumable = false where '-' = any (sources);
alter table {schema}.load alter column resumable drop default;

-- A load into an unlogged collection. A crash of the server empties this table with the collection, so
-- that a load without its line has lost its documents, and what else is on record of it is void.
create unlogged table {schema}.unlogged_load (
    load_id bigint primary key references {schema}.load on delete cascade
);

-- The version of what a tombstone has deleted, so that an older document stays out. version_of is the
-- version's path and type, id and version are canonical bytes, whose order is that of the values.
create table {schema}.tombstone (
    table_oid oid not null,
    version_of text not null,
    id bytea not null,
    version bytea not null,
    deleted_at timestamptz not null default now(),
    primary key (table_oid, version_of, id)
);

-- What `merge:deep` stores: objects are merged at every level, any other value is replaced.
create function {schema}.merge_deep(stored jsonb, new jsonb) returns jsonb
language plpgsql immutable parallel safe
as $merge_deep$
begin
    if pg_catalog.jsonb_typeof(stored) is distinct from 'object' or pg_catalog.jsonb_typeof(new) is distinct from 'object' then
        return new;
    end if;
    return stored operator(pg_catalog.||) new operator(pg_catalog.||) coalesce((
        select pg_catalog.jsonb_object_agg(n.key, {schema}.merge_deep(stored operator(pg_catalog.->) n.key, n.value))
        from pg_catalog.jsonb_each(new) n
        where pg_catalog.jsonb_typeof(n.value) = 'object'
          and pg_catalog.jsonb_typeof(stored operator(pg_catalog.->) n.key) = 'object'
    ), '{}');
end
$merge_deep$;
