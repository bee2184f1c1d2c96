-- Whether the record can be believed: every trigger is there and fires, and a crash that empties the
-- collection empties the record too.
select (
        select pg_catalog.count(*) = 5
        from pg_catalog.pg_trigger
        where tgrelid = $1
          and tgname like 'millstream\_changed\_%'
          and tgenabled in ('O', 'A')
    )
    and (select relpersistence from pg_catalog.pg_class where oid = $1)
      = (select relpersistence from pg_catalog.pg_class where oid = $2::text::pg_catalog.regclass)
