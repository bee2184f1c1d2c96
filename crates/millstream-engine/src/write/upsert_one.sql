insert into {table} as stored ({key}, doc) values ({values}, r.doc)
on conflict ({key}) do {action}
returning {inserted}::integer
into replay.added;
changed := coalesce(1 - added, 0);
added := coalesce(added, 0);
