-- Providers of network services offer some of their services.

ALTER TABLE network_service_providers ADD COLUMN services TEXT[];

COMMENT ON COLUMN network_service_providers.services IS 'NULL: all that the provider has';
