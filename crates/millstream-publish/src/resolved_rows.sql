-- The query of a view as text and as it is stored, and the name of the table that it reads as it stands in the text.
select pg_catalog.pg_get_viewdef(ev_class::pg_catalog.regclass), ev_action::text, $2::text::pg_catalog.regclass::text
from pg_catalog.pg_rewrite
where ev_class = $1::text::pg_catalog.regclass::oid
