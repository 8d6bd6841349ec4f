create or replace view saga.inputs as
select i.run_id, i.number, i.from_claim, i.direction, i.input, i.at, i.actor
  from saga.shard s
  join saga.input i on i.shard = s.shard;
comment on view saga.inputs is
    'Corrected inputs of runs (retry with input). The first input is in saga.runs.';
comment on column saga.inputs.run_id is 'the run';
comment on column saga.inputs.number is 'place among its corrections, from 1';
comment on column saga.inputs.from_claim is
    'the first claim of the run that sees it: what was claimed before keeps the input it saw';
comment on column saga.inputs.direction is
    'execute: for actions and what undoes them; compensate: for compensations alone';
comment on column saga.inputs.input is 'the input, whole';
comment on column saga.inputs.at is 'when it was given';
comment on column saga.inputs.actor is 'by whom';
