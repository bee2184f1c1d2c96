-- How many rows have null in a column although their document has a value for it, and the first keys of these rows.
with uncast as (
    select pg_catalog.concat_ws(', ', {key}) as key
    from (
        select {key}, {document} as doc, shown.{column} as millstream_shown
        from {rows}
        {fence}
    ) as stored
    where millstream_shown is null
      and {text} is not null
      and ({value}) is null
)
select (select pg_catalog.count(*) from uncast),
       coalesce((select pg_catalog.array_agg(first.key) from (select key from uncast limit {keys_max}) as first), '{}')
