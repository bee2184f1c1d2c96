-- How the table $1 is distributed: the column by whose hash, null if it is not distributed by a hash; and whether the role
-- owns it, as whoever locks shards against moves must.
select
    case when p.partmethod = 'h' then pg_catalog.column_to_column_name(p.logicalrelid, p.partkey) end as hashed,
    pg_catalog.pg_has_role(c.relowner, 'usage') as is_owned
from pg_catalog.pg_dist_partition p
join pg_catalog.pg_class c on c.oid = p.logicalrelid::oid
where p.logicalrelid::oid = $1
