-- Fingerprints of the stored documents whose keys were asked for, each with its key, because no order
-- is promised. The inner offset keeps the text from being made once for every hash.
select pg_catalog.array_agg(found.key),
       pg_catalog.array_agg(pg_catalog.hashtextextended(found.text, $2::bigint)),
       pg_catalog.array_agg(pg_catalog.hashtextextended(found.text, $3::bigint))
from (
    select stored.{key} as key, stored.doc::text collate "C" as text
    from {table} as stored
    where stored.{key} = any ($1::{type}[])
    offset 0
) as found
