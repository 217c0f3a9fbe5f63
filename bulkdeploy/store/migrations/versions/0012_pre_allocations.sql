-- Claims say since when they are held; those from before, since now.

ALTER TABLE host_claims ADD COLUMN created TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL;

ALTER TABLE storage_claims ADD COLUMN created TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL;

-- Pods and clusters say how readily they take new VMs.

ALTER TABLE pods ADD COLUMN alloc_policy TEXT DEFAULT 'preferred' NOT NULL;

ALTER TABLE clusters ADD COLUMN alloc_policy TEXT DEFAULT 'preferred' NOT NULL;
