create or replace view saga.help as
select h.topic, h.try_this
  from (values
      (1, 'what is going on?', 'select * from saga.stats'),
      (2, 'the newest runs', 'select run_id, workflow, state, waiting_for, age from saga.runs '
                             'order by created_at desc limit 20'),
      (3, 'one run', 'select step_id, state, compensation_state, attempts, error from saga.steps '
                     'where run_id = ''...'' order by position'),
      (4, 'its history', 'select at, step_id, what, detail from saga.timeline '
                         'where run_id = ''...'' order by seq'),
      (5, 'why is it not finished?', 'select * from saga.why_waiting where run_id = ''...'''),
      (6, 'what does not go on by itself?', 'select * from saga.stuck'),
      (7, 'why is it not undone?', 'select * from saga.why_not_compensated where run_id = ''...'''),
      (8, 'what needs a person?', 'select run_id, reason, step_id, error, next_verbs '
                                  'from saga.dead_letters'),
      (9, 'decide', 'select saga.retry(''RUN'', ''reason''), or settle, skip, compensate, abandon, '
                    'cancel, pause, resume; \df saga.* lists them'),
      (10, 'what became of that?', 'select * from saga.requests order by at desc limit 20'),
      (11, 'how far are verbs for many runs?', 'select * from saga.bulk order by at desc'),
      (12, 'start a run with your own rows', 'begin; insert into orders ...; '
          'select saga.start(''order'', ''{"order_id": 1}''); commit'),
       (13, 'who does the work?', 'select * from saga.daemons'),
       (14, 'what does the clock start?', 'select * from saga.schedules'),
       (15, 'who holds a lock, and who waits for it?',
            'select * from saga.locks order by lock, position'),
       (16, 'what waits for a service?', 'select * from saga.services'),
      (17, 'what came too late?', 'select * from saga.late_answers'),
      (18, 'how did a run end that is gone?', 'select * from saga.tombstones '
           'where run_id = ''...'''),
      (19, 'was the database restored?', 'select * from saga.rewinds'),
      (20, 'what became doubtful by that?', 'select * from saga.suspects; '
           'select * from saga.lost_starts'),
      (21, 'who was told of what?', 'select * from saga.alerts order by since desc'),
      (22, 'everything there is', '\dv+ saga.*  and  \d+ saga.runs')) as h (no, topic, try_this)
 order by h.no;
comment on view saga.help is 'Where to start.';
comment on column saga.help.topic is 'the question';
comment on column saga.help.try_this is 'what answers it';
