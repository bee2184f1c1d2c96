-- The role of the tests has the name of our schema, which would come first.
set search_path = public;
create unlogged table events (id bigint primary key, doc jsonb not null);
insert into events values
    (1, '{"id": 1}'), (2, '{"id": 2, "price": 1.50}'), (3, '{"id": 3}');
create schema lab;
create table lab.readings (
    device text collate "C", at timestamptz, doc jsonb not null, primary key (device, at)
);
insert into lab.readings values ('a,b', '2026-01-01T00:00:00Z', '{"n": 1}');

insert into millstream.collection (table_oid, schema_name, table_name, key, adopted) values
    ('events'::regclass, 'public', 'events',
        '[{"name": "id", "path": ["id"], "type": "bigint"}]', false),
    ('lab.readings'::regclass, 'lab', 'readings',
        '[{"name": "device", "path": ["device"], "type": "text"},
          {"name": "at", "path": ["at"], "type": "timestamptz"}]', true);

insert into millstream.load (
    table_oid, collection, mode, key, format, sources, slot_hash_version, state, epoch,
    resumable, durability, layout, lanes, started_at, ended_at, floor_source, floor_offset,
    read, rejected, receipt
)
select
    'events'::regclass, 'events', mode, '[]', 'ndjson', array['a.ndjson', 'b.ndjson'], 1, state, 1,
    true, 'durable', 'table', 2, now() - age, case when state <> 'running' then now() - age end,
    array_fill(0, array[256]), array_fill(0::bigint, array[256]), 10, 1, receipt
from (values
    (1, 'replace', 'finished', interval '30 days', '{"read": 10}'::jsonb),
    (2, 'sum:n', 'finished', interval '30 days', null),
    (3, 'replace', 'stopped', interval '30 days', null),
    (4, 'replace', 'running', interval '30 days', null),
    (5, 'replace', 'finished', interval '0', null)
) v (n, mode, state, age, receipt)
order by n;

insert into millstream.lane (load_id, lane, run, epoch, slot_first, slot_end, read) values
    (4, 0, 1, 1, 0, 128, 60), (4, 1, 1, 1, 128, 256, 40);

insert into millstream.reject (
    load_id, source, byte_offset, line, reason, detail, document, document_base64, bytes,
    truncated, rejected_at
) values
    (1, 0, 1234, 17, 'not_json', 'expected a name at byte 1', '{oops', null, 5, false,
        now() - interval '2 days'),
    (1, 1, 0, 1, 'not_json', 'expected a value at byte 5', '{"a":', null, 5, false,
        now() - interval '2 days'),
    (3, 0, 99, 3, 'invalid_utf8', 'byte 0 is not UTF-8', null, '/w==', 1, false, now());
