-- An entry that was imported: no thread of Layover's taught it.
alter table memory_entries alter column thread_id drop not null;
