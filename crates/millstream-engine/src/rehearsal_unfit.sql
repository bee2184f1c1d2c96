-- The documents of $1 that do not fit a typed column: their places, from 1, and the column.
select tried.place, tried.unfit
from (
    select given.place, pg_temp.millstream_unfit(given.document::jsonb) as unfit
    from pg_catalog.unnest($1::text[]) with ordinality as given (document, place)
    offset 0
) as tried
where tried.unfit is not null
order by tried.place
