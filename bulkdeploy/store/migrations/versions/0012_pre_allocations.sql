-- Claims say since when they are held; those from before, since now.

ALTER TABLE host_claims ADD COLUMN created TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL;

ALTER TABLE storage_claims ADD COLUMN created TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL;
