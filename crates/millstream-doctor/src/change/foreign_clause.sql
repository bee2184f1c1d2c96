-- What the clause of an index may name that would run code of another role with this session's rights, and that role; nothing
-- if this session has no more rights than tables need. The clause is only compared with names: to parse it would already read
-- its literals, and to read one of a domain is to run its check. So a name counts wherever it stands. Functions of the owner
-- of the table run as that owner. $1: the table. $2: the clause. $3: its words. $4: whether it may have literals.
with recursive
target as (
    select
        t.oid,
        t.relowner as owner,
        t.relnamespace as namespace
    from
        pg_class as t
    where
        t.oid = $1::text::regclass
),
stranger as (
    select
        o.oid,
        o.rolname::text as name
    from
        pg_roles as o
    where
        not o.rolsuper
        and o.rolname not in (session_user, current_user)
),
-- Types that hold a domain of a stranger, or one whose check calls a function of a stranger.
risky (oid, stranger) as (
    select
        t.oid,
        s.oid
    from
        pg_type as t
        cross join stranger as s
    where
        t.typtype = 'd'
        and (
            t.typowner = s.oid
            or exists (
                select
                from
                    pg_constraint as k
                    join pg_depend as d on d.classid = 'pg_constraint'::regclass and d.objid = k.oid
                    join pg_proc as p on p.oid = d.refobjid
                where
                    k.contypid = t.oid
                    and d.refclassid = 'pg_proc'::regclass
                    and p.proowner = s.oid
            )
        )
    union
    select
        more.oid,
        risky.stranger
    from
        risky
        cross join lateral (
            select t.oid from pg_type as t where risky.oid in (t.typelem, t.typbasetype)
            union all
            select c.reltype
            from pg_attribute as a join pg_class as c on c.oid = a.attrelid
            where a.atttypid = risky.oid and a.attnum > 0
            union all
            select g.rngtypid from pg_range as g where g.rngsubtype = risky.oid
            union all
            select g.rngmultitypid from pg_range as g where g.rngsubtype = risky.oid
        ) as more
    where
        more.oid <> 0
),
-- Schemas in which the clause may name something.
near as (
    select
        n.oid
    from
        pg_namespace as n
        cross join target
    where
        n.oid = target.namespace
        or n.nspname in ('pg_catalog', 'public')
        or n.nspname::text = any ($3::text[])
        or strpos($2::text, '"' || replace(n.nspname::text, '"', '""') || '"') > 0
),
called as (
    select
        p.proowner as owner,
        p.proargtypes::oid[] as types,
        'the function ' || p.oid::regprocedure::text as what
    from
        pg_proc as p
        join near on near.oid = p.pronamespace
    where
        p.proname::text = any ($3::text[])
        or strpos($2::text, '"' || replace(p.proname::text, '"', '""') || '"') > 0
    union all
    select
        p.proowner,
        array[o.oprleft, o.oprright],
        'the operator ' || o.oid::regoperator::text
    from
        pg_operator as o
        join near on near.oid = o.oprnamespace
        join pg_proc as p on p.oid = o.oprcode
    where
        strpos($2::text, o.oprname::text) > 0
),
found as (
    select
        called.what,
        stranger.name as owner
    from
        called
        join stranger on stranger.oid = called.owner
        cross join target
    where
        called.owner <> target.owner
    union all
    select
        called.what,
        stranger.name
    from
        called
        join risky on risky.oid = any (called.types)
        join stranger on stranger.oid = risky.stranger
    where
        $4::bool
    union all
    select
        'the type ' || t.oid::regtype::text,
        stranger.name
    from
        risky
        join pg_type as t on t.oid = risky.oid
        join near on near.oid = t.typnamespace
        join stranger on stranger.oid = risky.stranger
    where
        $4::bool
        and (
            t.typname::text = any ($3::text[])
            or strpos($2::text, '"' || replace(t.typname::text, '"', '""') || '"') > 0
        )
    union all
    select
        format('the column %I', a.attname),
        stranger.name
    from
        risky
        join pg_attribute as a on a.atttypid = risky.oid
        join target on target.oid = a.attrelid
        join stranger on stranger.oid = risky.stranger
    where
        $4::bool
        and a.attnum > 0
        and (
            a.attname::text = any ($3::text[])
            or strpos($2::text, '"' || replace(a.attname::text, '"', '""') || '"') > 0
        )
)
select
    found.what,
    found.owner,
    pg_get_userbyid(target.owner)::text as table_owner
from
    found
    cross join target
where
    exists (
{powers})
order by
    found.what
limit 1
