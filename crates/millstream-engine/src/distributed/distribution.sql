-- The column by whose hash the table $1 is distributed; null if it is not distributed by a hash.
select case when p.partmethod = 'h' then pg_catalog.column_to_column_name(p.logicalrelid, p.partkey) end
from pg_catalog.pg_dist_partition p
where p.logicalrelid::oid = $1
