-- A thread's key is a number, and no longer a digest: the key of a message has 16 bytes, so that Postgres cuts a full
-- page of it behind a growing thread, and not into halves (docs/database.md#indexes). The functions of before cannot
-- work with it either (docs/database.md#migrations): it comes before the first release.

-- What is carried over is everybody's. With the policy forced on its owner, too, this script would see no row.
alter table threads no force row level security;
alter table messages no force row level security;
alter table message_embeddings no force row level security;
alter table compactions no force row level security;

alter table message_embeddings drop constraint message_embeddings_message_fkey;
alter table compactions drop constraint compactions_through_fkey;
alter table messages drop constraint messages_thread_fkey;

-- Names of before, until everything is carried over.
alter table threads rename column key to digest;
alter table threads rename constraint threads_key_key to threads_digest_key;
alter table threads add column key bigint not null generated always as identity;

create function thread_number(digest uuid) returns bigint language sql stable
    return (select t.key from threads t where t.digest = thread_number.digest);

alter table messages alter column thread type bigint using thread_number(thread);
alter table message_embeddings alter column thread drop expression;
alter table message_embeddings alter column thread type bigint using thread_number(thread);
alter table compactions alter column thread drop expression;
alter table compactions alter column thread type bigint using thread_number(thread);

drop function thread_number(uuid);
alter table threads drop column digest;
drop function thread_key(text);
drop function thread_key(text, text);

-- The owner last: a planner without statistics would take this index for a read of all that an owner has.
alter table threads add constraint threads_key_key unique (key, resource_id);
-- A number does not contain the owner, so each table that has one names the owner of it, too.
alter table messages
    add constraint messages_thread_fkey foreign key (thread, resource_id)
        references threads (key, resource_id) on delete cascade;
alter table message_embeddings
    add constraint message_embeddings_thread_fkey foreign key (thread, resource_id)
        references threads (key, resource_id) on delete cascade,
    add constraint message_embeddings_message_fkey foreign key (thread, branch_id, depth)
        references messages (thread, branch_id, depth) on delete cascade;
alter table compactions
    add constraint compactions_thread_fkey foreign key (thread, resource_id)
        references threads (key, resource_id) on delete cascade,
    add constraint compactions_through_fkey foreign key (thread, branch_id, through_depth)
        references messages (thread, branch_id, depth) on delete cascade;
-- Where the end of a thread looks for its generations. Alone: with a place behind it, reads of a path would take it.
create index compactions_thread_idx on compactions (thread);

alter table threads force row level security;
alter table messages force row level security;
alter table message_embeddings force row level security;
alter table compactions force row level security;
