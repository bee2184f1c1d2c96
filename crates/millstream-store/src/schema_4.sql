-- Fourth version of the tables: distinct values, types of versions, changed models, the log layout.

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

-- The type by which the versions at each path are compared, as {path: type}. Tombstones of another type would not be
-- found.
alter table {schema}.collection add column versions jsonb not null default '{}';
update {schema}.collection k
set versions = t.versions
from (
    select table_oid,
           jsonb_object_agg(substring(version_of from '^(.*):[^:]*$'), substring(version_of from '[^:]*$')
                            order by last_at) as versions
    from (select table_oid, version_of, max(deleted_at) as last_at from {schema}.tombstone group by 1, 2) as used
    group by table_oid
) as t
where t.table_oid = k.table_oid;

-- The definition that the next refresh builds, if it differs from `definition`.
alter table {schema}.model add column wanted jsonb;

-- The place of a load's newest run among all runs. Of two documents of one key that wait in segments, the document of
-- the later run wins. A run draws its place when it begins, one run at a time.
create sequence {schema}.run_number;
alter table {schema}.load add column run_order bigint not null default 0;

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
