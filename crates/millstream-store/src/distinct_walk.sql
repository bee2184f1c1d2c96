-- A skip scan, as a template for format(). The arguments are the column, the table, the condition on the columns before
-- it, and further items of the select list.
with recursive walk as (
    (select stored.%1$I as value from %2$s as stored where %3$s order by stored.%1$I limit 1)
    union all
    select next.value
    from walk
    cross join lateral (
        select stored.%1$I as value
        from %2$s as stored
        where %3$s and stored.%1$I operator(pg_catalog.>) walk.value
        order by stored.%1$I
        limit 1
    ) as next
)
select value%4$s from walk
