-- What decides whether a table can be rewritten in the order of its key, what it takes on disk, and what undoes the change
-- of its options. $2: the key's columns, sorted by bytes. $3: how the names of the triggers begin that listen for models.
select
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    pg_catalog.pg_has_role(c.relowner, 'usage') as owns,
    c.relkind = 'r' as plain,
    exists (select from pg_catalog.pg_inherits i where i.inhparent = c.oid) as has_children,
    c.relpersistence = 'u' as unlogged,
    key.name as key_index,
    key.quoted as quoted_index,
    key.fillfactor as index_fillfactor,
    (
        select o.option_value
        from pg_catalog.pg_options_to_table(c.reloptions) o
        where o.option_name = 'fillfactor'
    ) as fillfactor,
    (
        select x.relname::text
        from pg_catalog.pg_index i
        join pg_catalog.pg_class x on x.oid = i.indexrelid
        where i.indrelid = c.oid and i.indisclustered
    ) as clustered,
    (
        select a.attcompression = 'l'
        from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attname = 'doc' and not a.attisdropped
    ) as has_lz4,
    exists (
        select
        from pg_catalog.pg_trigger t
        where t.tgrelid = c.oid and pg_catalog.starts_with(t.tgname::text, $3::text)
    ) as has_models,
    pg_catalog.pg_relation_size(c.oid) as heap_bytes,
    case when c.reltoastrelid <> 0::oid then pg_catalog.pg_total_relation_size(c.reltoastrelid) else 0::bigint end
        as toast_bytes,
    pg_catalog.pg_indexes_size(c.oid) as index_bytes,
    pg_catalog.pg_total_relation_size(c.oid) as bytes,
    pg_catalog.current_setting('wal_level') as wal_level
from pg_catalog.pg_class c
left join lateral (
    select
        x.relname::text as name,
        pg_catalog.format('%I.%I', n.nspname, x.relname) as quoted,
        (
            select o.option_value
            from pg_catalog.pg_options_to_table(x.reloptions) o
            where o.option_name = 'fillfactor'
        ) as fillfactor
    from pg_catalog.pg_index i
    join pg_catalog.pg_class x on x.oid = i.indexrelid
    join pg_catalog.pg_namespace n on n.oid = x.relnamespace
    where i.indrelid = c.oid
      and i.indisunique
      and i.indisvalid
      and i.indpred is null
      and i.indexprs is null
      and (
          select pg_catalog.array_agg(a.attname::text order by a.attname::text collate "C")
          from pg_catalog.pg_attribute a
          where a.attrelid = c.oid
            and a.attnum = any ((i.indkey::smallint[])[0:i.indnkeyatts - 1])
      ) operator(pg_catalog.=) $2::text[]
    order by i.indisprimary desc, x.oid
    limit 1
) key on true
where c.oid = $1
