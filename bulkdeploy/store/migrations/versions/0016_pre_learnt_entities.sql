-- What another cloud was seen to have: only that is removed here when it is no longer there.

CREATE TABLE learnt_entities (
    uuid UUID NOT NULL, 
    entity TEXT NOT NULL, 
    CONSTRAINT pk_learnt_entities PRIMARY KEY (uuid)
);
