-- A lane writes beside other lanes, of all loads into the table. If one of them has its turn alone, or waits for it, this
-- one waits for a turn too.
select pg_catalog.count({alone})
where not {together}
