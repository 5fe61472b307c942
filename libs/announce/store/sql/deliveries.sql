-- name: stage_attempts
-- COPY knows no ON CONFLICT: rows that may have been committed already go through a stage.
CREATE TEMPORARY TABLE staged_attempts (LIKE deliveries) ON COMMIT DROP;

-- name: merge_attempts
INSERT INTO deliveries SELECT * FROM staged_attempts ON CONFLICT DO NOTHING;

-- name: stage_dead_letters
CREATE TEMPORARY TABLE staged_dead_letters (LIKE deliveries_dlq INCLUDING DEFAULTS) ON COMMIT DROP;

-- name: merge_dead_letters
INSERT INTO deliveries_dlq SELECT * FROM staged_dead_letters ON CONFLICT DO NOTHING;

-- name: histories
-- A replay begins anew: it counts only what it did itself. $3 bounds the chunks that are opened.
SELECT
    asked.delivery_id,
    coalesce(max(made.attempts), 0) AS attempts,
    coalesce(bool_or(made.status IN ('sent', 'expired')), false) OR EXISTS (
        SELECT FROM deliveries_dlq AS dead
        WHERE dead.company_id = asked.company_id
          AND dead.alert_id = asked.alert_id
          AND dead.delivery_id = asked.delivery_id
          AND (dead.payload ->> 'replay_of')::uuid IS NOT DISTINCT FROM asked.replay_of
          AND dead.created_at >= $5
    ) AS ended
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) AS asked (delivery_id, replay_of, company_id, alert_id)
LEFT JOIN deliveries AS made
    ON made.delivery_id = asked.delivery_id
    AND made.replay_of IS NOT DISTINCT FROM asked.replay_of
    AND made.created_at >= $5
GROUP BY asked.delivery_id, asked.replay_of, asked.company_id, asked.alert_id;
