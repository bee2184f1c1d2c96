\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
select * from lab_three_pl(:aid, :bid, :tid);
