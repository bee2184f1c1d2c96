-- The tables of Millstream itself, version 1. {schema} is the quoted name of the schema.
create schema if not exists {schema};
revoke all on schema {schema} from public;

-- Our records name tables by OID, and a restore gives tables other OIDs. `home` names the server, the database and the
-- table `meta` to which the OIDs belong; it is null until they are checked for the first time. `schema_name` is the
-- schema's own name, which our functions contain.
create table {schema}.meta (
    schema_version integer not null,
    created_at timestamptz not null default now(),
    home text,
    schema_name text not null
);

-- Key columns and the paths they come from. A record belongs to the table's OID, not to its name. `versions` has the type
-- by which the versions at each path are compared, as {path: type}: tombstones of another type would not be found.
create table {schema}.collection (
    table_oid oid primary key,
    schema_name text not null,
    table_name text not null,
    key jsonb not null,
    layout text not null default 'table',
    adopted boolean not null default false,
    created_at timestamptz not null default now(),
    versions jsonb not null default '{}'
);

-- The place of a load's newest run among all runs. Of two documents of one key that wait in segments, the document of
-- the later run wins. A run draws its place when it begins, one run at a time.
create sequence {schema}.run_number;

-- One load. The watermark of slot s is the position before which all documents of s are committed. It is the larger of
-- floor_*[s + 1] (earlier runs) and the position of the lane that owns s. prefix_* is the highest watermark, and the
-- hash of everything before it. An unfinished load can be resumed if its sources can be read again (files, or a stream with
-- a name) and it is not abandoned. `transforms` has the names of its transforms in order. `outcomes` counts what became of
-- the documents in them: an equal number of counts for each transform. It is null if there are none.
create table {schema}.load (
    load_id bigint generated always as identity primary key,
    table_oid oid not null,
    collection text not null,
    mode text not null,
    key jsonb not null,
    format text not null,
    sources text[] not null,
    slot_hash_version smallint not null,
    state text not null check (state in ('running', 'stopped', 'finished')),
    stop_reason text,
    epoch integer not null,
    durability text not null,
    layout text not null,
    lanes smallint not null,
    runs integer not null default 1,
    started_at timestamptz not null default now(),
    ended_at timestamptz,
    floor_source integer[] not null,
    floor_offset bigint[] not null,
    prefix_source integer not null default 0,
    prefix_length bigint not null default 0,
    prefix_hash bytea,
    read bigint not null default 0,
    inserted bigint not null default 0,
    updated bigint not null default 0,
    unchanged bigint not null default 0,
    superseded bigint not null default 0,
    stale bigint not null default 0,
    kept bigint not null default 0,
    deleted bigint not null default 0,
    appended bigint not null default 0,
    rejected bigint not null default 0,
    bytes_read bigint not null default 0,
    reject_bytes bigint not null default 0,
    receipt jsonb,
    resumable boolean not null,
    run_order bigint not null default 0,
    transforms text[] not null default '{}',
    outcomes bigint[]
);
create index load_table_oid on {schema}.load (table_oid);

-- One lane of the running or last run of a load. It owns the slots [slot_first, slot_end).
create table {schema}.lane (
    load_id bigint not null references {schema}.load on delete cascade,
    lane smallint not null,
    run integer not null,
    epoch integer not null,
    backend_pid integer,
    backend_start timestamptz,
    slot_first smallint not null,
    slot_end smallint not null,
    source integer not null default 0,
    byte_offset bigint not null default 0,
    prefix_hash bytea,
    batches bigint not null default 0,
    read bigint not null default 0,
    inserted bigint not null default 0,
    updated bigint not null default 0,
    unchanged bigint not null default 0,
    superseded bigint not null default 0,
    stale bigint not null default 0,
    kept bigint not null default 0,
    deleted bigint not null default 0,
    appended bigint not null default 0,
    rejected bigint not null default 0,
    bytes_read bigint not null default 0,
    reject_bytes bigint not null default 0,
    outcomes bigint[],
    primary key (load_id, lane)
) with (fillfactor = 10);

-- Documents that could not be stored, as text or, if they are not text, as base64. Of a document above 1 MiB only head
-- and tail are kept, and truncated is true. bytes is the length of the whole document.
create table {schema}.reject (
    load_id bigint not null references {schema}.load on delete cascade,
    source integer not null,
    byte_offset bigint not null,
    line bigint not null,
    reason text not null,
    detail text not null,
    document text,
    document_base64 text,
    bytes bigint not null,
    truncated boolean not null,
    rejected_at timestamptz not null default now(),
    primary key (load_id, source, byte_offset)
);

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

