-- One row an attempt. Append-only: updating a hypertable plans over every chunk.
CREATE TABLE deliveries (
    id                  uuid        NOT NULL,
    created_at          timestamptz NOT NULL,
    company_id          text        NOT NULL,
    alert_id            text        NOT NULL,
    delivery_id         uuid        NOT NULL,
    channel             text        NOT NULL,
    target              text        NOT NULL,
    attempts            integer     NOT NULL,
    status              text        NOT NULL CHECK (status IN ('sent', 'failed', 'expired')),
    reason              text,
    status_code         integer,
    last_error          text,
    latency_ms          double precision,
    provider_message_id text,
    replay_of           uuid,
    PRIMARY KEY (id, created_at)
);
SELECT create_hypertable('deliveries', by_range('created_at', INTERVAL '1 day'), create_default_indexes => false);
CREATE INDEX deliveries_delivery ON deliveries (delivery_id, created_at);
CREATE INDEX deliveries_alert ON deliveries (company_id, alert_id, created_at);
