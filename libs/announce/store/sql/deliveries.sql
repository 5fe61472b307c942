-- name: stage_attempts
-- COPY knows no ON CONFLICT: rows that may have been committed already go through a stage.
CREATE TEMPORARY TABLE staged_attempts (LIKE deliveries) ON COMMIT DROP;

-- name: merge_attempts
INSERT INTO deliveries SELECT * FROM staged_attempts ORDER BY id, created_at ON CONFLICT DO NOTHING;

-- name: stage_dead_letters
CREATE TEMPORARY TABLE staged_dead_letters (LIKE deliveries_dlq INCLUDING DEFAULTS) ON COMMIT DROP;

-- name: merge_dead_letters
INSERT INTO deliveries_dlq SELECT * FROM staged_dead_letters ORDER BY id, created_at ON CONFLICT DO NOTHING;

-- name: histories
-- A row for each that is asked for, in that order. A replay begins anew: it counts only what it did itself.
-- $5 bounds the chunks that are opened. Whatever else was written of it, what was sent was sent.
SELECT
    done.attempts AS made, done.tries, done.first_at,
    ended.status, ended.target, ended.attempts, ended.reason, ended.status_code, ended.created_at
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) WITH ORDINALITY
    AS asked (delivery_id, replay_of, company_id, alert_id, place)
CROSS JOIN LATERAL (
    SELECT
        coalesce(max(made.attempts), 0) AS attempts,
        min(made.created_at) AS first_at,
        count(*) FILTER (WHERE made.status <> 'expired' AND (made.reason = ANY ($6::text[])) IS NOT TRUE) AS tries
    FROM deliveries AS made
    WHERE made.delivery_id = asked.delivery_id
      AND made.replay_of IS NOT DISTINCT FROM asked.replay_of
      AND made.created_at >= $5
) AS done
LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT status, target, attempts, reason, status_code, created_at
        FROM deliveries AS made
        WHERE made.delivery_id = asked.delivery_id
          AND made.replay_of IS NOT DISTINCT FROM asked.replay_of
          AND made.created_at >= $5
          AND made.status IN ('sent', 'expired')
        UNION ALL
        SELECT 'failed', target, attempts, reason, status_code, created_at
        FROM deliveries_dlq AS dead
        WHERE dead.company_id = asked.company_id
          AND dead.alert_id = asked.alert_id
          AND dead.delivery_id = asked.delivery_id
          AND (dead.payload ->> 'replay_of')::uuid IS NOT DISTINCT FROM asked.replay_of
          AND dead.created_at >= $5
    ) AS ends
    ORDER BY status <> 'sent', created_at
    LIMIT 1
) AS ended ON true
ORDER BY asked.place;
