-- Writes beside others, into one table. If one of them has its turn alone, or waits for it, this one waits for a turn too,
-- for any time.
select pg_catalog.set_config('lock_timeout', '{timeout_s}s', true)
from (
    select pg_catalog.count({exclusive}) as turns
    where not {shared}
      and pg_catalog.set_config('lock_timeout', '0', true) <> ''
) as waited
where turns > 0
