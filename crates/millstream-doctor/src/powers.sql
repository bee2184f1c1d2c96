-- What this role may do that a function of somebody else must not: null if it can only read and write tables.
select string_agg(power, ', and ' order by power)
from (
{powers}) as p
