-- The addresses from which users have logged in: a correct password from one of them is never delayed.

CREATE TABLE known_logins (
    subject TEXT NOT NULL,
    last_login TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_known_logins PRIMARY KEY (subject)
);

COMMENT ON TABLE known_logins IS 'from which addresses users have logged in';

COMMENT ON COLUMN known_logins.subject IS 'user <domain id> <name> from <client address>';

CREATE INDEX ix_known_logins_last_login ON known_logins (last_login);

COMMENT ON COLUMN login_attempts.subject IS
    'user <domain id> <name> from <client address>, user <domain id> <name>, or address <client address>';
