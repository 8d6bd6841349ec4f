-- Starts a run in the caller's transaction: with your own rows, or not at all. Returns its id: the
-- one that the workflow's template gives, else run_id, else a new UUID. With start_at the run is
-- queued until then; a time that has passed means at once. The same id with the same
-- input is the same run, however often it is started. The daemon that owns the id picks it up
-- after commit; what it then refuses (an input that does not fit the schema) is in saga.requests.
-- Writes neither run nor run_key, so that a transaction that stays open holds nobody up.
create or replace function saga.start(workflow text, input jsonb, run_id text default null,
                                      tenant text default null,
                                      start_at timestamptz default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
#variable_conflict use_column
declare
    v_workflow saga.workflow;
    v_input jsonb := coalesce(start.input, '{}');
    v_tenant text := coalesce(start.tenant, '');
    v_id text;
    v_known record;
begin
    select * into v_workflow from saga.workflow w where w.name = start.workflow and w.current;
    if not found then
        raise exception 'there is no workflow "%"', start.workflow
              using errcode = 'undefined_object', hint = 'select workflow from saga.workflows';
    end if;
    if not isfinite(start.start_at) then
        raise exception 'start_at must be a time, not "%"', start.start_at
              using errcode = 'invalid_parameter_value';
    end if;
    if start.run_id is null or json_typeof(v_workflow.run_id_parts) = 'array' then
        v_id := saga.run_id_render_v1(v_workflow.run_id_parts, v_input);
        if v_id <> start.run_id then
            raise exception 'the run id of this input is "%", not "%"', v_id, start.run_id
                  using errcode = 'invalid_parameter_value';
        end if;
    end if;
    v_id := coalesce(v_id, start.run_id, saga.uuid7_v1());
    if v_id !~ '^[A-Za-z0-9._-]{1,94}$' then
        raise exception 'run id "%" is not 1 to 94 letters, digits, ".", "_" or "-"', v_id
              using errcode = 'invalid_parameter_value';
    end if;

    select k.workflow, k.tenant, r.input::text::jsonb = v_input as same, r.run_id is null as gone
      into v_known
      from saga.run_key k
      left join saga.run r on r.shard = k.shard and r.run_id = k.run_id
     where k.shard = saga.shard_of(v_id) and k.run_id = v_id;
    if found then
        if v_known.tenant <> v_tenant then
            raise exception 'run id "%" is taken', v_id using errcode = 'unique_violation';
        end if;
        -- Where a schema declares spellings to be one value, the owner compares.
        if v_known.workflow <> start.workflow
           or (not v_known.same and v_workflow.source !~ 'x-normalize') then
            raise exception 'run id "%" was used with another input or workflow', v_id
                  using errcode = 'unique_violation';
        end if;
        if v_known.same then
            return v_id;
        end if;
    end if;
    insert into saga.inbox (shard, id, kind, run_id, workflow_hash, body, actor)
    values (saga.shard_of(v_id), saga.uuid7_v1(), 'start', v_id, v_workflow.hash,
            json_build_object('input', v_input, 'tenant', nullif(v_tenant, ''),
                              'start_at', saga.time_text(start.start_at)),
            'role:' || session_user);
    return v_id;
end
$$;
comment on function saga.start(text, jsonb, text, text, timestamptz) is
    'Starts a run in your transaction; returns its id. [submit, operator]';
