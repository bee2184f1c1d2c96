-- Loads of other collections with their lanes and rejects, and collections of many rows.
insert into public.plain (id, doc)
select lpad(n::text, 6, '0'), '{"value": 1}'
from generate_series(100, {rows} + 99) n;

insert into public.checked (id, doc)
select id, doc
from public.plain
on conflict do nothing;

insert into public.tried (id, doc)
select id, doc
from public.plain
on conflict do nothing;

insert into millstream.load (
    table_oid, collection, mode, key, format, sources, slot_hash_version, state, epoch,
    resumable, durability, layout, lanes, floor_source, floor_offset
)
select
    1000000 + n, collection, mode, key, format, sources, slot_hash_version, state, epoch,
    resumable, durability, layout, lanes, array[0], array[0]
from (select * from millstream.load limit 1) as load, generate_series(1, {rows}) n;

-- A finished load has no lanes left, but the planner may have seen some.
insert into millstream.lane (load_id, lane, run, epoch, slot_first, slot_end)
select load_id, 0, 1, 1, 0, 256
from millstream.load;

insert into millstream.reject (load_id, source, byte_offset, line, reason, detail, bytes, truncated)
select load_id, 1, 10, 1, 'not_json', 'a reject of another load', 8, false
from millstream.load;

insert into millstream.tombstone (table_oid, version_of, id, version)
select 'public.plain'::regclass, 'value:bigint', convert_to(lpad(n::text, 6, '0'), 'utf8') || '\x00'::bytea, '\x00'::bytea
from generate_series(100, {rows} + 99) n;
