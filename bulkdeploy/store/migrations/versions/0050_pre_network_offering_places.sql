-- The domains and zones that network offerings are for. Empty: all of them.

ALTER TABLE network_offerings
    ADD COLUMN domain_ids BIGINT[] DEFAULT '{}' NOT NULL,
    ADD COLUMN zone_ids BIGINT[] DEFAULT '{}' NOT NULL;
