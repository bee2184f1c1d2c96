-- Stores the rejects of a batch, in its transaction. A document is rejected once, however often it is read.
insert into {schema}.reject (
    load_id, source, byte_offset, line, reason, detail, document, document_base64, bytes, truncated
)
select $1, r.*
from rows from (
    pg_catalog.unnest($2::integer[]),
    pg_catalog.unnest($3::bigint[]),
    pg_catalog.unnest($4::bigint[]),
    pg_catalog.unnest($5::text[]),
    pg_catalog.unnest($6::text[]),
    pg_catalog.unnest($7::text[]),
    pg_catalog.unnest($8::text[]),
    pg_catalog.unnest($9::bigint[]),
    pg_catalog.unnest($10::boolean[])
) r
on conflict (load_id, source, byte_offset) do nothing
