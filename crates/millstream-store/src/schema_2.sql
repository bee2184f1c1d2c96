-- Second version of the tables: streams with names, unlogged collections, merge modes.

-- Whether an unfinished load can be resumed: its sources can be read again (files, or a stream with a name), and it is
-- not abandoned.
alter table {schema}.load add column resumable boolean not null default true;
update {schema}.load set resumable = false where '-' = any (sources);
alter table {schema}.load alter column resumable drop default;

-- Marker rows of loads into unlogged collections. A crash of the server empties this table together with the
-- collections. If a load's marker row is missing, its documents are lost, and the rest of its record is void.
create unlogged table {schema}.unlogged_load (
    load_id bigint primary key references {schema}.load on delete cascade
);

-- Tombstones: the versions of deleted documents, so that older documents are not stored again. version_of is the path
-- and the type of the version. id and version are canonical bytes, which sort as the values do.
create table {schema}.tombstone (
    table_oid oid not null,
    version_of text not null,
    id bytea not null,
    version bytea not null,
    deleted_at timestamptz not null default now(),
    primary key (table_oid, version_of, id)
);

-- The document that `merge:deep` stores: objects are merged at every level, any other value is replaced.
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
