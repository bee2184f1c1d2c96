-- Deletes the reject for the damage at which an earlier run stopped, and subtracts its counts. The next run reads the
-- damaged place again, whether it is mended or not.
with gone as (
    delete from {schema}.reject
    where load_id = $1
      and reason = 'damaged_source'
    returning bytes, coalesce(pg_catalog.octet_length(document), pg_catalog.octet_length(pg_catalog.decode(document_base64, 'base64'))) as kept
),
sums as (
    select pg_catalog.count(*) as rejects, coalesce(pg_catalog.sum(bytes), 0)::bigint as bytes, coalesce(pg_catalog.sum(kept), 0)::bigint as kept
    from gone
)
update {schema}.load l
set read = l.read - s.rejects,
    rejected = l.rejected - s.rejects,
    bytes_read = l.bytes_read - s.bytes,
    reject_bytes = l.reject_bytes - s.kept
from sums s
where l.load_id = $1
