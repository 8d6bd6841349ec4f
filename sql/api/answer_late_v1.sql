-- Keeps a participant's word on a key of a run whose data was removed: nothing can follow from it
-- by itself, but somebody should see it (saga.late_answers). Returns the id of the request.
create or replace function saga.answer_late_v1(p_run_id text, p_body json, p_answer text,
                                               p_actor text)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    insert into saga.inbox (shard, id, kind, run_id, body, actor, outcome, answer, settled_at)
    values (saga.shard_of(p_run_id), saga.uuid7_v1(), 'answer', p_run_id, p_body, p_actor,
            'conflict', p_answer, clock_timestamp())
    returning id;
$$;
comment on function saga.answer_late_v1(text, json, text, text) is
    'Keeps an answer that came after its run was removed. [engine]';
