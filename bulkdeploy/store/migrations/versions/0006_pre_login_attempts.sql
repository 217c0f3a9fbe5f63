-- Attempts to prove a password, which are delayed the more of them fail.

CREATE UNLOGGED TABLE login_attempts (
    subject TEXT NOT NULL, 
    failures INTEGER NOT NULL, 
    last_attempt TIMESTAMP WITH TIME ZONE NOT NULL, 
    CONSTRAINT pk_login_attempts PRIMARY KEY (subject)
)
WITH (fillfactor = 50);

COMMENT ON TABLE login_attempts IS 'attempts to prove a password that were not the right one, or are being checked';

COMMENT ON COLUMN login_attempts.subject IS 'user <domain id> <name>, or address <client address>';

CREATE INDEX ix_login_attempts_last_attempt ON login_attempts (last_attempt);
