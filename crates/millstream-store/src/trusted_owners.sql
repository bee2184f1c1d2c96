-- The roles that this session trusts. $1 are roles that the caller trusts.
with recursive
{roles}trusted as (
    select role.oid
    from role
    where role.is_trusted
)
select trusted.oid
from trusted
