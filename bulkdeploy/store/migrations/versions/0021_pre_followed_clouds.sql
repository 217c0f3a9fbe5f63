-- How far the cloud that this service stands in front of is followed, and by which process.

CREATE TABLE followed_clouds (
    url TEXT NOT NULL, 
    leader UUID, 
    leased_until TIMESTAMP WITH TIME ZONE, 
    newest_event TIMESTAMP WITH TIME ZONE, 
    seen TIMESTAMP WITH TIME ZONE, 
    imported TIMESTAMP WITH TIME ZONE, 
    CONSTRAINT pk_followed_clouds PRIMARY KEY (url)
);

COMMENT ON COLUMN followed_clouds.leader IS 'the process that follows it';

COMMENT ON COLUMN followed_clouds.leased_until IS 'another process may follow it after this';

COMMENT ON COLUMN followed_clouds.newest_event IS 'its events up to this moment, by its clock, are here';

COMMENT ON COLUMN followed_clouds.seen IS 'what it was at this moment, by our clock, is here';

COMMENT ON COLUMN followed_clouds.imported IS 'when it was last read whole';
