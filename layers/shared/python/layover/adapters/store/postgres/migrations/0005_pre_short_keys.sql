-- Short keys: messages are found by a key of their thread, and no longer by its id and its owner's. The first
-- migration that the functions of before cannot work with (docs/database.md#migrations): it comes before the first
-- release.

-- A thread's key. It contains the owner, so one owner's key is never another's. Of immutable functions alone, so that
-- queries contain it and do not call it: `convert_to` is none.
create function thread_key(owner text, id text) returns uuid language sql immutable parallel safe
    return encode(substr(sha256(decode(replace(owner || U&'\001F' || id, '\', '\\'), 'escape')), 1, 16), 'hex')::uuid;

-- Of the transaction's owner.
create function thread_key(id text) returns uuid language sql stable parallel safe
    return thread_key(nullif(current_setting('app.resource_id', true), ''), id);

-- What is carried over is everybody's. With the policy forced on its owner, too, this script would see no row.
alter table threads no force row level security;
alter table messages no force row level security;
alter table message_embeddings no force row level security;
alter table compactions no force row level security;

alter table message_embeddings drop constraint message_embeddings_message_fkey;
alter table compactions drop constraint compactions_through_fkey;

alter table threads
    add column key uuid not null generated always as (thread_key(resource_id, id)) stored,
    -- The owner last: a planner without statistics would take this index for a read of all that an owner has.
    add constraint threads_key_key unique (key, resource_id);

alter table messages rename to former_messages;
alter table former_messages
    drop constraint messages_pkey,
    drop constraint messages_id_key,
    drop constraint messages_branch_fkey,
    drop constraint messages_role_check;

-- Fields of a fixed size first: no byte goes into padding.
create table messages (
    created_at timestamptz not null,
    branch_id integer not null,
    depth integer not null,
    token_count integer,
    thread uuid not null,
    resource_id text not null default nullif(current_setting('app.resource_id', true), ''),
    id text not null,
    run_id text,
    role text not null,
    -- Stored where it is not the message before it on its branch.
    parent_id text,
    content json not null,
    -- '=': the result's text. Text of its own that begins with '=' has one more.
    model_output text,
    provider_state json
);

insert into messages (created_at, branch_id, depth, token_count, thread, resource_id, id, run_id, role, parent_id,
                      content, model_output, provider_state)
select m.created_at, m.branch_id, m.depth, m.token_count, thread_key(m.resource_id, m.thread_id), m.resource_id, m.id,
       m.run_id, m.role,
       nullif(m.parent_id,
              lag(m.id) over (partition by m.resource_id, m.thread_id, m.branch_id order by m.depth)),
       m.content, case when m.model_output like '=%' then '=' || m.model_output else m.model_output end,
       m.provider_state
from former_messages m;

drop table former_messages;

-- The owner is part of the thread's key. The thread's row is locked by every writer; a branch's would be locked by
-- the foreign key alone, and that is a record of its own in each turn's log.
alter table messages
    add constraint messages_pkey primary key (thread, branch_id, depth),
    add constraint messages_thread_fkey foreign key (thread, resource_id)
        references threads (key, resource_id) on delete cascade,
    add constraint messages_role_check check (role in ('user', 'assistant', 'tool', 'custom'));
-- Not unique: that an id is once in its thread is up to `insert_messages`, behind the thread's lock.
create index messages_id_idx on messages (id);

-- What is found by key or id is one owner's: of these rows all pass the policy. A planner that took it for a filter
-- that hardly a row passes would read and sort all of a branch to find its last message. It takes most rows for not
-- null, and all owners for few rows.
alter table messages enable row level security;
create policy messages_owner on messages
    using (nullif(resource_id = nullif(current_setting('app.resource_id', true), ''), false) is not null)
    with check (resource_id = nullif(current_setting('app.resource_id', true), ''));
grant select, insert, update, delete on messages to layover_runtime;

alter table message_embeddings
    drop constraint message_embeddings_pkey,
    add column thread uuid not null generated always as (thread_key(resource_id, thread_id)) stored;
alter table message_embeddings
    add constraint message_embeddings_pkey primary key (thread, branch_id, depth),
    add constraint message_embeddings_message_fkey foreign key (thread, branch_id, depth)
        references messages (thread, branch_id, depth) on delete cascade;

alter table compactions add column thread uuid not null generated always as (thread_key(resource_id, thread_id)) stored;
alter table compactions
    add constraint compactions_through_fkey foreign key (thread, branch_id, through_depth)
        references messages (thread, branch_id, depth) on delete cascade;
-- Where the end of a message looks for its generations.
create index compactions_through_idx on compactions (through_depth, branch_id, thread);

alter table threads force row level security;
alter table messages force row level security;
alter table message_embeddings force row level security;
alter table compactions force row level security;

-- The final tree of a run, on the first of its rows. A run without any has it in run_snapshots.
alter table usage add column tree json;
alter table run_snapshots drop column status, drop column created_at;

-- SSDs and Aurora read any page alike. With the costs of a disk that turns, a planner sorts a whole branch, by a
-- bitmap, to find the last message of it: where most threads are short, both look alike to it.
alter role layover_runtime set random_page_cost = 1.1;
