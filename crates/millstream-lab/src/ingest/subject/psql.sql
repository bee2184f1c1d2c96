-- The table and the file are filled in. Quote and delimiter are bytes that JSON text never holds, so that
-- every line is one value. The rows of a table just copied lie in order of arrival, so the last document
-- of a key is the one with the highest ctid. The key's collation lets the merge visit the index in order.
create temporary table stage (doc jsonb);

\copy stage (doc) from 'the_documents' with (format csv, quote e'\x01', delimiter e'\x02')

insert into the_table (id, doc)
select distinct on ((doc ->> 'id') collate "C")
    doc ->> 'id',
    doc
from
    stage
order by
    (doc ->> 'id') collate "C",
    ctid desc
on conflict (id) do update set
    doc = excluded.doc;
