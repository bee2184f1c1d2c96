\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
begin \;
select abalance from pgbench_accounts where aid = :aid \;
select tbalance from pgbench_tellers where tid = :tid \;
select bbalance from pgbench_branches where bid = :bid \;
commit;
