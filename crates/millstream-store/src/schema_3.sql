-- Third version of the tables: read models.

-- A read model of a collection. Its rows are in {schema}.model_ID, partitioned by generation, of which
-- the model's view shows the one that `serving` names: whoever reads the view sees the rows and this line
-- in one snapshot. `shows` is the snapshot of the collection that those rows are equal to.
create table {schema}.model (
    model_id integer generated always as identity primary key,
    table_oid oid not null,
    schema_name text not null,
    model_name text not null,
    definition jsonb not null,
    view_oid oid,
    serving smallint not null default 1,
    shows pg_snapshot,
    refreshed_at timestamptz,
    way text,
    created_at timestamptz not null default now(),
    unique (schema_name, model_name)
);
create index model_table_oid on {schema}.model (table_oid);
