select sum(sqrt(n)) from generate_series(1, 20000) as n;
