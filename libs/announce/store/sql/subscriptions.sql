-- name: save_subscriptions
INSERT INTO subscriptions (company_id, channel, address, min_severity, tags)
SELECT $1, channel, address, min_severity, coalesce(string_to_array(nullif(tags, ''), ','), '{}')
FROM unnest($2::text[], $3::text[], $4::smallint[], $5::text[]) AS given (channel, address, min_severity, tags)
ON CONFLICT (company_id, channel, address) DO UPDATE
SET min_severity = excluded.min_severity, tags = excluded.tags, saved_at = excluded.saved_at,
    disabled_at = NULL, disabled_reason = NULL;

-- name: matching_subscriptions
SELECT subscription_id, channel, address
FROM subscriptions
WHERE company_id = $1
  AND subscription_id > $2
  AND min_severity <= $3
  AND (tags = '{}' OR tags && $4::text[])
  AND disabled_at IS NULL
ORDER BY subscription_id
LIMIT $5;
