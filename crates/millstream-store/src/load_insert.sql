-- Records a new load. Nothing is committed yet, so the watermark of every slot is at the beginning.
insert into {schema}.load (
    table_oid, collection, mode, key, format, sources, slot_hash_version, lanes,
    state, epoch, durability, layout, resumable, transforms, floor_source, floor_offset, began
)
values (
    $1, $2, $3, ($4::text)::jsonb, $5, $6, $7, $8,
    'running', 0, $9, $11, $10, $12,
    pg_catalog.array_fill(0, array[256]), pg_catalog.array_fill(0::bigint, array[256]), (
{began}
    )
)
returning load_id
