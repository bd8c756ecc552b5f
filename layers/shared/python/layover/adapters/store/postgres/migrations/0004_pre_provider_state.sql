-- What a model's provider wants back with one of its messages, as it was: its own thoughts and signatures.
alter table messages add column provider_state json;
