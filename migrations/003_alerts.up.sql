CREATE TABLE alerts (
    company_id   text        NOT NULL,
    alert_id     text        NOT NULL,
    -- When JetStream took it.
    accepted_at  timestamptz NOT NULL,
    severity     text        NOT NULL,
    title        text        NOT NULL,
    expires_at   timestamptz,
    -- The alert as its producer wrote it.
    content      jsonb       NOT NULL,
    traceparent  text        NOT NULL,
    -- Fan-out goes on from here after a crash: the last subscription that has its envelope in BA_DELIVER.
    fanout_after bigint      NOT NULL DEFAULT 0,
    deliveries   bigint      NOT NULL DEFAULT 0,
    fanned_out_at timestamptz,
    PRIMARY KEY (company_id, alert_id, accepted_at)
);
CREATE INDEX alerts_accepted ON alerts (accepted_at);
CREATE INDEX alerts_unfinished ON alerts (accepted_at) WHERE fanned_out_at IS NULL;

-- The second line against duplicates, behind JetStream's own window.
CREATE TABLE alert_dedupe (
    company_id   text        NOT NULL,
    alert_id     text        NOT NULL,
    content_hash bytea       NOT NULL,
    -- Which message of BA_ALERTS came first: the same one again is a redelivery, another one is a duplicate.
    stream_seq   bigint      NOT NULL,
    accepted_at  timestamptz NOT NULL,
    PRIMARY KEY (company_id, alert_id)
);
CREATE INDEX alert_dedupe_accepted ON alert_dedupe (accepted_at);
