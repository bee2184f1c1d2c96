create or replace function lab_tpcb_sql(aid int, bid int, tid int, delta int) returns int language sql as $$
    insert into pgbench_history (tid, bid, aid, delta, mtime) values ($3, $2, $1, $4, current_timestamp);
    update pgbench_branches set bbalance = bbalance + $4 where bid = $2;
    update pgbench_tellers set tbalance = tbalance + $4 where tid = $3;
    update pgbench_accounts set abalance = abalance + $4 where aid = $1 returning abalance;
$$;
create or replace function lab_tpcb_pl(the_aid int, the_bid int, the_tid int, the_delta int) returns int
language plpgsql as $$
declare
    balance int;
begin
    update pgbench_accounts set abalance = abalance + the_delta where aid = the_aid returning abalance into balance;
    update pgbench_tellers set tbalance = tbalance + the_delta where tid = the_tid;
    update pgbench_branches set bbalance = bbalance + the_delta where bid = the_bid;
    insert into pgbench_history (tid, bid, aid, delta, mtime)
    values (the_tid, the_bid, the_aid, the_delta, current_timestamp);
    return balance;
end;
$$;
create or replace function lab_three_sql(aid int, bid int, tid int, out a int, out t int, out b int) language sql as $$
    select (select abalance from pgbench_accounts where aid = $1),
           (select tbalance from pgbench_tellers where tid = $3),
           (select bbalance from pgbench_branches where bid = $2);
$$;
create or replace function lab_three_pl(the_aid int, the_bid int, the_tid int, out a int, out t int, out b int)
language plpgsql as $$
begin
    select abalance into a from pgbench_accounts where aid = the_aid;
    select tbalance into t from pgbench_tellers where tid = the_tid;
    select bbalance into b from pgbench_branches where bid = the_bid;
end;
$$;
