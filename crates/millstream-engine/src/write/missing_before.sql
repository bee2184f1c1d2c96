-- Whether the row was written before the load began. xmin has the lower 32 bits of the number of the transaction that
-- wrote it. The whole number is the greatest one with these bits, but for a margin: a row that was committed while the
-- statement ran may have a number beyond those that the statement has seen.
pg_catalog.pg_visible_in_snapshot(
    (seen.millstream_bound - ((seen.millstream_bound - stored.xmin::text::bigint) & 4294967295))::text::xid8,
    ${began}::text::pg_snapshot
)
