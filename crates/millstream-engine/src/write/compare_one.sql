-- Fingerprints of the stored documents with these keys. Each comes with its key, because the order is not defined. The
-- inner offset keeps the server from making the text once for each hash.
select pg_catalog.array_agg(found.key),
       pg_catalog.array_agg(pg_catalog.hashtextextended(found.text, $2::bigint)),
       pg_catalog.array_agg(pg_catalog.hashtextextended(found.text, $3::bigint))
from (
    select stored.{key} as key, stored.doc::text collate "C" as text
    from {table} as stored
    where stored.{key} operator(pg_catalog.=) any ($1::{type}[])
    offset 0
) as found
