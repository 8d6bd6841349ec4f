-- Runs whose owners died over and over are taken up apart from the others.

alter table saga.run add column apart boolean not null default false;
comment on column saga.run.apart is
    'its owner died in mid-attempt more than once: it is loaded apart, after the others';
create index run_apart on saga.run (shard, run_id) where apart;
