\set start random(1, :keys)
insert into lab_upsert as stored (id, doc)
select 'key' || lpad(n::text, 9, '0'),
       jsonb_build_object('id', 'key' || lpad(n::text, 9, '0'), 'n', n, 'kind', n % 7, 'at', :start::int,
                          'text', repeat('abcdefghij', 6))
from (select distinct (:start::int + i * 7919) % :keys::int as n from generate_series(1, :batch::int) as i) as keys
on conflict (id) do update set doc = excluded.doc;