-- A read model of a collection. Its rows are in {schema}.model_ID, partitioned by generation. The model's view shows
-- the generation that `serving` names; a reader sees the rows and this row in one snapshot. The rows shown equal the
-- collection at snapshot `shows`. `wanted` is the definition that the next refresh builds, if it differs from `definition`.
create table {schema}.model (
    model_id integer generated always as identity primary key,
    table_oid oid not null,
    schema_name text not null,
    model_name text not null,
    definition jsonb not null,
    view_oid oid,
    serving smallint not null default 1,
    shows pg_snapshot,
    refreshed_at timestamptz,
    way text,
    created_at timestamptz not null default now(),
    wanted jsonb,
    unique (schema_name, model_name)
);
create index model_table_oid on {schema}.model (table_oid);

-- The skip scan for the distinct values of a column of a table's primary key, as a statement. It descends the key's
-- index once for each value, however many rows have it, and returns each value at once. `prefix` gives the values of
-- all key columns before this one. `counted` adds the number of rows of each value, which takes reading their index
-- entries.
create function {schema}.distinct_walk(
    collection regclass, key_column text, prefix text[] default '{}', counted boolean default false)
returns text
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
as $distinct_walk$
declare
    place constant integer := coalesce(cardinality(prefix), 0) + 1;
    names text[];
    types text[];
    foreign_type text;
    among text;
begin
    select array_agg(a.attname order by k.nth),
           array_agg(format('%I.%I', n.nspname, t.typname) order by k.nth),
           min(a.attname) filter (where k.nth <= place and n.nspname <> 'pg_catalog')
    into names, types, foreign_type
    from pg_index i
    cross join unnest(i.indkey::int2[]) with ordinality as k (attnum, nth)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
    join pg_type t on t.oid = a.atttypid
    join pg_namespace n on n.oid = t.typnamespace
    where i.indrelid = collection and i.indisprimary and k.nth <= i.indnkeyatts;
    if names is null then
        raise exception using
            errcode = 'invalid_parameter_value', message = format('%s has no primary key', collection);
    end if;
    if key_column is distinct from names[place] then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format('%s is not column %s of the key of %s (%s), before which %s values are given',
                             quote_nullable(key_column), place, collection, array_to_string(names, ', '), place - 1),
            hint = 'prefix gives a value for each column of the key before the one to be walked';
    end if;
    if foreign_type is not null then
        raise exception using
            errcode = 'feature_not_supported',
            message = format('the key column %s of %s is of a type that is not PostgreSQL''s own',
                             quote_ident(foreign_type), collection),
            hint = 'such a type may compare by operators of its own: use select distinct';
    end if;
    select coalesce(string_agg(format('stored.%I operator(pg_catalog.=) %L::%s', names[n], prefix[n], types[n]),
                               ' and ' order by n), 'true')
    into among
    from generate_series(1, place - 1) as n;
    return format(
        $walk${distinct_walk}$walk$,
        key_column, collection, among,
        case when counted then format(
            ', (select count(*) from %s as stored where %s and stored.%I operator(pg_catalog.=) walk.value) as rows',
            collection, among, key_column) end);
end
$distinct_walk$;

-- The distinct values themselves, in the order of the key. With these settings the planner can only scan the index in
-- its order, whatever the statistics say.
create function {schema}.distinct_values(
    collection regclass, key_column text, prefix text[] default '{}', at_most bigint default null)
returns setof text
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $distinct_values$
begin
    return query execute format('select value::text from (%s) as walked limit %L',
                                {schema}.distinct_walk(collection, key_column, prefix), at_most);
end
$distinct_values$;

-- A segment of the log layout: documents of one lane, in order, committed at once. They are in the table
-- {schema}.segment_ID, which has the key's columns, and doc as text; doc is null if a document deletes. `compaction` is
-- the group of segments that are merged together, in ranges of keys between the `bounds`; see `merged_range`.
create sequence {schema}.segment_number;
create table {schema}.segment (
    segment_id bigint primary key,
    table_oid oid not null,
    load_id bigint not null,
    run_order bigint not null,
    documents bigint not null,
    bytes bigint not null,
    compaction bigint,
    bounds text[],
    committed_at timestamptz not null default now()
);
create index segment_table_oid on {schema}.segment (table_oid);

-- A range of keys that a compaction has merged. Its row is written in the transaction that merged it.
create table {schema}.merged_range (
    compaction bigint not null,
    range smallint not null,
    primary key (compaction, range)
);
