select
    r.load_id,
    coalesce(l.sources[r.source + 1], '') as source,
    r.line,
    r.byte_offset,
    r.reason,
    r.detail,
    r.document,
    r.document_base64,
    r.bytes,
    r.truncated,
    pg_catalog.to_char(r.rejected_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as rejected_at
