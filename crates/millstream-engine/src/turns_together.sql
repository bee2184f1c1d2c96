-- Writes beside others, into one table. If one of them has its turn alone, or waits for it, this one waits for a turn too.
select pg_catalog.count({exclusive})
where not {shared}
