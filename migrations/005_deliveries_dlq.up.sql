-- One row a delivery that failed for good, and one an alert that a NATS producer sent and that can't be taken.
CREATE TABLE deliveries_dlq (
    id               uuid        NOT NULL,
    created_at       timestamptz NOT NULL,
    company_id       text        NOT NULL,
    alert_id         text,
    delivery_id      uuid,
    channel          text        NOT NULL,
    target           text,
    original_subject text        NOT NULL,
    -- The whole message as it was published, or {"raw_base64": …} where it isn't JSON that Postgres can hold.
    payload          jsonb       NOT NULL,
    attempts         integer     NOT NULL,
    reason           text        NOT NULL,
    status_code      integer,
    last_error       text        NOT NULL,
    first_attempt_at timestamptz NOT NULL,
    discarded        boolean     NOT NULL DEFAULT false,
    discarded_at     timestamptz,
    discarded_by     text,
    discard_reason   text,
    replays          integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (id, created_at)
);
SELECT create_hypertable('deliveries_dlq', by_range('created_at', INTERVAL '1 day'), create_default_indexes => false);
CREATE INDEX deliveries_dlq_company ON deliveries_dlq (company_id, created_at DESC);
CREATE INDEX deliveries_dlq_alert ON deliveries_dlq (company_id, alert_id, created_at DESC);
CREATE INDEX deliveries_dlq_live ON deliveries_dlq (created_at DESC) WHERE NOT discarded;
