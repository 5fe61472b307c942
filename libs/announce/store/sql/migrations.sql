-- name: lock
SELECT pg_advisory_lock(hashtext('broad-announce migrations'));

-- name: unlock
SELECT pg_advisory_unlock(hashtext('broad-announce migrations'));

-- name: create
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: applied
SELECT version, name, checksum FROM schema_migrations ORDER BY version;

-- name: insert
INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3);

-- name: delete
DELETE FROM schema_migrations WHERE version = $1;
