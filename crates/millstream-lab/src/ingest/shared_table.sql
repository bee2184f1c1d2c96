-- Rows in the order of their key, in which they are made fastest: $1 rows, $2 values, documents of $3 bytes.
insert into the_table (vendor, id, doc)
select
    vendor,
    id,
    jsonb_build_object('vendor', vendor, 'id', id, 'note', repeat('x', $3::bigint::integer - length(id::text) - 40))
from (
    select 'vendor-' || lpad((n * $2::bigint / $1::bigint)::text, 4, '0') as vendor, n as id
    from generate_series(0, $1::bigint - 1) as n
) as made
