CREATE TABLE companies (
    company_id  text        PRIMARY KEY CHECK (company_id ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    name        text        NOT NULL,
    -- Alerts a second that ingest takes from it; NULL leaves it to BA_INGESTD_COMPANY_RATE_PER_S.
    rate_per_s  double precision CHECK (rate_per_s > 0),
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE ingest_keys (
    key_id            text        PRIMARY KEY,
    company_id        text        NOT NULL REFERENCES companies ON DELETE CASCADE,
    -- Verifying a MAC needs the secret itself, so it is encrypted (BA_SECRET_KEYS), not hashed.
    secret_ciphertext bytea       NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now(),
    revoked_at        timestamptz
);
CREATE INDEX ingest_keys_company ON ingest_keys (company_id);

-- ingestd keeps the keys in memory; it hears of every change at once.
CREATE FUNCTION notify_keyring() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY ba_keyring;
    RETURN NULL;
END
$$;
CREATE TRIGGER companies_notify AFTER INSERT OR UPDATE OR DELETE ON companies
    FOR EACH STATEMENT EXECUTE FUNCTION notify_keyring();
CREATE TRIGGER ingest_keys_notify AFTER INSERT OR UPDATE OR DELETE ON ingest_keys
    FOR EACH STATEMENT EXECUTE FUNCTION notify_keyring();

CREATE TABLE subscriptions (
    -- Fan-out reads in this order and remembers how far it came.
    subscription_id bigint      GENERATED ALWAYS AS IDENTITY,
    company_id      text        NOT NULL REFERENCES companies ON DELETE CASCADE,
    channel         text        NOT NULL,
    address         text        NOT NULL,
    -- 0 info, 1 warning, 2 critical: the least that it wants to hear of.
    min_severity    smallint    NOT NULL DEFAULT 0 CHECK (min_severity BETWEEN 0 AND 2),
    tags            text[]      NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now(),
    disabled_at     timestamptz,
    disabled_reason text,
    PRIMARY KEY (company_id, subscription_id),
    UNIQUE (company_id, channel, address)
);
