-- The repairs of what now.plant.sql leaves behind. The sessions have ended.
rollback prepared 'forgotten';

vacuum (full, analyze) hollow;

reindex index sparse_pkey;

analyze sparse;

vacuum held;

select pg_stat_reset();
