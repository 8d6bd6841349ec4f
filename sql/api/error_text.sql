-- An error in one line, as sagactl prints it: "402 card_declined: the card was declined". A message
-- that only repeats the status is left out. Null if there is nothing to say.
create or replace function saga.error_text(status text, error json)
returns text
language sql immutable parallel safe
return nullif(pg_catalog.concat_ws(': ',
           nullif(pg_catalog.concat_ws(' ', status, error ->> 'code'), ''),
           nullif(error ->> 'message',
                  case when error ->> 'code' is not null
                       then 'the participant answered ' || status else '' end)), '');
comment on function saga.error_text(text, json) is
    'An error in one line: status code: message. [engine, operator, reader]';
