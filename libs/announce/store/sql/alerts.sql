-- name: remember_alerts
-- A remembered alert outside the window ($6, seconds) is as good as forgotten.
INSERT INTO alert_dedupe AS known (company_id, alert_id, content_hash, stream_seq, accepted_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::timestamptz[])
ON CONFLICT (company_id, alert_id) DO UPDATE
SET content_hash = excluded.content_hash, stream_seq = excluded.stream_seq, accepted_at = excluded.accepted_at
WHERE known.accepted_at <= excluded.accepted_at - make_interval(secs => $6);

-- name: known_alerts
SELECT known.company_id, known.alert_id, known.content_hash, known.stream_seq
FROM unnest($1::text[], $2::text[]) AS asked (company_id, alert_id)
JOIN alert_dedupe AS known USING (company_id, alert_id)
WHERE known.accepted_at > now() - make_interval(secs => $3);

-- name: forget_alerts
DELETE FROM alert_dedupe
WHERE (company_id, alert_id) IN (
    SELECT company_id, alert_id FROM alert_dedupe
    WHERE accepted_at <= now() - make_interval(secs => $1)
    LIMIT $2
);

-- name: insert_alerts
INSERT INTO alerts (company_id, alert_id, accepted_at, severity, title, expires_at, content, traceparent)
SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::timestamptz[], $7::jsonb[], $8::text[])
ON CONFLICT DO NOTHING;

-- name: fanout_progress
SELECT fanout_after, deliveries, fanned_out_at IS NOT NULL AS finished
FROM alerts
WHERE company_id = $1 AND alert_id = $2 AND accepted_at = $3;

-- name: save_fanout_progress
UPDATE alerts SET fanout_after = $4, deliveries = $5
WHERE company_id = $1 AND alert_id = $2 AND accepted_at = $3;

-- name: finish_fanouts
UPDATE alerts SET deliveries = done.deliveries, fanned_out_at = now()
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[]) AS done (company_id, alert_id, accepted_at, deliveries)
WHERE alerts.company_id = done.company_id AND alerts.alert_id = done.alert_id AND alerts.accepted_at = done.accepted_at;
