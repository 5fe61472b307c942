-- name: lock_companies
-- Whoever changes subscriptions holds their companies first, taken in this order: so no two can wait for each other.
SELECT FROM companies WHERE company_id = ANY ($1::text[]) ORDER BY company_id FOR NO KEY UPDATE;

-- name: move_subscriptions
-- A company that has a subscription for the new address keeps that one, and of several that would become one the first.
WITH moved AS (
    SELECT DISTINCT ON (subscription_id, company_id) subscription_id, company_id, channel, new_address
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[])
        AS given (company_id, channel, address, new_address, attempted_at)
    JOIN subscriptions AS held USING (company_id, channel, address)
    WHERE held.disabled_at IS NULL AND held.saved_at <= given.attempted_at AND given.new_address <> given.address
    ORDER BY subscription_id, company_id, attempted_at DESC
),
judged AS (
    SELECT
        moved.*,
        row_number() OVER (PARTITION BY company_id, channel, new_address ORDER BY subscription_id) > 1
        OR EXISTS (
            SELECT FROM subscriptions AS other
            WHERE other.company_id = moved.company_id
              AND other.channel = moved.channel
              AND other.address = moved.new_address
        ) AS needless
    FROM moved
)
UPDATE subscriptions AS held
SET address = CASE WHEN judged.needless THEN held.address ELSE judged.new_address END,
    disabled_at = CASE WHEN judged.needless THEN now() END,
    disabled_reason = CASE WHEN judged.needless THEN $6 END
FROM judged
WHERE held.company_id = judged.company_id AND held.subscription_id = judged.subscription_id;

-- name: disable_subscriptions
UPDATE subscriptions AS held
SET disabled_at = now(), disabled_reason = gone.reason
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[])
    AS gone (company_id, channel, address, reason, attempted_at)
WHERE held.company_id = gone.company_id
  AND held.channel = gone.channel
  AND held.address = gone.address
  AND held.disabled_at IS NULL
  AND held.saved_at <= gone.attempted_at;

-- name: remember_moves
-- In one order, as everywhere; of several moves of one target the last one counts.
INSERT INTO moved_targets AS known (channel, address, new_address, moved_at)
SELECT DISTINCT ON (channel, address) channel, address, new_address, attempted_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[]) AS given (channel, address, new_address, attempted_at)
WHERE new_address <> address
ORDER BY channel, address, attempted_at DESC
ON CONFLICT (channel, address) DO UPDATE SET new_address = excluded.new_address, moved_at = excluded.moved_at
WHERE known.moved_at < excluded.moved_at;

-- name: moved_targets
SELECT address, new_address FROM moved_targets WHERE channel = $1 ORDER BY moved_at, address;
