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
      (5, 'what was sent for it, and what came back?', 'select key, number, sent_at, outcome, status, '
          'error from saga.attempts where run_id = ''...'' order by ended_at'),
      (6, 'its idempotency keys', 'select * from saga.keys where run_id = ''...'''),
      (7, 'its inputs that people corrected', 'select * from saga.inputs where run_id = ''...'''),
      (8, 'why is it not finished?', 'select * from saga.why_waiting where run_id = ''...'''),
      (9, 'what does not go on by itself?', 'select * from saga.stuck'),
      (10, 'why is it not undone?', 'select * from saga.why_not_compensated where run_id = ''...'''),
      (11, 'what needs a person?', 'select run_id, reason, step_id, error, next_verbs '
                                  'from saga.dead_letters'),
      (12, 'what waits for approval?', 'select * from saga.pending_approvals'),
      (13, 'who approved what?', 'select * from saga.approvals where run_id = ''...'''),
      (14, 'of what is the outcome unknown?', 'select * from saga.unknown_outcomes'),
      (15, 'what was found out about it?', 'select * from saga.findings where run_id = ''...'''),
      (16, 'decide', 'select saga.retry(''RUN'', ''reason''), or settle, skip, compensate, abandon, '
                    'cancel, pause, resume; \df saga.* lists them'),
      (17, 'what became of that?', 'select * from saga.requests order by at desc limit 20'),
      (18, 'who did what?', 'select * from saga.audit order by at desc limit 20; '
          'select * from saga.audit_verify()'),
      (19, 'how far are verbs for many runs?', 'select * from saga.bulk order by at desc'),
      (20, 'which runs refused one?', 'select run_id, outcome, answer from saga.bulk_runs '
          'where bulk_id = ''...'' and outcome in (''refused'', ''lost'')'),
      (21, 'what can be started?', 'select * from saga.workflows'),
      (22, 'start a run with your own rows', 'begin; insert into orders ...; '
          'select saga.start(''order'', ''{"order_id": 1}''); commit'),
      (23, 'who does the work?', 'select * from saga.daemons'),
      (24, 'what does the clock start?', 'select * from saga.schedules'),
      (25, 'who holds a lock, and who waits for it?',
           'select * from saga.locks order by lock, position'),
      (26, 'what waits for a service?', 'select * from saga.services'),
      (27, 'what came too late?', 'select * from saga.late_answers'),
      (28, 'how did a run end that is gone?', 'select * from saga.tombstones '
           'where run_id = ''...'''),
      (29, 'was the database restored?', 'select * from saga.rewinds'),
      (30, 'what became doubtful by that?', 'select * from saga.suspects; '
           'select * from saga.lost_starts'),
      (31, 'who sees which tenants?', 'select * from saga.tenants'),
      (32, 'who is told of what still waits?', 'select * from saga.alerts order by since desc'),
      (33, 'everything there is', '\dv+ saga.*  and  \d+ saga.runs')) as h (no, topic, try_this)
 order by h.no;
comment on view saga.help is 'Where to start.';
comment on column saga.help.topic is 'the question';
comment on column saga.help.try_this is 'what answers it';
