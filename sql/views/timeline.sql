-- Made of what the rows of a run tell: nothing is written twice for it.
create or replace view saga.timeline as
select t.at, t.run_id, t.step_id, t.what, t.detail,
       (pg_catalog.row_number() over (partition by t.run_id order by t.at, t.rank, t.tie))::integer
           as seq,
       case when pg_catalog.split_part(t.step_id, '.', 2) ~ '^[0-9a-f]{32}$' -- a hash
            then (select p.pair ->> 2
                    from saga.effect l
                   cross join lateral pg_catalog.json_array_elements(l.items) p (pair)
                   where l.shard = saga.shard_of(t.run_id) and l.run_id = t.run_id
                     and l.step_id = pg_catalog.split_part(t.step_id, '.', 1) and l.item = ''
                     and l.direction = 'execute' and l.items is not null
                     and pg_catalog.pg_column_size(l.items) <= 16384
                     and p.pair ->> 0 = pg_catalog.split_part(t.step_id, '.', 2)
                   limit 1) end as item_text
  from (
    select r.created_at as at, r.run_id, null::text as step_id, 'submitted' as what,
           'by ' || r.actor as detail, 0 as rank, 0 as tie
      from saga.shard s join saga.run r on r.shard = s.shard
    union all -- what waits for a person's word is claimed, but sent once it is given
    select coalesce(w.decided_at, e.claimed_at), e.run_id,
           e.step_id || case when e.item = '' then '' else '.' || e.item end,
           case when e.direction = 'compensate' then 'compensating'
                when e.attempts = 0 then 'started' else 'claimed' end,
           case when e.items is not null then pg_catalog.json_array_length(e.items) || ' items'
                else saga.key_of(e.run_id, e.step_id, e.item, e.direction, e.generation) end,
           5, e.claim_no
      from saga.shard s join saga.effect e on e.shard = s.shard
      left join saga.approval w on w.shard = e.shard and w.run_id = e.run_id
                               and w.step_id = e.step_id and w.item = e.item
                               and w.direction = e.direction and w.generation = e.generation
     where e.claimed_at is not null and (e.claim_no > 0 or e.items is not null)
       and (e.approval is null or e.approval = 'approved')
    union all
    select w.asked_at, w.run_id,
           w.step_id || case when w.item = '' then '' else '.' || w.item end, 'approval asked',
           'of ' || case w.by when 'any' then 'anyone' when 'other' then 'anyone but its submitter'
                              else 'the group ' || w.by end ||
           ', until ' || saga.time_text(w.expires_at), 5, 0
      from saga.shard s join saga.approval w on w.shard = s.shard
    union all
    select coalesce(a.ended_at, a.sent_at), a.run_id,
           a.step_id || case when a.item = '' then '' else '.' || a.item end,
           case when a.direction = 'compensate' then 'compensation ' else '' end ||
           'attempt ' || coalesce(a.outcome::text, 'ended'),
           pg_catalog.concat_ws(' ', 'attempt ' || a.number || ':',
                                saga.error_text(coalesce(nullif(a.status, 0)::text,
                                                         a.error ->> 'status'), a.error)),
           1, a.number
      from saga.shard s join saga.attempt a on a.shard = s.shard
    union all
    select f.at, f.run_id, f.step_id || case when f.item = '' then '' else '.' || f.item end,
           case f.source when 'reconcile' then 'asked' when 'person' then 'settled'
                         else 'answered' end,
           case f.says when 'retryable' then 'not applied' when 'in_progress' then 'in progress'
                       when 'unknown' then 'cannot tell' else f.says::text end ||
           case when f.detail = '' then '' else ': ' || f.detail end ||
           case when f.actor = '' then '' else ' by ' || f.actor end, 1, 1000000 + f.number
      from saga.shard s join saga.finding f on f.shard = s.shard
    union all
    select e.ended_at, e.run_id,
           e.step_id || case when e.item = '' then '' else '.' || e.item end,
           case when e.direction = 'execute' then e.state::text
                when e.state = 'applied' then 'compensated'
                else 'compensation ' || e.state end,
           nullif(pg_catalog.concat_ws(' ', case when e.by_hand then 'by hand' end,
                                       case when e.attempts > 1
                                            then 'after ' || e.attempts || ' attempts' end,
                                       saga.error_text(e.error ->> 'status', e.error)), ''),
           2, case when e.items is null then e.claim_no else 2147483647 end -- after its items
      from saga.shard s join saga.effect e on e.shard = s.shard
     where e.ended_at is not null
    union all
    select v.at, v.run_id, nullif(v.step, ''), v.what,
           nullif(pg_catalog.concat_ws(' ', nullif(v.detail, ''),
                                       'by ' || nullif(v.actor, '')), ''), 3, v.seq
      from saga.shard s join saga.event v on v.shard = s.shard
    union all
    select w.at, r.run_id, null, 'suspect',
           'the database was restored to ' || saga.time_text(w.found_at) ||
           ': what happened to it since is not known', 4, w.no
      from saga.rewind w cross join saga.shard s
      join saga.run r on r.shard = s.shard and r.created_at < w.at
                     and (r.ended_at is null or r.ended_at > w.at)
    union all
    select r.ended_at, r.run_id, null, r.state::text, null, 9, 0
      from saga.shard s join saga.run r on r.shard = s.shard
     where r.ended_at is not null) t;
comment on view saga.timeline is
    'What happened to a run, in order: where run_id = ... order by seq.';
comment on column saga.timeline.at is 'when';
comment on column saga.timeline.run_id is 'the run';
comment on column saga.timeline.step_id is 'the step instance; null: the run itself';
comment on column saga.timeline.what is 'what happened, in a word or two';
comment on column saga.timeline.detail is 'more of it, in one line; null: there is no more';
comment on column saga.timeline.item_text is
    'what the item is called, where its name in keys is a hash of that; null: it is none, or its loop '
    'is large (sagactl events tells it)';
comment on column saga.timeline.seq is 'place in the history of the run, from 1';
