-- What table $1 can refuse a document for, if it has only checks and generated columns. $2: the columns of its key; $3:
-- its typed columns. Each column of the answer is true if folding is the easier for it.
with kept as (
    select attnum, attname::pg_catalog.text as name, attnotnull, attgenerated, atttypid
    from pg_catalog.pg_attribute
    where attrelid = $1
      and attnum > 0
      and not attisdropped
),
checked as (
    select coalesce(conkey, '{}') as columns
    from pg_catalog.pg_constraint c
    where conrelid = $1
      and contype = 'c'
      and coalesce((pg_catalog.to_jsonb(c) operator(pg_catalog.->>) 'conenforced')::boolean, true)
),
failing as (
    select kept.name, kept.attnotnull
    from kept
    join pg_catalog.pg_attrdef d on d.adrelid = $1 and d.adnum = kept.attnum
    where attgenerated <> ''
      and (
          attnotnull
          or attgenerated = 's'
              and (
                  -- The printed expression leaves out a cast to the column's type, which can fail.
                  atttypid not in (
                      'pg_catalog.text'::pg_catalog.regtype::pg_catalog.oid,
                      'pg_catalog.jsonb'::pg_catalog.regtype::pg_catalog.oid
                  )
                  or pg_catalog.pg_get_expr(d.adbin, d.adrelid)
                      operator(pg_catalog.!~) '^\(*doc\)*( ->>? ''[^'']*''::text\)?)*$'
              )
      )
)
select
    -- Checks read nothing but the key.
    not exists (
        select
        from checked
        where not columns operator(pg_catalog.<@) array(select attnum from kept where name = any ($2))
    ) as checks_key,
    -- No column is computed in a way that can fail: each takes a member, or is computed when it is read.
    not exists (select from failing) as takes_members,
    -- If any is, it is a typed column.
    not exists (select from failing where attnotnull or not name = any ($3)) as takes_members_or_typed,
    -- A row is judged by its key and document alone. A check of whole rows has a column 0.
    not exists (
        select
        from kept
        where attgenerated = ''
          and name <> 'doc'
          and not name = any ($2)
    ) and not exists (
        select
        from checked
        where 0 = any (columns)
    ) as judges_documents
