-- The comment of a change record, with the marks of the columns that the collection has got since it was written; nothing if there
-- are none. Also the record's owner, if this role may not write the comment, and the first of the new columns that a model uses,
-- of those of $5. $1 is the collection, $2 and $3 are the functions of the record's triggers, $4 is the record.
select c.relnatts::text || pg_catalog.substr(comment.text, pg_catalog.length(known.last) + 1) || ' ' || added.marks as marked,
       case
           when not pg_catalog.pg_has_role(kept.relowner, 'usage') then pg_catalog.pg_get_userbyid(kept.relowner)::text
       end as other_owner,
       added.used
from pg_catalog.pg_class c
join pg_catalog.pg_class kept on kept.oid = pg_catalog.to_regclass($4)::oid
cross join lateral (
    select pg_catalog.obj_description(kept.oid, 'pg_class') as text
) as comment
cross join lateral (
    select (pg_catalog.regexp_match(comment.text, '^([0-9][0-9]?[0-9]?[0-9]?) '))[1] as last
) as known
cross join lateral (
    select pg_catalog.string_agg(relied.mark, ' ' order by relied.nth) as marks,
           pg_catalog.min(a.attname::text) filter (
               where '"' || pg_catalog.replace(a.attname::text, '"', '""') || '"' = any ($5::text[])
           ) as used
    from (
{marks}    ) as relied
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = relied.nth
    where relied.nth > known.last::integer
) as added
where c.oid = $1
  and added.marks is not null
