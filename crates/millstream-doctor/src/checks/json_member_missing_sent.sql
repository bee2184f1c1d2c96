-- The queries of JSON that sessions in this database have sent last, with their constants. A longer one is cut, and cannot
-- be planned. $1: at most so many.
select distinct on (query)
    query,
    concat_ws(', ', usename, nullif(application_name, '')) as sender
from
    pg_stat_activity
where
    datname = current_database()
    and backend_type = 'client backend'
    and pid <> pg_backend_pid()
    -- After comments and brackets.
    and query ~* '^(\s|\(|--[^\n]*\n|/\*([^*]|\*+[^*/])*\*+/)*(select|with)\M'
    and query ~ '->|#>|\?|\['
    and octet_length(query) < pg_size_bytes(current_setting('track_activity_query_size')) - 1
order by
    query,
    sender
limit $1
