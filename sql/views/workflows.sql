create or replace view saga.workflows as
select w.name as workflow, w.version, pg_catalog.encode(w.hash, 'hex') as hash, w.current,
       nullif(w.description, '') as description,
       pg_catalog.json_array_length(w.steps) as steps, w.applied_at, w.applied_by, w.source
  from saga.workflow w;
comment on view saga.workflows is 'Definitions, old ones too: runs keep the one they began with.';
comment on column saga.workflows.workflow is 'name of the workflow';
comment on column saga.workflows.version is 'its label, or the first digits of its hash';
comment on column saga.workflows.hash is 'SHA-256 of its content';
comment on column saga.workflows.current is 'new runs of this name get it';
comment on column saga.workflows.description is 'what it says of itself';
comment on column saga.workflows.steps is 'number of its steps';
comment on column saga.workflows.applied_at is 'when it was applied last';
comment on column saga.workflows.applied_by is 'by whom';
comment on column saga.workflows.source is 'the YAML as it was applied';
