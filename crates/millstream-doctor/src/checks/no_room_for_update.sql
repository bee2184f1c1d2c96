-- Large tables without a fillfactor of their own whose updates move rows to other pages. $1, $2: at least so many updates
-- and rows. $3: at least so many percent of the updates. $4: at most so many. PostgreSQL 15 does not count moves; there,
-- updates that touched every index stand for them.
with updated as materialized (
    select oid, reloptions
    from pg_class
    where
        relkind in ('r', 'm')
        and relpersistence <> 't'
        and pg_stat_get_tuples_updated(oid) >= $1::float8
        and pg_stat_get_live_tuples(oid) >= $2::float8
),
tables as (
    select
        format('%I.%I', s.schemaname, s.relname) as name,
        s.n_tup_upd as updates,
        coalesce((to_jsonb(s) ->> 'n_tup_newpage_upd')::bigint, s.n_tup_upd - s.n_tup_hot_upd) as moved,
        to_jsonb(s) ? 'n_tup_newpage_upd' as is_counted
    from
        updated as c
        -- Looked up for few tables: the view is not made to be joined.
        cross join lateral (select * from pg_stat_user_tables as t where t.relid = c.oid offset 0) as s
    where
        not exists (select from pg_options_to_table(c.reloptions) where option_name = 'fillfactor')
        and exists (select from pg_index as i where i.indrelid = c.oid)
)
select
    t.name,
    t.updates,
    t.moved,
    t.is_counted,
    date_part('epoch', now() - d.stats_reset)::float8 as seconds
from
    tables as t
    join pg_stat_database as d on d.datname = current_database()
where
    100.0 * t.moved >= $3::float8 * t.updates
order by
    t.moved desc, t.name
limit $4
