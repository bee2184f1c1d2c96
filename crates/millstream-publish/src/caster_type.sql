-- Whether the input of a type may look at the clock: that of the type itself, or of one that it is made of. Such an input
-- function is not immutable. Some others are not for another reason, and know no words for a time. And whether the type's
-- values are rows.
with recursive part (oid) as (
    select $1::text::pg_catalog.regtype::oid
    union
    select inside.oid
    from part
    join pg_catalog.pg_type t on t.oid = part.oid
    cross join lateral (
        select t.typelem
        union all
        select t.typbasetype
        union all
        select r.rngsubtype
        from pg_catalog.pg_range r
        where t.oid in (r.rngtypid, r.rngmultitypid)
        union all
        select a.atttypid
        from pg_catalog.pg_attribute a
        where a.attrelid = t.typrelid
          and a.attnum > 0
          and not a.attisdropped
    ) as inside (oid)
)
select exists (
    select
    from part
    join pg_catalog.pg_type t on t.oid = part.oid
    join pg_catalog.pg_proc p on p.oid = t.typinput::oid
    where t.typtype = 'b'
      and t.typinput::oid <> 'pg_catalog.array_in'::pg_catalog.regproc::oid
      and p.provolatile <> 'i'
), exists (
    select
    from pg_catalog.pg_type t
    left join pg_catalog.pg_type b on b.oid = t.typbasetype
    where t.oid = $1::text::pg_catalog.regtype::oid
      and 'c' in (t.typtype, b.typtype)
)
