-- name: create_company
INSERT INTO companies (company_id, name, rate_per_s) VALUES ($1, $2, $3) ON CONFLICT (company_id) DO NOTHING;

-- name: create_key
INSERT INTO ingest_keys (key_id, company_id, secret_ciphertext) VALUES ($1, $2, $3);

-- name: revoke_key
UPDATE ingest_keys SET revoked_at = now() WHERE key_id = $1 AND revoked_at IS NULL;

-- name: live_keys
SELECT key_id, company_id, secret_ciphertext FROM ingest_keys WHERE revoked_at IS NULL;

-- name: companies
SELECT company_id, rate_per_s FROM companies;
