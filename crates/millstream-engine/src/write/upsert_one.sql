insert into {table} as stored ({key}, doc) values ({values}, r.doc)
on conflict ({key}) do {action}
returning (xmax = 0)::integer, (xmax <> 0)::integer
into walk.added, walk.changed;
added := coalesce(added, 0);
changed := coalesce(changed, 0);
