-- Tokens that open the console of a VM, once, within a minute.

CREATE TABLE console_tokens (
    token_hash BYTEA NOT NULL, 
    vm_id BIGINT NOT NULL, 
    user_id BIGINT NOT NULL, 
    kind TEXT NOT NULL, 
    expires TIMESTAMP WITH TIME ZONE NOT NULL, 
    CONSTRAINT pk_console_tokens PRIMARY KEY (token_hash)
);

CREATE INDEX ix_console_tokens_expires ON console_tokens (expires);
