-- Releases nothing more of a verb in bulk; what is out is still decided. Null if there is none of
-- this id; else the request as saga.bulk_json_v1 shows it. Over already: nothing changes.
create or replace function saga.bulk_stop_v1(p_id text, p_actor text)
returns json
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    update saga.bulk_request set stopped = 'stopped by ' || p_actor
     where bulk_id = p_id and ended_at is null and stopped is null;
    return saga.bulk_json_v1(p_id);
end
$$;
comment on function saga.bulk_stop_v1(text, text) is 'Stops a verb in bulk. [engine]';
