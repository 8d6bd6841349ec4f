-- What a refused request was refused for, as a code beside its words.

alter table saga.inbox add column code text;
comment on column saga.inbox.code is
    'why it was not done: not_found, invalid, conflict ...; null: done, not settled, or not kept';

alter table saga.bulk_request add column lost integer not null default 0;
comment on column saga.bulk_request.lost is 'runs that were gone when it was their turn';

comment on column saga.effect.items is
    'of a for_each, in its own row (item ''''): the list of [key, item] that its instances stand for, '
    'fixed when the step began and never written again; with a third text where the key is a hash: '
    'what it was made of';
