-- The range of a table that an address lies in: the one that begins last before the address, unless it has ended.
-- inet sorts IPv4 before IPv6. So an IPv6 address below all ranges of IPv6 meets the last one of IPv4, and that one
-- ends before the address. A netmask would change the order, therefore it is cut.
create or replace function {schema}.range_of(ranges regclass, ip inet)
returns table (start inet, "end" inet, doc jsonb)
language plpgsql
stable
strict
parallel safe
rows 1
set search_path = pg_catalog, pg_temp
as $function$
begin
    return query execute format(
        'select r.start, r."end", r.doc
         from (select * from %s where start <= $1 order by start desc limit 1) r
         where r."end" >= $1',
        ranges
    ) using set_masklen(ip, case family(ip) when 4 then 32 else 128 end);
end
$function$
