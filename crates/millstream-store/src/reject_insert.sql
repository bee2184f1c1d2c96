-- Stores the rejects of a batch, in its transaction. A document is rejected once, however often it is read.
insert into {schema}.reject (
    load_id, source, byte_offset, line, reason, detail, document, document_base64, bytes, truncated
)
select $1, r.*
from unnest(
    $2::integer[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::boolean[]
) r
on conflict (load_id, source, byte_offset) do nothing
