-- Whether the record can be believed: every trigger is there and fires, and a crash that empties the
-- collection empties the record too. Known by what they call, so that a model in another schema has its own.
select (
        select pg_catalog.count(*) = 5
        from pg_catalog.pg_trigger t
        where t.tgrelid = $1
          and t.tgfoid in (pg_catalog.to_regprocedure($3), pg_catalog.to_regprocedure($4))
          and t.tgenabled in ('O', 'A')
    )
    and (select relpersistence from pg_catalog.pg_class where oid = $1)
      = (select relpersistence from pg_catalog.pg_class where oid = $2::text::pg_catalog.regclass)
