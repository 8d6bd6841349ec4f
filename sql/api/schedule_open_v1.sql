-- Is the run of a schedule's last tick open, or on its way in the inbox? Without one: false.
create or replace function saga.schedule_open_v1(p_run_id text)
returns boolean
language sql stable
as $$
    select exists (select from saga.run r
                    where r.shard = saga.shard_of(p_run_id) and r.run_id = p_run_id
                      and r.ended_at is null)
        or exists (select from saga.inbox i
                    where i.shard = saga.shard_of(p_run_id)
                      and i.id = 'schedule-' || p_run_id
                      and i.outcome is null);
$$;
comment on function saga.schedule_open_v1(text) is 'Is the run of a tick open?';
